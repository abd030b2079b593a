"""Reconcile: the fourth step. It gives the actions that bring the existing pods to the wanted state, within the
operator's limits."""

import traceback
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Final

from forebay.api.inference_service import ScalingMode
from forebay.planner.decide.decided_context import DecidedContext
from forebay.planner.observe.fleet_context import FleetContext
from forebay.planner.observe.isolation import failed
from forebay.planner.observe.nodes import earliest_end
from forebay.planner.observe.pod_histories import histories_of
from forebay.planner.observe.replicas import ReplicaState, ReplicaStateInputs, replicas_of
from forebay.planner.observe.revision_choice import revisions_to_delete
from forebay.planner.observe.service_context import UnplannedService
from forebay.planner.reconcile import blast_radius, children, drain, rank_groups
from forebay.planner.reconcile.balance import Balance, balance
from forebay.planner.reconcile.blast_radius import Budget
from forebay.planner.reconcile.creation_backoff import wait_before_creating
from forebay.planner.reconcile.placeholders import PlaceholderBudget, placeholder_outcome_of, wanted_placeholders_of
from forebay.planner.reconcile.reconcile_outcome import FleetOutcome, ServiceOutcome, UnplannedOutcome
from forebay.planner.reconcile.share_plans import share_plan_actions
from forebay.planner.reconcile.steps import Step, StepKind
from forebay.planner.reconcile.terminations import terminations_of
from forebay.planner.reconcile.warm_pools import reconciled_pools
from forebay.planner.share.tenants.wanted_plans import WantedPlan
from forebay.workloads.objects.action_objects import with_objects
from forebay.workloads.objects.ownership import Owner
from forebay.world.plan import Action, CreatePod, DeleteSharePlan, StoreRevision, StoreSharePlan, in_order
from forebay.world.world import ServiceView

DRAIN_TIMEOUT_UNKNOWN_SECONDS: Final = 300.0
"""drainTimeout of running drains while the spec cannot be read."""


def reconcile(
    fleet: FleetContext,
    services: tuple[DecidedContext | UnplannedService, ...],
    plans: Mapping[str, WantedPlan] | None = None,
) -> FleetOutcome:
    """The outcome for all services and pools. Replicas spend the limits first, the most urgent service first; services'
    placeholders get what is left, and pools come last. Without `plans` for admission, those that are stored stay."""
    now, before = fleet.now, fleet.before
    drains = blast_radius.recent(before.drains, 0, blast_radius.DRAIN_WINDOW_SECONDS, now)
    creates = blast_radius.recent(before.creates, 0, blast_radius.CREATE_WINDOW_SECONDS, now)
    budget = Budget.of(fleet.world, fleet.lost_nodes, drains, creates, fleet.quotas)
    by_uid = {service.service.uid: service for service in services}
    outcomes = {
        uid: _reconciled(fleet, by_uid[uid], budget)
        for uid in blast_radius.by_urgency({uid: _serving(service) for uid, service in by_uid.items()})
    }
    for_placeholders = PlaceholderBudget.of(budget)
    with_placeholders = tuple(_with_placeholders(fleet, outcomes[uid], for_placeholders) for uid in by_uid)
    pools = reconciled_pools(fleet, for_placeholders)
    created = budget.created + for_placeholders.created
    return FleetOutcome(
        services=with_placeholders,
        pools=pools,
        drains=blast_radius.recent(drains, budget.drained, blast_radius.DRAIN_WINDOW_SECONDS, now),
        creates=blast_radius.recent(creates, created, blast_radius.CREATE_WINDOW_SECONDS, now),
        share_plans=_share_plans(fleet, plans),
    )


def _share_plans(
    fleet: FleetContext, plans: Mapping[str, WantedPlan] | None
) -> tuple[StoreSharePlan | DeleteSharePlan, ...]:
    stored = fleet.world.share_plans
    return () if plans is None or stored is None else share_plan_actions(plans, stored, fleet.now)


def _serving(service: DecidedContext | UnplannedService) -> int:
    return len(service.having(ReplicaState.SERVING)) if isinstance(service, DecidedContext) else 0


def _reconciled(
    fleet: FleetContext, service: DecidedContext | UnplannedService, budget: Budget
) -> ServiceOutcome | UnplannedOutcome:
    try:
        if isinstance(service, UnplannedService):
            return _unplanned(fleet, service)
        return _planned(fleet, service, budget)
    except Exception as error:  # noqa: BLE001 - one service's fault must not hold the others
        return UnplannedOutcome(failed(service.service, service.memory, error))


