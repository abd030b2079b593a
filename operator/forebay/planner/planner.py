"""The planner: everything that is known in, everything that is to be done out.

Pure and total. The order of what comes in does not matter, and the same input gives the same output. A fault in
planning one service holds that service alone.
"""

import traceback
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import Final

from forebay.api.inference_service import InferenceServiceStatus, ScalingMode
from forebay.api.reasons import Reason
from forebay.planner.memory import ServiceMemory, State
from forebay.planner.observe.fleet_context import FleetContext, fleet_context_of, stage
from forebay.planner.observe.nodes import lost_nodes, nodes_down
from forebay.planner.observe.placeholder_preemption import preemptions_of
from forebay.planner.observe.pod_histories import histories_of
from forebay.planner.observe.replicas import ReplicaChecks, ReplicaState, replicas_of
from forebay.planner.observe.revision_choice import forgotten
from forebay.planner.observe.service_context import ServiceContext
from forebay.planner.reconcile import blast_radius, children, drain, rank_groups
from forebay.planner.reconcile.balance import Balance, balance
from forebay.planner.reconcile.blast_radius import Budget
from forebay.planner.reconcile.creation_backoff import wait_before_creating
from forebay.planner.reconcile.placeholders import PlaceholderBudget, share_of, wanted_placeholders_of
from forebay.planner.reconcile.steps import Step, StepKind
from forebay.planner.reconcile.terminations import noted_block, terminations_of
from forebay.planner.reconcile.warm_pools import pool_shares
from forebay.planner.report.conditions import ServiceOutcome
from forebay.planner.report.events import forgotten_learning, rule_changed, scaled, told, transitions
from forebay.planner.report.next_wake import wake_in_seconds
from forebay.planner.report.service_status import status_of, unplanned_status
from forebay.world.plan import Action, CreatePod, Plan, ServicePlan, StoreRevision
from forebay.world.world import ServiceView, SpecProblem, World

DRAIN_TIMEOUT_UNKNOWN_SECONDS: Final = 300.0
"""For drains that go on while the spec cannot be read."""
ORDER_OF_ACTIONS: Final = (
    "StoreRevision",
    "ApplyChildren",
    "StartDrain",
    "DeletePod",
    "AdoptPod",
    "CancelDrain",
    "CreatePod",
    "DeletePlaceholder",
    "CreatePlaceholder",
    "LiftGate",
    "DeleteRevision",
)


@dataclass(frozen=True, slots=True)
class Draft:
    """One service's share of the plan, before the operator's limits have been applied."""

    service: ServiceView
    memory: ServiceMemory
    context: ServiceContext | None = None
    problems: tuple[SpecProblem, ...] = ()


def plan(world: World, state: State, now: float) -> tuple[Plan, State]:
    """What to do now, and what to remember for the next time."""
    held, census = blast_radius.doubt(world, state.census, now)
    if held is not None:
        return Plan(services=(), held=held), replace(state, census=census)
    down = nodes_down(world.nodes, world.pods, state.nodes_down, now)
    preemptions = preemptions_of(world, state.preemptions, now)
    fleet = fleet_context_of(world, lost_nodes(world.nodes, down, world.settings, now), preemptions, state.since, now)
    services = sorted(world.services, key=lambda service: (service.key, service.uid))
    drafts = {service.uid: _draft(fleet, service, state.services.get(service.uid)) for service in services}
    drains = blast_radius.recent(state.drains, 0, blast_radius.DRAIN_WINDOW_SECONDS, now)
    creates = blast_radius.recent(state.creates, 0, blast_radius.CREATE_WINDOW_SECONDS, now)
    budget = Budget.of(world, drains, creates)
    done: dict[str, tuple[ServicePlan, ServiceMemory]] = {}
    for uid in blast_radius.by_urgency({uid: _serving(draft) for uid, draft in drafts.items()}):
        draft = drafts[uid]
        done[uid] = draft if isinstance(draft, tuple) else _finished(fleet, draft, budget)
    means = PlaceholderBudget.of(budget)
    for service in services:
        done[service.uid] = _with_placeholders(fleet, drafts[service.uid], done[service.uid], means)
    pools = pool_shares(world.warm_pools, fleet, means, state.pools)
    budget.created += means.created
    return (
        Plan(
            services=tuple(done[service.uid][0] for service in services),
            wake_in_seconds=wake_in_seconds(
                (draft.context for draft in drafts.values() if isinstance(draft, Draft)),
                (window_floor for pool in pools for window_floor in pool.calendar.window_floors),
                now,
            ),
            warm_pools=tuple(pool.plan for pool in pools),
        ),
        State(
            since=state.since,
            services={uid: done[uid][1] for uid in sorted(done)},
            pools={pool.plan.uid: pool.memory for pool in pools},
            preemptions=preemptions,
            nodes_down=down,
            drains=blast_radius.recent(drains, budget.drained, blast_radius.DRAIN_WINDOW_SECONDS, now),
            creates=blast_radius.recent(creates, budget.created, blast_radius.CREATE_WINDOW_SECONDS, now),
            census=census,
        ),
    )


