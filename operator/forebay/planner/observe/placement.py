"""Placement: what the next replicas of a service would start on, which decides how soon they would serve."""

from collections.abc import Iterable, Mapping

from forebay.api.reasons import Reason
from forebay.planner.observe.replicas import Replica, ReplicaState
from forebay.scaling.learning.lead_time import LeadTimes, Prospect
from forebay.world.world import NodeView, PodView, ReplicaShape


def prospect_of(lead_times: LeadTimes, free_places: int, held_places: int, replicas: Iterable[Replica]) -> Prospect:
    """What the next replicas start on, after the existing replicas without a node have taken their places."""
    known = tuple(replicas)
    waiting, free = len(_without_a_node(known)), _free(free_places, known)
    return Prospect(
        lead_times,
        placeholders=max(0, held_places - max(0, waiting - free)),
        free_places=max(0, free - waiting),
    )


def prospect_above_min_of(
    least: int,
    lead_times: LeadTimes,
    free_places: int,
    held_places: int,
    replicas: Iterable[Replica],
    preempting_pods: frozenset[str],
) -> Prospect:
    """What the replicas above `least` start on, those that already exist included.

    Existing replicas have taken their places, or will take free ones. Without counting those places, the longer lead
    time of the remaining replicas would apply to the existing ones too. `preempting_pods` are the uids of pods that
    started in the place of a placeholder.
    """
    known = tuple(replicas)
    coming = [r for r in known if r.state in (ReplicaState.LOADING, ReplicaState.SERVING)]
    above = sorted(coming, key=lambda replica: (-replica.created_at, replica.name))[: max(0, len(coming) - least)]
    placed = [replica for replica in above if all(pod.node is not None for pod in replica.pods)]
    warm = sum(all(pod.uid in preempting_pods for pod in replica.pods) for replica in placed)
    return Prospect(
        lead_times,
        placeholders=held_places + warm,
        free_places=_free(free_places, known) + len(placed) - warm,
    )


def _free(free_places: int, replicas: Iterable[Replica]) -> int:
    """Free places, or 0 while a replica is unschedulable: pods of others then hold GPUs that Forebay does not see, and
    the next replica would find no node either."""
    no_room = any(pod.blocked == Reason.UNSCHEDULABLE for replica in _without_a_node(replicas) for pod in replica.pods)
    return 0 if no_room else free_places


def _without_a_node(replicas: Iterable[Replica]) -> list[Replica]:
    return [
        replica
        for replica in replicas
        if replica.state in (ReplicaState.LOADING, ReplicaState.BLOCKED) and any(p.node is None for p in replica.pods)
    ]


def free_places(
    shapes: Iterable[ReplicaShape], nodes: Iterable[NodeView], pods: Iterable[PodView]
) -> dict[ReplicaShape, int]:
    """How many more replicas of each shape fit on the ready nodes, counted by GPUs."""
    held, usable = gpus_by_node(pods), tuple(nodes)
    return {shape: replicas_within(shape, free_gpus(shape, usable, held)) for shape in dict.fromkeys(shapes)}


def gpus_by_node(pods: Iterable[PodView]) -> dict[str, int]:
    """GPUs that the given pods hold, by node."""
    held: dict[str, int] = {}
    for pod in pods:
        if pod.node is not None:
            held[pod.node] = held.get(pod.node, 0) + pod.gpus
    return held


def free_gpus(shape: ReplicaShape, nodes: Iterable[NodeView], held: Mapping[str, int]) -> tuple[int, ...]:
    """Free GPUs of each node that may take a pod of the shape."""
    return tuple(
        max(0, node.gpus[shape.resource_name] - held.get(node.name, 0)) for node in nodes if takes(node, shape)
    )


def takes(node: NodeView, shape: ReplicaShape) -> bool:
    """Whether the node matches the shape, regardless of its free GPUs."""
    return (
        node.ready
        and not node.cordoned
        and all(node.labels.get(label) == value for label, value in shape.node_selector)
        and node.gpus.get(shape.resource_name, 0) > 0
    )


def replicas_within(shape: ReplicaShape, free: Iterable[int]) -> int:
    """How many replicas fit into `free`, the free GPUs of each node."""
    return sum(gpus // max(1, shape.gpus_per_pod) for gpus in free) // max(1, shape.pods)
