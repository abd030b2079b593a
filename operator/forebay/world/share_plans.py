"""Share plans as facts: what is stored for admission of each model's shares."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SharePlanShard:
    """One ConfigMap with a part of a model's tenants."""

    name: str
    uid: str
    resource_version: str
    model: str = ""
    """namespace/name; empty when the content cannot be read."""
    epoch: int = 0
    shard: int = 0
    shards: int = 0
    """How many shards the plan has."""
    capacity: float | None = None
    """Normalized tokens per minute; None is unknown."""
    digest: str = ""
    """Of its tenants."""


@dataclass(frozen=True, slots=True)
class StoredSharePlans:
    namespace: str
    """Where they are, which is the operator's own."""
    shards: tuple[SharePlanShard, ...] = ()