def _draft(
    fleet: FleetContext, service: ServiceView, before: ServiceMemory | None
) -> Draft | tuple[ServicePlan, ServiceMemory]:
    """The scene is set; or a finished share of the plan when that fails."""
    memory = before or ServiceMemory(status=service.status)
    try:
        service = _judged(service, fleet.world)
        problems = (*service.problems, *children.names_taken(service, fleet.world.children))
        if service.deleting or problems or service.spec is None or service.wanted is None:
            return Draft(service, memory, problems=problems or (_UNREADABLE,))
        context, memory = stage(fleet, service, service.wanted, memory)
        return Draft(service, memory, context)
    except Exception as error:  # noqa: BLE001 - one service's fault must not hold the others
        return _failed(service, memory, error, fleet.now)


def _judged(service: ServiceView, world: World) -> ServiceView:
    """A plan that does not fit stops a spec that has never run; one that runs knows better, and is only warned.

    The plan's overhead is a reserve and its profiles age. An operator that learns to plan must not stop what serves.
    """
    if not service.misfits or service.wanted is None:
        return service
    stored = world.revisions.get(service.uid, ())
    if any(revision.spec_hash == service.wanted.spec_hash for revision in stored):
        return replace(service, warnings=(*service.misfits, *service.warnings))
    return replace(service, problems=(*service.problems, *service.misfits))


def _serving(draft: Draft | tuple[ServicePlan, ServiceMemory]) -> int:
    if not isinstance(draft, Draft) or draft.context is None:
        return 0
    return len(draft.context.having(ReplicaState.SERVING))


def _finished(fleet: FleetContext, draft: Draft, budget: Budget) -> tuple[ServicePlan, ServiceMemory]:
    try:
        if draft.service.deleting:
            return ServicePlan(draft.service.key, draft.service.uid, (), _last_status(draft)), draft.memory
        if draft.context is None:
            return _unplanned(fleet, draft)
        return _planned(fleet, draft.context, draft.memory, budget)
    except Exception as error:  # noqa: BLE001
        return _failed(draft.service, draft.memory, error, fleet.now)


def _planned(
    fleet: FleetContext, context: ServiceContext, memory: ServiceMemory, budget: Budget
) -> tuple[ServicePlan, ServiceMemory]:
    service, before = context.service, memory.status or context.service.status
    waits = wait_before_creating(context)
    steps, balanced = _steps(context, budget, may_create=not waits)
    held = budget.held.get(service.uid, "") or waits
    status = status_of(ServiceOutcome(context, balanced, held), before, fleet.now)
    blocks = tuple(step for replica in context.replicas if (step := noted_block(replica)))
    changes = (*scaled(context.decision), *forgotten_learning(memory.learned), *transitions(before, status))
    events, notes = told(
        (*rule_changed(context.decision, before.decision), *blocks, *steps), changes, memory.notes, fleet.now
    )
    remembered = replace(
        memory,
        status=status,
        notes=notes,
        retries=memory.retries + _retried(context, steps),
        held_back=held if service.uid in budget.ceiling_met else "",
        learned=None if memory.learned is None else replace(memory.learned, reset=""),
    )
    return ServicePlan(service.key, service.uid, _actions(fleet, context, steps), status, events), remembered


def _with_placeholders(
    fleet: FleetContext,
    draft: Draft | tuple[ServicePlan, ServiceMemory],
    done: tuple[ServicePlan, ServiceMemory],
    means: PlaceholderBudget,
) -> tuple[ServicePlan, ServiceMemory]:
    """After the replicas of all services, since those come first."""
    if isinstance(draft, tuple) or draft.context is None or done[0].error is not None:
        return done
    context, (planned, memory) = draft.context, done
    hold = wanted_placeholders_of(context)
    if hold is None or context.service.deleting or context.spec.scaling.mode is ScalingMode.PAUSED:
        return done
    try:
        share = share_of(hold, fleet, means)
    except Exception as error:  # noqa: BLE001 - placeholders must not hold replicas
        return replace(planned, error="".join(traceback.format_exception(error))), memory
    if not share.actions and share.held == memory.placeholders_held:
        return done
    actions = _in_order((*planned.actions, *share.actions))
    return replace(planned, actions=actions), replace(memory, placeholders_held=share.held)


