"""The context of the fleet: the data that all services share, indexed once per tick."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from forebay.api.reasons import Reason
from forebay.planner.memory import Preemptions, SharedInputs, State
from forebay.planner.observe.free_gpus import gpus_taken
from forebay.planner.observe.namespace_quotas import NamespaceQuotas
from forebay.planner.observe.nodes import lost_nodes, nodes_down, notices_of
from forebay.planner.observe.placeholder_preemption import HeldPlaces, preemptions_of
from forebay.planner.observe.placement import free_places
from forebay.workloads.objects.ranks import hostnames_of
from forebay.world.world import ChildKey, ChildView, NodeView, PodView, Refusal, ReplicaShape, ServiceView, World


@dataclass(frozen=True, slots=True)
class FleetContext:
    """The data that all services share."""

    world: World
    before: State
    """The state of the previous tick."""
    now: float
    """Unix seconds."""
    watching_since: float
    """When this operator began to lead."""
    nodes_down: Mapping[str, float]
    """Since when each node has been not ready, or missing although pods name it."""
    preemptions: Preemptions
    pods: Mapping[str, tuple[PodView, ...]]
    """Owned and orphaned pods by the uid of their service, without placeholders."""
    placeholders: Mapping[str, tuple[PodView, ...]]
    """Placeholders by the uid of their controller."""
    names: Mapping[str, frozenset[str]]
    """Names of all pods by namespace."""
    children: Mapping[ChildKey, ChildView]
    """The live objects of the kinds that services own besides pods."""
    lost_nodes: frozenset[str]
    cordoned: frozenset[str]
    notices: Mapping[str, float]
    """By when each node with a spot or maintenance notice ends."""
    refusals: Mapping[str, tuple[Refusal, ...]]
    """Refused pods of replicas by service uid, oldest first."""
    refused_placeholders: Mapping[str, tuple[Refusal, ...]]
    """Refused placeholders by the uid of the intended owner, oldest first."""
    quota_refusals: Mapping[str, Refusal]
    """The last replica pod that a ResourceQuota refused, by namespace. A quota counts placeholders too, and it refuses
    a pod before the scheduler could preempt a placeholder for it."""
    quotas: NamespaceQuotas
    """The ResourceQuotas that can be read."""
    nodes: Mapping[str, NodeView]
    """By name."""
    hostnames: Mapping[str, str]
    """Hostname labels by name of the node."""
    free_places: Mapping[ReplicaShape, int]
    """How many more replicas of each wanted shape fit on the ready nodes."""
    gpus_taken: Mapping[str, int]
    """GPUs that Forebay's pods hold, by node."""
    held_places: HeldPlaces
    preempting_pods: frozenset[str]
    """Uids of pods that started in the place of a placeholder."""

    @property
    def shared_inputs(self) -> SharedInputs:
        return SharedInputs(
            self.world.settings,
            tuple(sorted(self.lost_nodes)),
            tuple(sorted(self.cordoned)),
            tuple(sorted(self.notices.items())),
        )


def fleet_context_of(world: World, state: State, now: float) -> FleetContext:
    preemptions = preemptions_of(world, state.preemptions, now)
    down = nodes_down(world.nodes, world.pods, state.nodes_down, now)
    notices = notices_of(world.nodes, down, state.notices, now)
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
        names={namespace: frozenset(pod_names) for namespace, pod_names in names.items()},
        children={child.child_key: child for child in world.children},
        lost_nodes=lost_nodes(world.nodes, down, world.settings, now, notices),
        cordoned=frozenset(node.name for node in world.nodes if node.cordoned),
        notices=notices,
        refusals=_by_time(refusal for refusal in world.refusals if not refusal.placeholder),
        refused_placeholders=_by_time(refusal for refusal in world.refusals if refusal.placeholder),
        quota_refusals=_quota_short(world),
        quotas=NamespaceQuotas.of(world.quotas),
        nodes={node.name: node for node in world.nodes},
        hostnames=hostnames_of(world.nodes),
        free_places=free_places(_shapes(world.services), world.nodes, world.pods),
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
    return {uid: tuple(sorted(group, key=lambda pod: (pod.name, pod.uid))) for uid, group in pods.items()}


def _by_time(refusals: Iterable[Refusal]) -> dict[str, tuple[Refusal, ...]]:
    values: dict[str, list[Refusal]] = {}
    for refusal in sorted(refusals, key=lambda refusal: (refusal.at, refusal.pod_name)):
        values.setdefault(refusal.service_uid, []).append(refusal)
    return {uid: tuple(refusals) for uid, refusals in values.items()}
