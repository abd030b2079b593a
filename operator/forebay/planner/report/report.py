"""Report: the fifth step. It writes the statuses and events of every service and pool, and the state to remember."""

from dataclasses import replace

from forebay.planner.decide.decided_context import DecidedContext
from forebay.planner.memory import ServiceMemory, State
from forebay.planner.observe.fleet_context import FleetContext
from forebay.planner.observe.isolation import failed
from forebay.planner.observe.replicas import ReplicaState
from forebay.planner.reconcile.reconcile_outcome import FleetOutcome, ServiceOutcome, UnplannedOutcome
from forebay.planner.reconcile.steps import Step, StepKind
from forebay.planner.reconcile.terminations import blocked_event
from forebay.planner.report.events import events_to_send, learned_reset, quota_held, rule_changed, scaled, transitions
from forebay.planner.report.next_wake import wake_in_seconds
from forebay.planner.report.pool_status import pool_report
from forebay.planner.report.service_status import status_of, unplanned_status
from forebay.world.plan import Plan, ServicePlan


def report(fleet: FleetContext, outcome: FleetOutcome) -> tuple[Plan, State]:
    services = {service.service.uid: service_report(service, fleet.now) for service in outcome.services}
    pools = tuple(pool_report(pool, fleet) for pool in outcome.pools)
    contexts = (service.context for service in outcome.services if isinstance(service, ServiceOutcome))
    pool_floors = (floor for pool in outcome.pools for floor in pool.schedules.window_floors)
    plan = Plan(
        services=tuple(service_plan for service_plan, _ in services.values()),
        wake_in_seconds=wake_in_seconds(contexts, pool_floors, fleet.now),
        warm_pools=tuple(pool_plan for pool_plan, _ in pools),
    )
    after = State(
        since=fleet.before.since,
        services={uid: services[uid][1] for uid in sorted(services)},
        pools={pool_plan.uid: memory for pool_plan, memory in pools},
        preemptions=fleet.preemptions,
        nodes_down=fleet.nodes_down,
        notices=fleet.notices,
        drains=outcome.drains,
        creates=outcome.creates,
        object_counts=fleet.before.object_counts,
    )
    return plan, after


def service_report(outcome: ServiceOutcome | UnplannedOutcome, now: float) -> tuple[ServicePlan, ServiceMemory]:
    """The plan of one service, and its memory for the next tick."""
    try:
        return _planned(outcome, now) if isinstance(outcome, ServiceOutcome) else _unplanned(outcome, now)
    except Exception as error:  # noqa: BLE001 - one service's fault must not hold the others
        return _unplanned(UnplannedOutcome(failed(outcome.service, outcome.memory, error)), now)


def _planned(outcome: ServiceOutcome, now: float) -> tuple[ServicePlan, ServiceMemory]:
    context, service, memory = outcome.context, outcome.service, outcome.memory
    hold = outcome.quota_hold
    before = memory.status or service.status
    status = status_of(outcome, before, now)
    blocks = tuple(step for replica in context.replicas if (step := blocked_event(replica)))
    changes = (*scaled(context.decision), *learned_reset(memory.learned), *transitions(before, status))
    steps = (*rule_changed(context.decision, before.decision), *blocks, *quota_held(hold), *outcome.steps)
    events, sent_events = events_to_send(steps, changes, memory.sent_events, now)
    placeholders = outcome.placeholders
    remembered = replace(
        memory,
        status=status,
        sent_events=sent_events,
        retries=memory.retries + _retried(context, outcome.steps),
        held_back=outcome.held_back if outcome.held_back_by_ceiling else "",
        quota_holds={} if hold is None else dict.fromkeys(sorted(hold.revisions), hold.fact),
        learned=None if memory.learned is None else replace(memory.learned, reset=""),
        placeholders_held_back=memory.placeholders_held_back if placeholders is None else placeholders.held_back,
    )
    return ServicePlan(service.key, service.uid, outcome.actions, status, events, outcome.error or None), remembered


def _retried(context: DecidedContext, steps: tuple[Step, ...]) -> int:
    """1 when stuck replicas are given up in this tick, else 0. A replica that is replaced by another variant is not
    a retry."""
    stuck = {r.name for r in context.having(ReplicaState.BLOCKED) if not context.variant_order.has_alternative(r)}
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
    events, sent_events = events_to_send(outcome.steps, transitions(before, status), memory.sent_events, now)
    histories = memory.histories if outcome.histories is None else outcome.histories
    remembered = replace(memory, status=status, sent_events=sent_events, histories=histories)
    return ServicePlan(service.key, service.uid, outcome.actions, status, events), remembered