def _steps(context: ServiceContext, budget: Budget, may_create: bool) -> tuple[tuple[Step, ...], Balance]:
    """Everything that is to be done to replicas, within the operator's limits. Paused does nothing at all."""
    if context.spec.scaling.mode is ScalingMode.PAUSED:
        return (), Balance()

    def grant(step: Step) -> bool:
        return budget.grant(context.service.uid, step)

    ending = {name: step for name, step in terminations_of(context).items() if grant(step)}
    balanced = balance(context, ending, grant, may_create)
    touched = {*ending, *(step.subject for step in balanced.steps if step.kind is not StepKind.CREATE)}
    return (*ending.values(), *balanced.steps, *rank_groups.lifts(context, touched)), balanced


def _actions(fleet: FleetContext, context: ServiceContext, steps: tuple[Step, ...]) -> tuple[Action, ...]:
    if context.spec.scaling.mode is ScalingMode.PAUSED:
        return ()
    used = {pod.revision for pod in fleet.pods.get(context.service.uid, ())}
    stored = fleet.world.revisions.get(context.service.uid, ())
    doing = [action for step in steps for action in step.actions]
    made_of = {action.revision.hash for action in doing if isinstance(action, CreatePod)}
    actions: list[Action] = [
        *_stores(context, used | made_of),
        *children.repair(context.service, fleet.world.children, context.target.shape),
        *doing,
        *forgotten(stored, used | context.variant_order.hashes),
    ]
    return _in_order(actions)


def _stores(context: ServiceContext, used: Collection[str]) -> tuple[StoreRevision, ...]:
    """Of the service's own shape in any case, of a variant once a replica of it is to be."""
    own, *others = context.variant_order.choices
    choices = (own, *(choice for choice in others if choice.target.hash in used))
    return tuple(choice.store for choice in choices if choice.store is not None)


def _in_order(actions: Iterable[Action]) -> tuple[Action, ...]:
    return tuple(sorted(actions, key=lambda action: ORDER_OF_ACTIONS.index(type(action).__name__)))


def _retried(context: ServiceContext, steps: tuple[Step, ...]) -> int:
    """1 when stuck replicas are given up in this tick; those that make way for another shape are no second try."""
    stuck = {r.name for r in context.having(ReplicaState.BLOCKED) if not context.variant_order.makes_way(r)}
    return int(any(step.subject in stuck and step.kind is not StepKind.CREATE for step in steps))


def _unplanned(fleet: FleetContext, draft: Draft) -> tuple[ServicePlan, ServiceMemory]:
    """Nothing is created for a service whose spec cannot be used; what serves goes on, and drains end."""
    service, memory = draft.service, draft.memory
    before = memory.status or service.status
    owned = [pod for pod in fleet.pods.get(service.uid, ()) if pod.owner_uid == service.uid]
    histories = histories_of(owned, fleet.world.signals, memory.histories)
    sight = ReplicaChecks(fleet.world.settings, fleet.now, float("inf"), {}, fleet.lost_nodes, histories)
    replicas = replicas_of(owned, sight)
    status = unplanned_status(service, draft.problems, before, fleet.now, replicas)
    timeout = DRAIN_TIMEOUT_UNKNOWN_SECONDS if service.spec is None else service.spec.rollout.drain_timeout.seconds
    steps = tuple(
        step
        for replica in replicas
        if replica.state is ReplicaState.DRAINING
        for step in drain.finish(replica, timeout, fleet.world.settings, fleet.now)
    )
    events, notes = told(steps, transitions(before, status), memory.notes, fleet.now)
    actions = tuple(action for step in steps for action in step.actions)
    remembered = replace(memory, status=status, notes=notes, histories=histories)
    return ServicePlan(service.key, service.uid, actions, status, events), remembered


def _failed(
    service: ServiceView, memory: ServiceMemory, error: Exception, now: float
) -> tuple[ServicePlan, ServiceMemory]:
    before = memory.status or service.status
    told_of = f"Planning failed, so nothing is done for this service: {type(error).__name__}: {error}"
    status = unplanned_status(service, (SpecProblem(Reason.PLANNING_FAILED, told_of),), before, now)
    trace = "".join(traceback.format_exception(error))
    done = ServicePlan(service.key, service.uid, (), status, transitions(before, status), error=trace)
    return done, replace(memory, status=status)


def _last_status(draft: Draft) -> InferenceServiceStatus:
    return draft.memory.status or draft.service.status


_UNREADABLE: Final = SpecProblem(
    Reason.SPEC_UNREADABLE, "spec: what is stored does not fit this operator's schema; apply the manifest again."
)
