"""Share plans: which ConfigMaps for admission are written and deleted.

A plan is written whole, all its shards with a new epoch, when its tenants change or one of its shards is missing or was
changed by hand, and when its capacity has moved. The epoch is the time of the write, so that it grows across leaders
and deletions.
"""

from collections.abc import Mapping
from math import isclose
from typing import Final

from forebay.planner.share.tenants.wanted_plans import WantedPlan
from forebay.workloads.objects.share_plan import shard_name, share_plan_body
from forebay.world.plan import DeleteSharePlan, StoreSharePlan
from forebay.world.share_plans import SharePlanShard, StoredSharePlans

CAPACITY_STEP: Final = 0.02
"""Relative change of the capacity below which a plan stays. What a replica carries is known no better."""


def share_plan_actions(
    wanted: Mapping[str, WantedPlan], stored: StoredSharePlans, now: float
) -> tuple[StoreSharePlan | DeleteSharePlan, ...]:
    """The writes and deletions, in the order of names. `wanted` is by model."""
    by_name = {shard.name: shard for shard in stored.shards}
    actions: list[StoreSharePlan | DeleteSharePlan] = []
    kept: set[str] = set()
    for model in sorted(wanted):
        plan = wanted[model]
        names = [shard_name(model, shard) for shard in range(len(plan.tenants.shards))]
        kept.update(names)
        present = [by_name.get(name) for name in names]
        if not _is_stored(model, plan, present):
            actions += _writes(model, plan, names, by_name, stored.namespace, now)
    surplus = (by_name[name] for name in sorted(by_name.keys() - kept))
    return (*actions, *(DeleteSharePlan(shard.model, stored.namespace, shard.name, shard.uid) for shard in surplus))


def _is_stored(model: str, plan: WantedPlan, present: list[SharePlanShard | None]) -> bool:
    first = present[0]
    return first is not None and all(
        shard is not None
        and (shard.model, shard.epoch, shard.shard, shard.shards) == (model, first.epoch, place, len(present))
        and shard.digest == plan.tenants.digests[place]
        and shard.capacity == first.capacity
        and _same_capacity(shard.capacity, plan.capacity)
        for place, shard in enumerate(present)
    )


def _same_capacity(stored: float | None, wanted: float | None) -> bool:
    if stored is None or wanted is None:
        return stored is wanted
    return isclose(stored, wanted, rel_tol=CAPACITY_STEP)


def _writes(
    model: str,
    plan: WantedPlan,
    names: list[str],
    by_name: Mapping[str, SharePlanShard],
    namespace: str,
    now: float,
) -> list[StoreSharePlan]:
    epoch = max([int(now), *(by_name[name].epoch + 1 for name in names if name in by_name)])
    capacity = None if plan.capacity is None else round(plan.capacity, 1)
    return [
        StoreSharePlan(
            model,
            name,
            resource_version=by_name[name].resource_version if name in by_name else None,
            body=share_plan_body(namespace, model, epoch, capacity, plan.tenants.shards, place),
        )
        for place, name in enumerate(names)
    ]
