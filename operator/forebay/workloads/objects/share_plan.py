"""Share plans: what admission enforces for one model, as ConfigMaps in the operator's namespace.

An object holds 1 MiB, so the tenants of a model stand in shards. All shards of a plan have the same epoch: a reader
that finds two waits for the rest, and never enforces half of a plan. The content of a shard is JSON under `DATA_KEY`.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

from forebay.api import labels
from forebay.api.tenant_quota import QuotaMode, TenantClass
from forebay.workloads.canonical_json import canonical_json, present
from forebay.world.share_plans import SharePlanShard

CONFIG_MAP: Final = "ConfigMap"
DATA_KEY: Final = "plan.json"
FORMAT: Final = 1
"""A reader that knows another format leaves the plan it has."""
MOST_BYTES: Final = 800_000
"""Of the tenants in a shard; metadata and the server's own fields take the rest of the 1 MiB."""


@dataclass(frozen=True, slots=True)
class PlannedTenant:
    """A tenant of one model. Amounts are normalized tokens per minute; None is no limit, or nothing guaranteed."""

    name: str
    listed: bool = True
    """Whether its quota lists the model. Others may not call it: groups, and the tenant of the model's namespace."""
    parent: str | None = None
    tenant_class: TenantClass = TenantClass.INTERACTIVE
    mode: QuotaMode = QuotaMode.ENFORCE
    weight: int = 1
    guaranteed: int | None = None
    limit: int | None = None
    requests_per_minute: int | None = None
    concurrency: int | None = None

    def as_json(self) -> dict[str, Any]:
        return present(
            {
                "name": self.name,
                "listed": self.listed,
                "parent": self.parent,
                "class": self.tenant_class.value,
                "mode": self.mode.value,
                "weight": self.weight,
                "guaranteed": self.guaranteed,
                "limit": self.limit,
                "requestsPerMinute": self.requests_per_minute,
                "concurrency": self.concurrency,
            }
        )


def sharded(tenants: Iterable[PlannedTenant], most_bytes: int = MOST_BYTES) -> tuple[tuple[PlannedTenant, ...], ...]:
    """The tenants by name, in shards; one empty shard for none."""
    shards: list[list[PlannedTenant]] = [[]]
    size = 0
    for tenant in sorted(tenants, key=lambda each: each.name):
        of_tenant = len(canonical_json(tenant.as_json())) + 1
        if shards[-1] and size + of_tenant > most_bytes:
            shards.append([])
            size = 0
        shards[-1].append(tenant)
        size += of_tenant
    return tuple(map(tuple, shards))


def digest_of(tenants: Sequence[Mapping[str, Any]]) -> str:
    """A hash of the tenants of one shard, as JSON."""
    return hashlib.sha256(canonical_json(list(tenants)).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class PlannedShards:
    """The tenants of one model in shards, and a digest of each."""

    shards: tuple[tuple[PlannedTenant, ...], ...]
    digests: tuple[str, ...]

    @classmethod
    def of(cls, tenants: Iterable[PlannedTenant]) -> Self:
        shards = sharded(tenants)
        return cls(shards, tuple(digest_of([tenant.as_json() for tenant in shard]) for shard in shards))


def shard_name(model: str, shard: int) -> str:
    """`model` is namespace/name. A namespace has no dot, so no two models have the same name."""
    return f"share-plan.{model.replace('/', '.', 1)}.{shard}"


def share_plan_body(
    namespace: str,
    model: str,
    epoch: int,
    capacity: float | None,
    shards: Sequence[Sequence[PlannedTenant]],
    shard: int,
) -> dict[str, Any]:
    """The ConfigMap of one shard. `capacity` is in normalized tokens per minute, None while it is unknown."""
    content = {
        "format": FORMAT,
        "epoch": epoch,
        "model": model,
        "shard": shard,
        "shards": len(shards),
        "capacity": capacity,
        "tenants": [tenant.as_json() for tenant in shards[shard]],
    }
    return {
        "apiVersion": "v1",
        "kind": CONFIG_MAP,
        "metadata": {
            "name": shard_name(model, shard),
            "namespace": namespace,
            "labels": {labels.MANAGED_BY: labels.MANAGER, labels.SHARE_PLAN: "tokens"},
        },
        "data": {DATA_KEY: canonical_json(content)},
    }


def read_shard(name: str, uid: str, resource_version: str, data: Mapping[str, str]) -> SharePlanShard:
    """The shard as it is stored. One that cannot be read has no model and epoch 0, and is replaced."""
    unreadable = SharePlanShard(name, uid, resource_version)
    try:
        content = json.loads(data[DATA_KEY])
        if content["format"] != FORMAT:
            return unreadable
        capacity = content["capacity"]
        return SharePlanShard(
            name,
            uid,
            resource_version,
            model=str(content["model"]),
            epoch=int(content["epoch"]),
            shard=int(content["shard"]),
            shards=int(content["shards"]),
            capacity=None if capacity is None else float(capacity),
            digest=digest_of(content["tenants"]),
        )
    except (KeyError, TypeError, ValueError):
        return unreadable
