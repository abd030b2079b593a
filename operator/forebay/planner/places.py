"""Places: what the next replicas of a service would start on, so how soon they would serve."""

from collections.abc import Iterable, Mapping

from forebay.planner.replicas import Replica, ReplicaState
from forebay.planner.world import NodeView, PodView, ReplicaShape
from forebay.scaling.lead_time import LeadTimes, Prospect


def prospect_of(lead_times: LeadTimes, free_places: int, replicas: Iterable[Replica]) -> Prospect:
    """What the next replicas start on. Those on their way without a node come first, and while one of them is known to
    find none, the next will not either: other people's pods hold GPUs that we do not see."""
    waiting = [
        replica
        for replica in replicas
        if replica.state in (ReplicaState.LOADING, ReplicaState.BLOCKED) and any(p.node is None for p in replica.pods)
    ]
    no_room = any(pod.blocked == "Unschedulable" for replica in waiting for pod in replica.pods)
    return Prospect(lead_times, free_places=0 if no_room else max(0, free_places - len(waiting)))


def free_places(
    shapes: Iterable[ReplicaShape], nodes: Iterable[NodeView], pods: Iterable[PodView]
) -> dict[ReplicaShape, int]:
    """How many more replicas of each shape the ready nodes have room for, counted by GPUs."""
    held, usable = gpus_by_node(pods), tuple(nodes)
    return {shape: replicas_within(shape, free_gpus(shape, usable, held)) for shape in dict.fromkeys(shapes)}


def gpus_by_node(pods: Iterable[PodView]) -> dict[str, int]:
    """What these pods hold, on the nodes that they have been placed on."""
    held: dict[str, int] = {}
    for pod in pods:
        if pod.node is not None:
            held[pod.node] = held.get(pod.node, 0) + pod.gpus
    return held


def free_gpus(shape: ReplicaShape, nodes: Iterable[NodeView], held: Mapping[str, int]) -> tuple[int, ...]:
    """On each node that may take a pod of the shape."""
    selector = dict(shape.node_selector)
    return tuple(
        max(0, node.gpus[shape.resource_name] - held.get(node.name, 0))
        for node in nodes
        if node.ready
        and not node.cordoned
        and selector.items() <= node.labels.items()
        and node.gpus.get(shape.resource_name, 0) > 0
    )


def replicas_within(shape: ReplicaShape, free: Iterable[int]) -> int:
    """How many replicas so many free GPUs, node by node, have room for."""
    return sum(gpus // max(1, shape.gpus_per_pod) for gpus in free) // max(1, shape.pods)
