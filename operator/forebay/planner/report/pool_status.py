"""The status of a WarmPool, and its part of the plan."""

from collections.abc import Iterable
from dataclasses import replace

from forebay.api.reasons import Reason
from forebay.api.spec.schedule_spec import ScheduleState
from forebay.api.warm_pool import PoolScheduleStatus, PoolStatus
from forebay.planner.memory import PoolMemory
from forebay.planner.observe.fleet_context import FleetContext
from forebay.planner.reconcile.placeholders import placeholder_counts_of
from forebay.planner.reconcile.pool_schedules import stored_lead_times
from forebay.planner.reconcile.reconcile_outcome import PoolOutcome
from forebay.planner.report.conditions import WARM, ConditionAnswer, conditions, held_places
from forebay.planner.report.pool_schedule_status import pool_schedule_statuses
from forebay.world.plan import PoolPlan


def pool_report(outcome: PoolOutcome, fleet: FleetContext) -> tuple[PoolPlan, PoolMemory]:
    """The plan and memory of one pool. An error while reporting one pool affects that pool alone."""
    try:
        plan = _failed(outcome, outcome.error, fleet.now) if outcome.error else _plan(outcome, fleet)
    except Exception as error:  # noqa: BLE001 - one pool's fault must not hold the others
        plan = _failed(outcome, error, fleet.now)
    return plan, replace(outcome.memory, status=plan.status)


def _failed(outcome: PoolOutcome, error: Exception, now: float) -> PoolPlan:
    pool = outcome.pool
    message = f"Planning failed, so nothing is done for this pool: {type(error).__name__}: {error}"
    answers = [(WARM, ConditionAnswer("False", Reason.PLANNING_FAILED, message))]
    pool_conditions = conditions(answers, pool.status.conditions, pool.generation, now)
    return PoolPlan(pool.key, pool.uid, (), pool.status.model_copy(update={"conditions": pool_conditions}))


def _plan(outcome: PoolOutcome, fleet: FleetContext) -> PoolPlan:
    pool = outcome.pool
    if pool.deleting:
        return PoolPlan(pool.key, pool.uid, (), pool.status)
    if outcome.wanted is None:
        answer = ConditionAnswer("False", Reason.SPEC_INVALID, pool.problem)
        return _reported(outcome, answer, pool.status.ready, pool.placeholders, pool.status.schedules, fleet.now)
    counts = placeholder_counts_of(outcome.wanted)
    schedules = pool_schedule_statuses(outcome, fleet)
    warm = _with_risk(held_places(counts, outcome.placeholders.held_back), schedules)
    return _reported(outcome, warm, counts.ready, outcome.wanted.count, schedules, fleet.now)


def _with_risk(warm: ConditionAnswer, schedules: Iterable[PoolScheduleStatus]) -> ConditionAnswer:
    """The condition, with the risk named when every wanted placeholder is ready now but a schedule is at risk."""
    risk = next((status for status in schedules if status.state is ScheduleState.AT_RISK), None)
    if warm.status != "True" or risk is None:
        return warm
    message = f'{warm.message} Schedule "{risk.name}": {risk.message}'
    return ConditionAnswer(warm.status, Reason.SCHEDULE_AT_RISK, message)


def _reported(
    outcome: PoolOutcome,
    warm: ConditionAnswer,
    ready: int,
    wanted: int,
    schedules: tuple[PoolScheduleStatus, ...],
    now: float,
) -> PoolPlan:
    pool = outcome.pool
    status = PoolStatus(
        observed_generation=pool.generation,
        wanted=wanted,
        ready=ready,
        conditions=conditions([(WARM, warm)], pool.status.conditions, pool.generation, now),
        schedules=schedules,
        starts=stored_lead_times(outcome.memory.lead_times),
    )
    return PoolPlan(pool.key, pool.uid, outcome.actions, status)
