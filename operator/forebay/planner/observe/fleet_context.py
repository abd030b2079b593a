"""The context of the fleet: what all services share, sorted once per tick."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from forebay.api.reasons import Reason
from forebay.planner.memory import Preemptions, State
from forebay.planner.observe.free_gpus import gpus_taken
from forebay.planner.observe.nodes import lost_nodes, nodes_down
from forebay.planner.observe.placeholder_preemption import HeldPlaces, preemptions_of
from forebay.planner.observe.placement import free_places
from forebay.workloads.objects.ranks import HOSTNAME_LABEL
from forebay.world.world import NodeView, PodView, Refusal, ReplicaShape, ServiceView, World


@dataclass(frozen=True, slots=True)
class FleetContext:
    """What all services share: sorted once per tick."""

    world: World
    before: State
    """What was remembered of the tick before."""
    now: float
    watching_since: float
    nodes_down: Mapping[str, float]
    """Since when a node is not ready, or missing while pods name it."""
    preemptions: Preemptions
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
    hostnames: Mapping[str, str]
    """Hostname labels of nodes, by name."""
    places: Mapping[ReplicaShape, int]
    """How many more replicas of the shapes that are wanted the ready nodes have room for."""
    gpus_taken: Mapping[str, int]
    """By node, those of our pods."""
    held_places: HeldPlaces
    preempting_pods: frozenset[str]
    """Uids of pods that started in the place of a placeholder."""


def fleet_context_of(world: World, state: State, now: float) -> FleetContext:
    preemptions = preemptions_of(world, state.preemptions, now)
    down = nodes_down(world.nodes, world.pods, state.nodes_down, now)
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
        before=state,
        now=now,
        watching_since=state.since,
        nodes_down=down,
        preemptions=preemptions,
        pods=_by_name(pods),
        placeholders=_by_name(placeholders),
        names={namespace: frozenset(found) for namespace, found in names.items()},
        lost_nodes=lost_nodes(world.nodes, down, world.settings, now),
        cordoned=frozenset(node.name for node in world.nodes if node.cordoned),
        refusals=_by_time(refusal for refusal in world.refusals if not refusal.placeholder),
        refused_placeholders=_by_time(refusal for refusal in world.refusals if refusal.placeholder),
        quota_short=_quota_short(world),
        nodes={node.name: node for node in world.nodes},
        hostnames={node.name: node.labels.get(HOSTNAME_LABEL, node.name) for node in world.nodes},
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
