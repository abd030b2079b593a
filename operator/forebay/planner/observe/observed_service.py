"""The context of one service, built from the fleet's context and the service's memory."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import inf
from typing import Final

from forebay.api.inference_service import InferenceServiceSpec
from forebay.api.reasons import Reason
from forebay.planner.memory import Learned, ServiceMemory
from forebay.planner.observe.failures import failures_of, halt_of, refusals_in_a_row, stalls_of
from forebay.planner.observe.fleet_context import FleetContext
from forebay.planner.observe.learned import learn_starts, recall
from forebay.planner.observe.nodes import avoided_nodes
from forebay.planner.observe.placement import prospect_above_min_of, prospect_of
from forebay.planner.observe.pod_histories import bounds_of, histories_of, why_silent
from forebay.planner.observe.replicas import (
    CRASHES_UNTIL_STUCK,
    LIVE,
    SHORTAGE_REASONS,
    Replica,
    ReplicaState,
    ReplicaStateInputs,
    replicas_of,
)
from forebay.planner.observe.service_context import ServiceContext
from forebay.planner.observe.variant_order import VariantOrder, choices_of, variant_order_of
from forebay.planner.observe.variant_weights import replica_weights_of, weight_of, weights_by_variant
from forebay.scaling.limits import Limits
from forebay.scaling.load.freshness import Ages
from forebay.scaling.load.pod_history import PodHistory
from forebay.scaling.load.service_load import ReplicaReading, ServiceLoad, load_of
from forebay.scaling.replica_weights import ReplicaWeights
from forebay.scaling.rules.situation import ReplicaCounts
from forebay.world.world import Revision, ServiceView

FIRST_ROUND_SECONDS: Final = 15.0
"""Time for the first round of scrapes: one scrape interval, the timeout of a request and one tick."""


@dataclass(frozen=True, slots=True)
class ObservedPods:
    """The pods of one service, grouped into replicas and related to its revisions."""

    variant_order: VariantOrder
    revisions: Mapping[str, Revision]
    """By hash."""
    histories: Mapping[str, PodHistory]
    replicas: tuple[Replica, ...]
    orphans: tuple[Replica, ...]


def observed_service(
    fleet: FleetContext, service: ServiceView, wanted: Revision, memory: ServiceMemory
) -> ServiceContext:
    """The service's context. Its memory holds what follows from the observation alone. `service.spec` must not be
    None."""
    assert service.spec is not None
    spec, now = service.spec, fleet.now
    observed = _observed_pods(fleet, service, wanted, memory)
    limits = Limits.of(spec)
    counts = _counts(observed, service, fleet)
    grown_at = now if counts.serving > memory.serving else memory.grown_at
    known = memory.learned or recall(service.status.learned, service.uid, now)
    weights = weights_by_variant(service, memory.scaling.arrivals, known.lengths)
    replica_weights = replica_weights_of(observed.replicas, observed.revisions, observed.variant_order, weights)
    learned = _learned(fleet, spec, observed, known)
    next_target = observed.variant_order.next_target
    free, held = fleet.free_places.get(next_target.shape, 0), fleet.held_places.replicas_for(service.uid, next_target)
    refusals = fleet.refusals.get(service.uid, ())
    load = _load(observed, fleet, grown_at, weights, replica_weights)
    observed_memory = _observed_memory(memory, observed, counts, grown_at, fleet, service.uid)
    return ServiceContext(
        service=service,
        spec=spec,
        settings=fleet.world.settings,
        now=now,
        limits=limits,
        load=load,
        first_round=fleet.now - fleet.watching_since < FIRST_ROUND_SECONDS and any(s.new for s in load.silent),
        counts=counts,
        variant_order=observed.variant_order,
        weights=weights,
        replica_weights=replica_weights,
        revisions=observed.revisions,
        replicas=observed.replicas,
        orphans=observed.orphans,
        taken_names=_taken_names(fleet, service),
        cordoned=fleet.cordoned,
        notices=fleet.notices,
        avoid_nodes=avoided_nodes(observed_memory.failures, fleet.world.nodes, _serving_on(observed)),
        memory=observed_memory,
        learned=learned,
        starts_learned=learned.lead_times is not known.lead_times,
        refusals=refusals,
        placeholders=fleet.placeholders.get(service.uid, ()),
        halt=observed_memory.halt,
        prospect=prospect_of(learned.lead_times, free, held, observed.replicas),
        prospect_above_min=prospect_above_min_of(
            limits.min_replicas, learned.lead_times, free, held, observed.replicas, fleet.preempting_pods
        ),
        preempting_pods=fleet.preempting_pods,
    )


def _observed_memory(
    memory: ServiceMemory,
    observed: ObservedPods,
    counts: ReplicaCounts,
    grown_at: float,
    fleet: FleetContext,
    uid: str,
) -> ServiceMemory:
    refusals, refused_at = refusals_in_a_row(memory, fleet.refusals.get(uid, ()))
    live = (replica for replica in observed.replicas if replica.state in LIVE)
    return replace(
        memory,
        histories=observed.histories,
        serving=counts.serving,
        grown_at=grown_at,
        failures=failures_of(memory.failures, observed.replicas, fleet.now),
        stalls=stalls_of(memory.stalls, observed.replicas, fleet.now),
        halt=halt_of(observed.variant_order.hashes, live, memory.halt),
        shortages=observed.variant_order.shortages,
        retries=0 if _settled(observed.replicas) else memory.retries,
        refusals=refusals,
        refused_at=refused_at,
    )


def _observed_pods(fleet: FleetContext, service: ServiceView, wanted: Revision, memory: ServiceMemory) -> ObservedPods:
    assert service.spec is not None
    world = fleet.world
    stored = world.revisions.get(service.uid, ())
    choices = choices_of(service, wanted, stored)
    revisions = {revision.hash: revision for revision in (*stored, *(choice.target for choice in choices))}
    pods = fleet.pods.get(service.uid, ())
    histories = histories_of(pods, world.signals, memory.histories, fleet.now, bounds_of(service))
    inputs = ReplicaStateInputs(
        settings=world.settings,
        now=fleet.now,
        startup_timeout_seconds=service.spec.engine.startup_timeout.seconds,
        pods_per_replica={revision.hash: revision.shape.pods for revision in revisions.values()},
        lost_nodes=fleet.lost_nodes,
        histories=histories,
        watching_since=fleet.watching_since,
        retrying=memory.retries > 0,
        several_shapes=len(choices) > 1,
    )
    replicas = replicas_of((pod for pod in pods if pod.owner_uid == service.uid), inputs)
    refusals = fleet.refusals.get(service.uid, ())
    hold_seconds = world.settings.variant_hold_seconds
    return ObservedPods(
        variant_order=variant_order_of(
            choices, replicas, refusals, memory, hold_seconds, fleet.now, _within_quota(fleet, service)
        ),
        revisions=revisions,
        histories=histories,
        replicas=replicas,
        orphans=replicas_of((pod for pod in pods if pod.owner_uid is None and pod.revision in revisions), inputs),
    )


def _within_quota(fleet: FleetContext, service: ServiceView) -> Callable[[Revision], bool]:
    return lambda revision: fleet.quotas.leave_space_for(service.key.namespace, revision)


def _learned(fleet: FleetContext, spec: InferenceServiceSpec, observed: ObservedPods, known: Learned) -> Learned:
    longest_start_seconds = fleet.world.settings.pending_timeout_seconds + spec.engine.startup_timeout.seconds
    return learn_starts(
        known, observed.replicas, fleet.nodes, fleet.watching_since, longest_start_seconds, fleet.preempting_pods
    )


def _load(
    observed: ObservedPods,
    fleet: FleetContext,
    since: float,
    weights: Mapping[str, float],
    replica_weights: ReplicaWeights,
) -> ServiceLoad:
    serving: list[ReplicaReading] = []
    draining: list[ReplicaReading] = []
    for replica in observed.replicas:
        if replica.state not in (ReplicaState.SERVING, ReplicaState.DRAINING):
            continue
        first = replica.pods[0]
        reading = ReplicaReading(
            pod=first.name,
            history=observed.histories.get(first.uid),
            ready_since=replica.ready_since,
            error=why_silent(fleet.world.signals.get(first.uid), observed.histories.get(first.uid)),
            weight=weight_of(replica, observed.revisions, weights),
            own=not (revision := observed.revisions.get(replica.revision)) or not revision.variant,
        )
        (serving if replica.state is ReplicaState.SERVING else draining).append(reading)
    settings = fleet.world.settings
    ages = Ages(settings.stale_after_seconds, settings.lost_after_seconds)
    return load_of(serving, draining, fleet.now, ages, since, replica_weights, fleet.watching_since)


def _counts(observed: ObservedPods, service: ServiceView, fleet: FleetContext) -> ReplicaCounts:
    states = [replica.state for replica in observed.replicas]
    live = [replica for replica in observed.replicas if replica.state in LIVE]
    return ReplicaCounts(
        serving=states.count(ReplicaState.SERVING),
        loading=states.count(ReplicaState.LOADING),
        blocked=sum(r.state is ReplicaState.BLOCKED and r.reason != Reason.STALLED for r in live),
        blocked_for_all=_blocked_for_all(live),
        stalled=sum(replica.reason == Reason.STALLED for replica in live),
        returning=sum(_returns(replica) for replica in live),
        draining=states.count(ReplicaState.DRAINING),
        replacing=any(_is_to_be_replaced(replica, fleet, observed.variant_order) for replica in live),
        wanted_before=_wanted_before(live, service, fleet, observed.variant_order),
        newest_created_at=max((replica.created_at for replica in live), default=None),
    )


def _returns(replica: Replica) -> bool:
    """Whether the replica loads again after its engine crashed more than once. It will hardly stay."""
    crashes = max(pod.restarts for pod in replica.pods)
    return replica.state is ReplicaState.LOADING and bool(replica.started) and crashes >= CRASHES_UNTIL_STUCK


def _blocked_for_all(live: list[Replica]) -> int:
    """Stuck replicas whose cause would also block the next one: there is no capacity, or nothing starts any more.

    If a replica became ready after a stuck one was created, the cause is specific to the stuck one, such as a bad
    node.
    """
    stuck = [r for r in live if r.state is ReplicaState.BLOCKED and r.reason != Reason.STALLED]
    ready = max((r.ready_since for r in live if r.state is ReplicaState.SERVING), default=-inf)
    return sum(r.reason in SHORTAGE_REASONS or r.created_at > ready for r in stuck)


def _wanted_before(live: list[Replica], service: ServiceView, fleet: FleetContext, variant_order: VariantOrder) -> int:
    """The count that a newly started operator assumes was wanted: the one in the status, and at least the live
    replicas that are not stuck. Those whose node ends soon are left out, because others replace all of them at once.

    During a rollout or a node drain there may be maxSurge replicas more than wanted; they are subtracted.
    """
    assert service.spec is not None
    lasting = [r for r in live if not fleet.notices or fleet.notices.keys().isdisjoint(r.nodes)]
    unblocked = sum(replica.state is not ReplicaState.BLOCKED for replica in lasting)
    if any(_is_to_be_replaced(replica, fleet, variant_order) for replica in lasting):
        unblocked -= service.spec.rollout.max_surge
    return max(service.status.replicas.desired, unblocked, 0)


def _is_to_be_replaced(replica: Replica, fleet: FleetContext, variant_order: VariantOrder) -> bool:
    must_leave = bool(fleet.cordoned) and not fleet.cordoned.isdisjoint(replica.nodes)
    return replica.revision not in variant_order.hashes or must_leave


def _settled(replicas: tuple[Replica, ...]) -> bool:
    """Whether replicas serve and none is stuck or loading, so that earlier failed attempts no longer matter."""
    return not any(replica.state in (ReplicaState.BLOCKED, ReplicaState.LOADING) for replica in replicas) and any(
        replica.state is ReplicaState.SERVING for replica in replicas
    )


def _serving_on(observed: ObservedPods) -> dict[str, frozenset[str]]:
    """The nodes on which each revision serves, for every revision that is a target or has replicas."""
    nodes: dict[str, frozenset[str]] = {target.hash: frozenset() for target in observed.variant_order.targets}
    for replica in observed.replicas:
        serving = replica.nodes if replica.state is ReplicaState.SERVING else frozenset()
        nodes[replica.revision] = nodes.get(replica.revision, frozenset()) | serving
    return nodes


def _taken_names(fleet: FleetContext, service: ServiceView) -> frozenset[str]:
    refused = {r.pod_name for r in fleet.refusals.get(service.uid, ()) if r.reason == Reason.NAME_TAKEN}
    names = fleet.names.get(service.key.namespace, frozenset())
    return names | refused if refused else names
