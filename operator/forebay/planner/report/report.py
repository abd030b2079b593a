"""Report: the fifth step. The statuses and events of every service and pool, and what is remembered of the tick."""

from dataclasses import replace

from forebay.planner.decide.decided_context import DecidedContext
from forebay.planner.memory import ServiceMemory, State
from forebay.planner.observe.fleet_context import FleetContext
from forebay.planner.observe.isolation import failed
from forebay.planner.observe.replicas import ReplicaState
from forebay.planner.reconcile.reconcile_outcome import FleetOutcome, ServiceOutcome, UnplannedOutcome
from forebay.planner.reconcile.steps import Step, StepKind
from forebay.planner.reconcile.terminations import noted_block
from forebay.planner.report.events import forgotten_learning, rule_changed, scaled, told, transitions
from forebay.planner.report.next_wake import wake_in_seconds
from forebay.planner.report.pool_status import pool_report
from forebay.planner.report.service_status import status_of, unplanned_status
from forebay.world.plan import Plan, ServicePlan


def report(fleet: FleetContext, outcome: FleetOutcome) -> tuple[Plan, State]:
    services = {service.service.uid: service_report(service, fleet.now) for service in outcome.services}
    pools = tuple(pool_report(pool, fleet) for pool in outcome.pools)
    contexts = (service.context for service in outcome.services if isinstance(service, ServiceOutcome))
    of_pools = (floor for pool in outcome.pools for floor in pool.schedules.window_floors)
    plan = Plan(
        services=tuple(service_plan for service_plan, _ in services.values()),
        wake_in_seconds=wake_in_seconds(contexts, of_pools, fleet.now),
        warm_pools=tuple(pool_plan for pool_plan, _ in pools),
    )
    after = State(
        since=fleet.before.since,
        services={uid: services[uid][1] for uid in sorted(services)},
        pools={pool_plan.uid: memory for pool_plan, memory in pools},
        preemptions=fleet.preemptions,
        nodes_down=fleet.nodes_down,
        drains=outcome.drains,
        creates=outcome.creates,
        census=fleet.before.census,
    )
    return plan, after


def service_report(outcome: ServiceOutcome | UnplannedOutcome, now: float) -> tuple[ServicePlan, ServiceMemory]:
    """One service's share of the plan, and what is remembered of it."""
    try:
        return _planned(outcome, now) if isinstance(outcome, ServiceOutcome) else _unplanned(outcome, now)
    except Exception as error:  # noqa: BLE001 - one service's fault must not hold the others
        return _unplanned(UnplannedOutcome(failed(outcome.service, outcome.memory, error)), now)


def _planned(outcome: ServiceOutcome, now: float) -> tuple[ServicePlan, ServiceMemory]:
    context, service, memory = outcome.context, outcome.service, outcome.memory
    before = memory.status or service.status
    status = status_of(outcome, before, now)
    blocks = tuple(step for replica in context.replicas if (step := noted_block(replica)))
    changes = (*scaled(context.decision), *forgotten_learning(memory.learned), *transitions(before, status))
    steps = (*rule_changed(context.decision, before.decision), *blocks, *outcome.steps)
    events, notes = told(steps, changes, memory.notes, now)
    placeholders = outcome.placeholders
    remembered = replace(
        memory,
        status=status,
        notes=notes,
        retries=memory.retries + _retried(context, outcome.steps),
        held_back=outcome.held if outcome.held_by_ceiling else "",
        learned=None if memory.learned is None else replace(memory.learned, reset=""),
        placeholders_held=memory.placeholders_held if placeholders is None else placeholders.held,
    )
    return ServicePlan(service.key, service.uid, outcome.actions, status, events, outcome.error or None), remembered


def _retried(context: DecidedContext, steps: tuple[Step, ...]) -> int:
    """1 when stuck replicas are given up in this tick; those that make way for another shape are no second try."""
    stuck = {r.name for r in context.having(ReplicaState.BLOCKED) if not context.variant_order.makes_way(r)}
    return int(any(step.subject in stuck and step.kind is not StepKind.CREATE for step in steps))


def _unplanned(outcome: UnplannedOutcome, now: float) -> tuple[ServicePlan, ServiceMemory]:
    service, memory, error = outcome.service, outcome.memory, outcome.unplanned.error
    before = memory.status or service.status
    if service.deleting and not error:
        return ServicePlan(service.key, service.uid, (), before), memory
    status = unplanned_status(service, outcome.unplanned.problems, before, now, outcome.replicas)
    if error:
        plan = ServicePlan(service.key, service.uid, (), status, transitions(before, status), error=error)
        return plan, replace(memory, status=status)
    events, notes = told(outcome.steps, transitions(before, status), memory.notes, now)
    histories = memory.histories if outcome.histories is None else outcome.histories
    remembered = replace(memory, status=status, notes=notes, histories=histories)
    return ServicePlan(service.key, service.uid, outcome.actions, status, events), remembered
