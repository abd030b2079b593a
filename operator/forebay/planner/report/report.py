"""Report: the fifth step. It writes the statuses and events of every service and pool, and the state to remember."""

from dataclasses import dataclass, replace
from math import inf

from forebay.planner.decide.decided_context import DecidedContext
from forebay.planner.memory import ServiceMemory, State
from forebay.planner.observe.at_rest import AtRest
from forebay.planner.observe.fleet_context import FleetContext
from forebay.planner.observe.isolation import failed
from forebay.planner.observe.replicas import ReplicaState
from forebay.planner.reconcile.reconcile_outcome import FleetOutcome, ServiceOutcome, UnplannedOutcome
from forebay.planner.reconcile.steps import Step, StepKind
from forebay.planner.reconcile.terminations import blocked_event
from forebay.planner.report.events import events_to_send, learned_reset, quota_held, rule_changed, scaled, transitions
from forebay.planner.report.next_wake import next_due, wake_in_seconds
from forebay.planner.report.pool_status import pool_report
from forebay.planner.report.rest import rest_of
from forebay.planner.report.service_status import status_of, unplanned_status
from forebay.planner.report.tenant_status import tenant_reports
from forebay.planner.share.tenants.tenants import NO_TENANTS, TenantOutcomes
from forebay.world.plan import Plan, ServicePlan
from forebay.world.world import ServiceView


@dataclass(frozen=True, slots=True)
class ServiceReport:
    """The plan of one service, its memory for the next tick, and when something of it is due; infinite without such a
    time."""

    plan: ServicePlan
    memory: ServiceMemory
    due_at: float = inf


def report(
    fleet: FleetContext, outcome: FleetOutcome, at_rest: AtRest, tenants: TenantOutcomes = NO_TENANTS
) -> tuple[Plan, State]:
    """The plan of all services and the state after it. Those `at_rest` keep their plan, which asks for nothing."""
    reports = [service_report(service, fleet) for service in outcome.services]
    reports += [
        _unchanged(service, at_rest, fleet.now) for service in fleet.world.services if service.uid in at_rest.memories
    ]
    reports.sort(key=lambda service: (service.plan.key, service.plan.uid))
    services = {service.plan.uid: service.memory for service in reports}
    pools = tuple(pool_report(pool, fleet) for pool in outcome.pools)
    tenant_plans, tenant_memory = tenant_reports(tenants, fleet)
    pool_floors = (floor for pool in outcome.pools for floor in pool.schedules.window_floors)
    plan = Plan(
        services=tuple([service.plan for service in reports]),
        wake_in_seconds=wake_in_seconds((service.due_at for service in reports), pool_floors, fleet.now),
        warm_pools=tuple(pool_plan for pool_plan, _ in pools),
        tenants=tenant_plans,
        share_plans=outcome.share_plans,
    )
    after = State(
        since=fleet.before.since,
        services={uid: services[uid] for uid in sorted(services)},
        pools={pool_plan.uid: memory for pool_plan, memory in pools},
        preemptions=fleet.preemptions,
        nodes_down=fleet.nodes_down,
        notices=fleet.notices,
        drains=outcome.drains,
        creates=outcome.creates,
        object_counts=fleet.before.object_counts,
        tenants=tenant_memory,
        shared_inputs=fleet.shared_inputs,
    )
    return plan, after


def service_report(outcome: ServiceOutcome | UnplannedOutcome, fleet: FleetContext) -> ServiceReport:
    try:
        if isinstance(outcome, ServiceOutcome):
            return _planned(outcome, fleet)
        return _unplanned(outcome, fleet.now)
    except Exception as error:  # noqa: BLE001 - one service's fault must not hold the others
        return _unplanned(UnplannedOutcome(failed(outcome.service, outcome.memory, error)), fleet.now)


def _unchanged(service: ServiceView, at_rest: AtRest, now: float) -> ServiceReport:
    memory = at_rest.memories[service.uid]
    assert memory.rest is not None
    plan = ServicePlan(service.key, service.uid, (), memory.status or service.status)
    return ServiceReport(plan, memory, now if service.uid in at_rest.put_off else memory.rest.until)


def _planned(outcome: ServiceOutcome, fleet: FleetContext) -> ServiceReport:
    context, service, memory, now = outcome.context, outcome.service, outcome.memory, fleet.now
    hold = outcome.quota_hold
    before = memory.status or service.status
    status = status_of(outcome, before, now)
    blocks = tuple(step for replica in context.replicas if (step := blocked_event(replica)))
    changes = (*scaled(context.decision), *learned_reset(memory.learned), *transitions(before, status))
    steps = (*rule_changed(context.decision, before.decision), *blocks, *quota_held(hold), *outcome.steps)
    events, sent_events = events_to_send(steps, changes, memory.sent_events, now)
    plan = ServicePlan(service.key, service.uid, outcome.actions, status, events, outcome.error or None)
    placeholders, due_at = outcome.placeholders, next_due(context)
    remembered = replace(
        memory,
        status=status,
        sent_events=sent_events,
        retries=memory.retries + _retried(context, outcome.steps),
        held_back=outcome.held_back if outcome.held_back_by_ceiling else "",
        quota_holds={} if hold is None else dict.fromkeys(sorted(hold.revisions), hold.fact),
        learned=None if memory.learned is None else replace(memory.learned, reset=""),
        placeholders_held_back=memory.placeholders_held_back if placeholders is None else placeholders.held_back,
        rest=rest_of(plan, outcome, fleet, due_at),
    )
    return ServiceReport(plan, remembered, due_at)


def _retried(context: DecidedContext, steps: tuple[Step, ...]) -> int:
    """1 when stuck replicas are given up in this tick, else 0. A replica that is replaced by another variant is not
    a retry."""
    stuck = {r.name for r in context.having(ReplicaState.BLOCKED) if not context.variant_order.has_alternative(r)}
    return int(any(step.subject in stuck and step.kind is not StepKind.CREATE for step in steps))


def _unplanned(outcome: UnplannedOutcome, now: float) -> ServiceReport:
    service, memory, error = outcome.service, outcome.memory, outcome.unplanned.error
    before = memory.status or service.status
    if service.deleting and not error:
        return ServiceReport(ServicePlan(service.key, service.uid, (), before), memory)
    status = unplanned_status(service, outcome.unplanned.problems, before, now, outcome.replicas)
    if error:
        plan = ServicePlan(service.key, service.uid, (), status, transitions(before, status), error=error)
        return ServiceReport(plan, replace(memory, status=status, rest=None))
    events, sent_events = events_to_send(outcome.steps, transitions(before, status), memory.sent_events, now)
    histories = memory.histories if outcome.histories is None else outcome.histories
    remembered = replace(memory, status=status, sent_events=sent_events, histories=histories, rest=None)
    return ServiceReport(ServicePlan(service.key, service.uid, outcome.actions, status, events), remembered)
