"""WarmPools: placeholders that belong to no service. They get what services' placeholders leave of the limits."""

from dataclasses import replace

from forebay.api.warm_pool import WARM_POOL_KIND
from forebay.planner.memory import PoolMemory
from forebay.planner.observe.fleet_context import FleetContext
from forebay.planner.reconcile.placeholders import PlaceholderBudget, WantedPlaceholders, placeholder_outcome_of
from forebay.planner.reconcile.pool_schedules import PoolSchedules, pool_schedules_of, recalled_lead_times
from forebay.planner.reconcile.reconcile_outcome import PoolOutcome
from forebay.workloads.objects.action_objects import with_objects
from forebay.workloads.objects.ownership import Owner
from forebay.world.plan import in_order
from forebay.world.world import WarmPoolView


def reconciled_pools(fleet: FleetContext, budget: PlaceholderBudget) -> tuple[PoolOutcome, ...]:
    """The outcomes of all pools, ordered by name, so that scarce capacity goes to the same pools at each tick."""
    ordered = sorted(fleet.world.warm_pools, key=lambda pool: (pool.key, pool.uid))
    return tuple(_reconciled(pool, fleet, budget) for pool in ordered)


def _reconciled(pool: WarmPoolView, fleet: FleetContext, budget: PlaceholderBudget) -> PoolOutcome:
    """The outcome of one pool. An error while planning one pool affects that pool alone."""
    memory = fleet.before.pools.get(pool.uid) or PoolMemory(lead_times=recalled_lead_times(pool.status))
    if memory.status is not None:
        pool = replace(pool, status=memory.status)
    try:
        return _planned(pool, fleet, budget, memory)
    except Exception as error:  # noqa: BLE001 - one pool's fault must not hold the others
        return PoolOutcome(pool, memory, PoolSchedules(), error=error)


def _planned(pool: WarmPoolView, fleet: FleetContext, budget: PlaceholderBudget, memory: PoolMemory) -> PoolOutcome:
    if pool.deleting or pool.place is None or pool.shape is None:
        return PoolOutcome(pool, memory, PoolSchedules())
    schedules, memory = pool_schedules_of(pool, fleet, memory)
    count = schedules.wanted(pool.placeholders, fleet.now)
    wanted = WantedPlaceholders(pool.key, pool.uid, pool.place, count, fleet.placeholders.get(pool.uid, ()))
    under_ceiling = budget.places(pool.place)
    share = placeholder_outcome_of(wanted, fleet, budget)
    owner = Owner(pool.key, pool.uid, WARM_POOL_KIND)
    actions = with_objects(in_order(share.actions), owner, fleet.hostnames, fleet.now)
    return PoolOutcome(pool, memory, schedules, wanted, share, actions, under_ceiling)