def _planned(fleet: FleetContext, context: DecidedContext, budget: Budget) -> ServiceOutcome:
    uid = context.service.uid
    waits = wait_before_creating(context)
    steps, balanced = _steps(context, budget, may_create=not waits)
    return ServiceOutcome(
        context=context,
        balance=balanced,
        held_back=budget.refused.get(uid, "") or waits,
        held_back_by_ceiling=uid in budget.refused_by_ceiling,
        quota_hold=budget.quotas.holds.get(uid),
        steps=steps,
        actions=_finished(fleet, context.service, _actions(fleet, context, steps)),
    )


def _steps(context: DecidedContext, budget: Budget, may_create: bool) -> tuple[tuple[Step, ...], Balance]:
    """All steps for a service's replicas, within the operator's limits. A paused service gets none."""
    if context.spec.scaling.mode is ScalingMode.PAUSED:
        return (), Balance()

    def grant(step: Step) -> bool:
        if context.first_round and step.kind is not StepKind.OTHER:
            budget.refused[context.service.uid] = "this operator has not read the metrics of all replicas yet"
            return False
        return budget.grant(context.service.uid, context.service.key.namespace, step)

    terminating = {name: step for name, step in terminations_of(context).items() if grant(step)}
    balanced = balance(context, terminating, grant, may_create)
    touched = {*terminating, *(step.subject for step in balanced.steps if step.kind is not StepKind.CREATE)}
    return (*terminating.values(), *balanced.steps, *rank_groups.gate_lifts(context, touched)), balanced


def _actions(fleet: FleetContext, context: DecidedContext, steps: tuple[Step, ...]) -> tuple[Action, ...]:
    if context.spec.scaling.mode is ScalingMode.PAUSED:
        return ()
    used = {pod.revision for pod in fleet.pods.get(context.service.uid, ())}
    stored = fleet.world.revisions.get(context.service.uid, ())
    step_actions = [action for step in steps for action in step.actions]
    to_create = {action.revision.hash for action in step_actions if isinstance(action, CreatePod)}
    return (
        *_stores(context, used | to_create),
        *children.repair(context.service, fleet.children),
        *step_actions,
        *revisions_to_delete(stored, used | context.variant_order.hashes),
    )


def _stores(context: DecidedContext, used: Collection[str]) -> tuple[StoreRevision, ...]:
    """The revisions to store: that of the service's own shape, and that of a variant once it has a replica."""
    own, *others = context.variant_order.choices
    choices = (own, *(choice for choice in others if choice.target.hash in used))
    return tuple(choice.store for choice in choices if choice.store is not None)


def _finished(fleet: FleetContext, service: ServiceView, actions: tuple[Action, ...]) -> tuple[Action, ...]:
    """The actions in order, with the objects that they write."""
    return with_objects(in_order(actions), Owner(service.key, service.uid), fleet.hostnames, fleet.now)


def _with_placeholders(
    fleet: FleetContext, outcome: ServiceOutcome | UnplannedOutcome, budget: PlaceholderBudget
) -> ServiceOutcome | UnplannedOutcome:
    """The outcome with actions on placeholders. It is called after the replicas of all services are planned, because
    replicas come first."""
    if isinstance(outcome, UnplannedOutcome):
        return outcome
    context = outcome.context
    wanted = wanted_placeholders_of(context)
    if wanted is None or context.service.deleting or context.spec.scaling.mode is ScalingMode.PAUSED:
        return outcome
    try:
        share = placeholder_outcome_of(wanted, fleet, budget)
        actions = (*outcome.actions, *_finished(fleet, context.service, share.actions))
        return replace(outcome, actions=in_order(actions), placeholders=share)
    except Exception as error:  # noqa: BLE001 - placeholders must not hold replicas
        return replace(outcome, error="".join(traceback.format_exception(error)))


def _unplanned(fleet: FleetContext, unplanned: UnplannedService) -> UnplannedOutcome:
    """The outcome for a service whose spec cannot be used: nothing is created, serving pods stay, and drains end."""
    service, memory = unplanned.service, unplanned.memory
    if unplanned.error or service.deleting:
        return UnplannedOutcome(unplanned)
    owned = [pod for pod in fleet.pods.get(service.uid, ()) if pod.owner_uid == service.uid]
    histories = histories_of(owned, fleet.world.signals, memory.histories, fleet.now)
    checks = ReplicaStateInputs(fleet.world.settings, fleet.now, float("inf"), {}, fleet.lost_nodes, histories)
    replicas = replicas_of(owned, checks)
    timeout = DRAIN_TIMEOUT_UNKNOWN_SECONDS if service.spec is None else service.spec.rollout.drain_timeout.seconds
    steps = tuple(
        step
        for replica in replicas
        if replica.state is ReplicaState.DRAINING
        for step in drain.finish(
            replica, timeout, fleet.world.settings, fleet.now, earliest_end(replica.nodes, fleet.notices)
        )
    )
    actions = tuple(action for step in steps for action in step.actions)
    return UnplannedOutcome(unplanned, replicas, histories, steps, _finished(fleet, service, actions))
