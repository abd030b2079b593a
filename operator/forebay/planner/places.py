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
    held: dict[str, int] = {}
    for pod in pods:
        if pod.node is not None:
            held[pod.node] = held.get(pod.node, 0) + pod.gpus
    usable = [node for node in nodes if node.ready and not node.cordoned]
    return {shape: _places(shape, usable, held) for shape in dict.fromkeys(shapes)}


def _places(shape: ReplicaShape, nodes: Iterable[NodeView], held: Mapping[str, int]) -> int:
    pods = sum(
        max(0, node.gpus.get(shape.resource_name, 0) - held.get(node.name, 0)) // max(1, shape.gpus_per_pod)
        for node in nodes
        if all(node.labels.get(name) == value for name, value in shape.node_selector)
    )
    return pods // max(1, shape.pods)
