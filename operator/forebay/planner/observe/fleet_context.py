"""Staging: from the world to the scene of one service, with what has to be remembered for the next one."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import inf

from forebay.api.inference_service import InferenceServiceSpec
from forebay.api.reasons import Reason
from forebay.planner.decide.planned_inputs import scaling_inputs_of
from forebay.planner.decide.service_schedules import service_schedules_of
from forebay.planner.decide.wake_request import wake_request_of
from forebay.planner.memory import ReplicaFailure, ServiceMemory
from forebay.planner.observe.free_gpus import FreeGpus, free_gpus_for, gpus_taken, looks_ahead
from forebay.planner.observe.learned import Learned, publish, recall, seen_load, seen_starts
from forebay.planner.observe.nodes import FAILURES_KEPT_SECONDS, MOST_FAILURES, avoided_nodes
from forebay.planner.observe.placeholder_preemption import HeldPlaces, Preemptions
from forebay.planner.observe.placement import free_places, prospect_above, prospect_of
from forebay.planner.observe.pod_histories import histories_of, why_silent
from forebay.planner.observe.replica_shares import replica_weights_of, weight_of, weights_by_variant
from forebay.planner.observe.replicas import (
    LIVE,
    REASONS_OF_SHORTAGE,
    Replica,
    ReplicaChecks,
    ReplicaState,
    is_faulty,
    replicas_of,
)
from forebay.planner.observe.service_context import ServiceContext
from forebay.planner.observe.variant_order import VariantOrder, choices_of, variant_order_of
from forebay.planner.reconcile.creation_backoff import FAILURE_WINDOW_SECONDS, refusals_in_a_row
from forebay.planner.reconcile.rollout import halt_of
from forebay.scaling.desired import ReplicaCounts, decide
from forebay.scaling.limits import Limits
from forebay.scaling.load.freshness import Ages
from forebay.scaling.load.pod_history import PodHistory
from forebay.scaling.load.service_load import ReplicaReading, ServiceLoad, load_of
from forebay.scaling.replica_weights import ReplicaWeights
from forebay.scaling.rules.stabilizer import carried_by
from forebay.schedules.schedule_floors import WindowFloor
from forebay.world.world import NodeView, PodView, Refusal, ReplicaShape, Revision, ServiceView, World


@dataclass(frozen=True, slots=True)
class FleetContext:
    """What all services share: sorted once per tick."""

    world: World
    now: float
    watching_since: float
    pods: Mapping[str, tuple[PodView, ...]]
    """Ours and orphaned ones, by the uid of their service. No placeholders: those are no replicas."""
    placeholders: Mapping[str, tuple[PodView, ...]]
    """By the uid of their controller."""
    names: Mapping[str, frozenset[str]]
    """Of all pods there are, by namespace."""
    lost_nodes: frozenset[str]
    cordoned: frozenset[str]
    refusals: Mapping[str, tuple[Refusal, ...]]
    """Of pods of replicas, by service uid, oldest first."""
    refused_placeholders: Mapping[str, tuple[Refusal, ...]]
    """By the uid of who would have owned them, oldest first."""
    quota_short: Mapping[str, Refusal]
    """By namespace: the last pod of a replica that a quota had no room for. A quota counts placeholders too, and
    refuses before the scheduler could hand a place over."""
    nodes: Mapping[str, NodeView]
    """By name."""
    places: Mapping[ReplicaShape, int]
    """How many more replicas of the shapes that are wanted the ready nodes have room for."""
    gpus_taken: Mapping[str, int]
    """By node, those of our pods."""
    held_places: HeldPlaces
    preempting_pods: frozenset[str]
    """Uids of pods that started in the place of a placeholder."""


def fleet_context_of(
    world: World, lost_nodes: frozenset[str], preemptions: Preemptions, watching_since: float, now: float
) -> FleetContext:
    pods: dict[str, list[PodView]] = {}
    placeholders: dict[str, list[PodView]] = {}
    names: dict[str, set[str]] = {}
    for pod in world.pods:
        names.setdefault(pod.key.namespace, set()).add(pod.name)
        home = pod.service_uid if pod.owner_uid is None else pod.owner_uid
        if pod.place is not None:
            placeholders.setdefault(pod.owner_uid or "", []).append(pod)
        elif home is not None:
            pods.setdefault(home, []).append(pod)
    return FleetContext(
        world=world,
        now=now,
        watching_since=watching_since,
        pods=_by_name(pods),
        placeholders=_by_name(placeholders),
        names={namespace: frozenset(found) for namespace, found in names.items()},
        lost_nodes=lost_nodes,
        cordoned=frozenset(node.name for node in world.nodes if node.cordoned),
        refusals=_by_time(refusal for refusal in world.refusals if not refusal.placeholder),
        refused_placeholders=_by_time(refusal for refusal in world.refusals if refusal.placeholder),
        quota_short=_quota_short(world),
        nodes={node.name: node for node in world.nodes},
        places=free_places(_shapes(world.services), world.nodes, world.pods),
        gpus_taken=gpus_taken(world.pods),
        held_places=HeldPlaces.of(world, preemptions),
        preempting_pods=preemptions.taken,
    )


def _shapes(services: Iterable[ServiceView]) -> Iterator[ReplicaShape]:
    for service in services:
        if service.wanted is not None:
            yield service.wanted.shape
            yield from (variant.wanted.shape for variant in service.variants)


def _quota_short(world: World) -> dict[str, Refusal]:
    namespaces = {service.uid: service.key.namespace for service in world.services}
    short = [r for r in world.refusals if r.reason == Reason.QUOTA_EXCEEDED and not r.placeholder]
    last = sorted(short, key=lambda refusal: (refusal.at, refusal.pod_name))
    return {namespaces[refusal.service_uid]: refusal for refusal in last if refusal.service_uid in namespaces}


def _by_name(pods: Mapping[str, Iterable[PodView]]) -> dict[str, tuple[PodView, ...]]:
    return {uid: tuple(sorted(found, key=lambda pod: (pod.name, pod.uid))) for uid, found in pods.items()}


def _by_time(refusals: Iterable[Refusal]) -> dict[str, tuple[Refusal, ...]]:
    found: dict[str, list[Refusal]] = {}
    for refusal in sorted(refusals, key=lambda refusal: (refusal.at, refusal.pod_name)):
        found.setdefault(refusal.service_uid, []).append(refusal)
    return {uid: tuple(each) for uid, each in found.items()}


@dataclass(frozen=True, slots=True)
class Seen:
    """What there is of one service, before anything is decided."""

    variant_order: VariantOrder
    revisions: Mapping[str, Revision]
    """By hash."""
    histories: Mapping[str, PodHistory]
    replicas: tuple[Replica, ...]
    orphans: tuple[Replica, ...]


def stage(
    fleet: FleetContext, service: ServiceView, wanted: Revision, memory: ServiceMemory
) -> tuple[ServiceContext, ServiceMemory]:
    """The scene, and the memory as far as it follows from what was seen. `service.spec` must not be None."""
    assert service.spec is not None
    spec, now = service.spec, fleet.now
    seen = _seen(fleet, service, wanted, memory)
    limits = Limits.of(spec)
    counts = _fleet(seen, service, fleet)
    grown_at = now if counts.serving > memory.serving else memory.grown_at
    known = memory.learned or recall(service.status.learned, service.uid, now)
    weights = weights_by_variant(service, memory.scaling.arrivals, known.lengths)
    replica_weights = replica_weights_of(seen.replicas, seen.revisions, seen.variant_order, weights)
    load = _load(seen, fleet, grown_at, weights, replica_weights)
    learned = _starts(fleet, spec, seen, known)
    next_up = seen.variant_order.next_up
    free, held = fleet.places.get(next_up.shape, 0), fleet.held_places.replicas_for(service.uid, next_up)
    prospect = prospect_of(learned.lead_times, free, held, seen.replicas)
    before = memory.status or service.status
    call = wake_request_of(service, before, limits, seen.replicas, now)
    scaling_inputs = scaling_inputs_of(limits, before, call, prospect, learned)
    above = prospect_above(limits.min_replicas, learned.lead_times, free, held, seen.replicas, fleet.preempting_pods)
    calendar = service_schedules_of(service, next_up, replica_weights, memory, fleet.world.settings, above, now)
    scaling_inputs = replace(scaling_inputs, floors=(*scaling_inputs.floors, *calendar.floors))
    decision, scaling = decide(
        limits, load, counts, spec.scaling.mode, memory.scaling, now, scaling_inputs, service.replica_capacity
    )
    learned = seen_load(learned, scaling, load.complete, scaling_inputs.lead_seconds, now)
    learned = publish(learned, now, at_once=learned.lead_times is not known.lead_times)
    refusals, refused_at = refusals_in_a_row(memory, fleet.refusals.get(service.uid, ()))
    remembered = replace(
        memory,
        scaling=scaling,
        histories=seen.histories,
        serving=counts.serving,
        grown_at=grown_at,
        failures=_failures(memory.failures, seen.replicas, now),
        halt=halt_of(seen.variant_order.hashes, (r for r in seen.replicas if r.state in LIVE), memory.halt),
        shortages=seen.variant_order.shortages,
        retries=0 if _settled(seen.replicas) else memory.retries,
        refusals=refusals,
        refused_at=refused_at,
        learned=learned,
        timetables=calendar.timetables,
    )
    context = ServiceContext(
        service=service if call.problem is None else replace(service, warnings=(*service.warnings, call.problem)),
        spec=spec,
        settings=fleet.world.settings,
        now=now,
        variant_order=seen.variant_order,
        weights=weights,
        revisions=seen.revisions,
        replicas=seen.replicas,
        orphans=seen.orphans,
        taken_names=_taken_names(fleet, service),
        cordoned=fleet.cordoned,
        avoid_nodes=avoided_nodes(remembered.failures, fleet.world.nodes, _serving_on(seen)),
        memory=remembered,
        refusals=fleet.refusals.get(service.uid, ()),
        placeholders=fleet.placeholders.get(service.uid, ()),
        limits=limits,
        load=load,
        decision=decision,
        halt=remembered.halt,
        woken_until=call.until,
        one_less_would_do=counts.serving - 1 >= limits.min_replicas
        and load.complete
        and carried_by(counts.serving - 1, scaling.load_window, limits, now, replica_weights),
        window_floors=calendar.window_floors,
        free_gpus=_room(fleet, next_up, calendar.window_floors),
        preempting_pods=fleet.preempting_pods,
    )
    return context, remembered


def _room(fleet: FleetContext, target: Revision, window_floors: tuple[WindowFloor, ...]) -> FreeGpus | None:
    """Looked for only when a window is near, since it asks every node."""
    if not any(looks_ahead(window_floor, fleet.now) for window_floor in window_floors):
        return None
    used = sum(pod.gpus for pod in fleet.world.pods if pod.service_uid is not None or pod.owner_uid is not None)
    nodes = (node for node in fleet.world.nodes if node.name not in fleet.lost_nodes)
    return free_gpus_for(target.shape, nodes, fleet.gpus_taken, used, fleet.world.settings)


def _seen(fleet: FleetContext, service: ServiceView, wanted: Revision, memory: ServiceMemory) -> Seen:
    assert service.spec is not None
    world = fleet.world
    stored = world.revisions.get(service.uid, ())
    choices = choices_of(service, wanted, stored)
    revisions = {revision.hash: revision for revision in (*stored, *(choice.target for choice in choices))}
    pods = fleet.pods.get(service.uid, ())
    histories = histories_of(pods, world.signals, memory.histories)
    sight = ReplicaChecks(
        settings=world.settings,
        now=fleet.now,
        startup_timeout_seconds=service.spec.engine.startup_timeout.seconds,
        pods_per_replica={revision.hash: revision.shape.pods for revision in revisions.values()},
        lost_nodes=fleet.lost_nodes,
        histories=histories,
        watching_since=fleet.watching_since,
        impatient=memory.retries > 0,
        several_shapes=len(choices) > 1,
    )
    replicas = replicas_of((pod for pod in pods if pod.owner_uid == service.uid), sight)
    refusals = fleet.refusals.get(service.uid, ())
    hold_seconds = world.settings.variant_hold_seconds
    return Seen(
        variant_order=variant_order_of(choices, replicas, refusals, memory, hold_seconds, fleet.now),
        revisions=revisions,
        histories=histories,
        replicas=replicas,
        orphans=replicas_of((pod for pod in pods if pod.owner_uid is None and pod.revision in revisions), sight),
    )


def _starts(fleet: FleetContext, spec: InferenceServiceSpec, seen: Seen, known: Learned) -> Learned:
    patience = fleet.world.settings.pending_timeout_seconds + spec.engine.startup_timeout.seconds
    return seen_starts(known, seen.replicas, fleet.nodes, fleet.watching_since, patience, fleet.preempting_pods)


def _load(
    seen: Seen, fleet: FleetContext, since: float, weights: Mapping[str, float], replica_weights: ReplicaWeights
) -> ServiceLoad:
    serving: list[ReplicaReading] = []
    draining: list[ReplicaReading] = []
    for replica in seen.replicas:
        if replica.state not in (ReplicaState.SERVING, ReplicaState.DRAINING):
            continue
        first = replica.pods[0]
        reading = ReplicaReading(
            pod=first.name,
            history=seen.histories.get(first.uid),
            ready_since=replica.ready_since,
            error=why_silent(fleet.world.signals.get(first.uid), seen.histories.get(first.uid)),
            weight=weight_of(replica, seen.revisions, weights),
            own=not (revision := seen.revisions.get(replica.revision)) or not revision.variant,
        )
        (serving if replica.state is ReplicaState.SERVING else draining).append(reading)
    settings = fleet.world.settings
    ages = Ages(settings.stale_after_seconds, settings.lost_after_seconds)
    return load_of(serving, draining, fleet.now, ages, since, replica_weights)


def _fleet(seen: Seen, service: ServiceView, fleet: FleetContext) -> ReplicaCounts:
    states = [replica.state for replica in seen.replicas]
    live = [replica for replica in seen.replicas if replica.state in LIVE]
    return ReplicaCounts(
        serving=states.count(ReplicaState.SERVING),
        loading=states.count(ReplicaState.LOADING),
        blocked=states.count(ReplicaState.BLOCKED),
        blocked_for_all=_alike(live),
        draining=states.count(ReplicaState.DRAINING),
        replacing=any(_is_to_be_replaced(replica, fleet, seen.variant_order) for replica in live),
        standing=_standing(live, service, fleet, seen.variant_order),
        newest_created_at=max((replica.created_at for replica in live), default=None),
    )


def _alike(live: list[Replica]) -> int:
    """Stuck replicas that say something of the next one: that there is no room, or that nothing starts any more.

    Where a later replica has become ready, what keeps the stuck ones is their own: a bad node, say.
    """
    stuck = [r for r in live if r.state is ReplicaState.BLOCKED and r.reason != Reason.STALLED]
    ready = max((r.ready_since for r in live if r.state is ReplicaState.SERVING), default=-inf)
    return sum(r.reason in REASONS_OF_SHORTAGE or r.created_at > ready for r in stuck)


def _standing(live: list[Replica], service: ServiceView, fleet: FleetContext, variant_order: VariantOrder) -> int:
    """What an operator that has just started takes for wanted: what status says, and no less than what there is.

    While replicas are being replaced there is one more than wanted, or several.
    """
    assert service.spec is not None
    there = sum(replica.state is not ReplicaState.BLOCKED for replica in live)
    if any(_is_to_be_replaced(replica, fleet, variant_order) for replica in live):
        there -= service.spec.rollout.max_surge
    return max(service.status.replicas.desired, there, 0)


def _is_to_be_replaced(replica: Replica, fleet: FleetContext, variant_order: VariantOrder) -> bool:
    return replica.revision not in variant_order.hashes or not fleet.cordoned.isdisjoint(replica.nodes)


def _failures(
    before: tuple[ReplicaFailure, ...], replicas: tuple[Replica, ...], now: float
) -> tuple[ReplicaFailure, ...]:
    """One per pod, of the last hour. Not those that only wait for a node: no node is at fault for that."""
    known = {failure.pod_uid for failure in before}
    new = [
        ReplicaFailure(
            pod_uid=replica.pods[0].uid,
            revision=replica.revision,
            node=replica.failing_node,
            at=now,
            ended=replica.state is ReplicaState.FAILED and now - replica.created_at < FAILURE_WINDOW_SECONDS,
        )
        for replica in replicas
        if (replica.state is ReplicaState.FAILED or is_faulty(replica)) and replica.pods[0].uid not in known
    ]
    kept = [failure for failure in before if now - failure.at < FAILURES_KEPT_SECONDS]
    return (*kept, *new)[-MOST_FAILURES:]


def _settled(replicas: tuple[Replica, ...]) -> bool:
    """Nothing is stuck or on its way, so earlier attempts no longer matter."""
    return not any(replica.state in (ReplicaState.BLOCKED, ReplicaState.LOADING) for replica in replicas) and any(
        replica.state is ReplicaState.SERVING for replica in replicas
    )


def _serving_on(seen: Seen) -> dict[str, frozenset[str]]:
    """The nodes on which each revision serves that is a target or has replicas."""
    nodes: dict[str, frozenset[str]] = {target.hash: frozenset() for target in seen.variant_order.targets}
    for replica in seen.replicas:
        there = replica.nodes if replica.state is ReplicaState.SERVING else frozenset()
        nodes[replica.revision] = nodes.get(replica.revision, frozenset()) | there
    return nodes


def _taken_names(fleet: FleetContext, service: ServiceView) -> frozenset[str]:
    refused = {r.pod_name for r in fleet.refusals.get(service.uid, ()) if r.reason == Reason.NAME_TAKEN}
    names = fleet.names.get(service.key.namespace, frozenset())
    return names | refused if refused else names
