"""WarmPools: placeholders that belong to no service. They get what the services' own have left of the limits."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from forebay.api.reasons import Reason
from forebay.api.spec.schedule_spec import ScheduleState
from forebay.api.warm_pool import PoolScheduleStatus, PoolStatus
from forebay.planner.memory import PoolMemory
from forebay.planner.observe.fleet_context import FleetContext
from forebay.planner.reconcile.placeholders import (
    PlaceholderBudget,
    PlaceholderShare,
    WantedPlaceholders,
    placeholder_counts_of,
    share_of,
)
from forebay.planner.reconcile.pool_schedules import PoolSchedules, pool_schedule_statuses, pool_schedules_of
from forebay.planner.report.conditions import WARM, ConditionAnswer, conditions, held_places
from forebay.world.plan import PoolPlan
from forebay.world.world import WarmPoolView


@dataclass(frozen=True, slots=True)
class PoolShare:
    """What the planner makes of one pool."""

    plan: PoolPlan
    memory: PoolMemory
    calendar: PoolSchedules


def pool_shares(
    pools: Iterable[WarmPoolView], fleet: FleetContext, budget: PlaceholderBudget, known: Mapping[str, PoolMemory]
) -> tuple[PoolShare, ...]:
    """By name, so that what is scarce goes to the same ones at each tick."""
    ordered = sorted(pools, key=lambda pool: (pool.key, pool.uid))
    return tuple(
        _remembered(_share(_recalled(pool, known), fleet, budget, known.get(pool.uid, PoolMemory())))
        for pool in ordered
    )


def _recalled(pool: WarmPoolView, known: Mapping[str, PoolMemory]) -> WarmPoolView:
    """With the status as planned last, which a write that failed has not brought there."""
    memory = known.get(pool.uid)
    return pool if memory is None or memory.status is None else replace(pool, status=memory.status)


def _remembered(share: PoolShare) -> PoolShare:
    return replace(share, memory=replace(share.memory, status=share.plan.status))


def _share(pool: WarmPoolView, fleet: FleetContext, budget: PlaceholderBudget, memory: PoolMemory) -> PoolShare:
    """Total: a fault in planning one pool holds that pool alone."""
    try:
        return _planned(pool, fleet, budget, memory)
    except Exception as error:  # noqa: BLE001 - one pool's fault must not hold the others
        told = f"Planning failed, so nothing is done for this pool: {type(error).__name__}: {error}"
        found = conditions(
            [(WARM, ConditionAnswer("False", Reason.PLANNING_FAILED, told))],
            pool.status.conditions,
            pool.generation,
            fleet.now,
        )
        failed = PoolPlan(pool.key, pool.uid, (), pool.status.model_copy(update={"conditions": found}))
        return PoolShare(failed, memory, PoolSchedules())


def _planned(pool: WarmPoolView, fleet: FleetContext, budget: PlaceholderBudget, memory: PoolMemory) -> PoolShare:
    if pool.deleting:
        return PoolShare(PoolPlan(pool.key, pool.uid, (), pool.status), memory, PoolSchedules())
    if pool.place is None or pool.shape is None:
        answer = ConditionAnswer("False", Reason.SPEC_INVALID, pool.problem)
        plan = _reported(
            pool, PlaceholderShare(), answer, pool.status.ready, pool.placeholders, pool.status.schedules, fleet.now
        )
        return PoolShare(plan, memory, PoolSchedules())
    calendar, memory = pool_schedules_of(pool, fleet, memory)
    wanted = calendar.wanted(pool.placeholders, fleet.now)
    hold = WantedPlaceholders(pool.key, pool.uid, pool.place, wanted, fleet.placeholders.get(pool.uid, ()))
    under_ceiling = budget.places(pool.place)
    share, found = share_of(hold, fleet, budget), placeholder_counts_of(hold)
    schedules = pool_schedule_statuses(calendar, pool, hold, share, under_ceiling, fleet)
    warm = _foreseen(held_places(found, share.held), schedules)
    plan = _reported(pool, share, warm, found.ready, wanted, schedules, fleet.now)
    return PoolShare(plan, memory, calendar)


def _foreseen(warm: ConditionAnswer, schedules: Iterable[PoolScheduleStatus]) -> ConditionAnswer:
    """What is wanted now is there; what will be wanted is not certain to be."""
    risk = next((seen for seen in schedules if seen.state is ScheduleState.AT_RISK), None)
    if warm.status != "True" or risk is None:
        return warm
    return ConditionAnswer(
        warm.status, Reason.SCHEDULE_AT_RISK, f'{warm.message} Schedule "{risk.name}": {risk.message}'
    )


def _reported(
    pool: WarmPoolView,
    share: PlaceholderShare,
    warm: ConditionAnswer,
    ready: int,
    wanted: int,
    schedules: tuple[PoolScheduleStatus, ...],
    now: float,
) -> PoolPlan:
    status = PoolStatus(
        observed_generation=pool.generation,
        wanted=wanted,
        ready=ready,
        conditions=conditions([(WARM, warm)], pool.status.conditions, pool.generation, now),
        schedules=schedules,
    )
    return PoolPlan(pool.key, pool.uid, share.actions, status)
