"""Room: how many more pods of a service the nodes that are there could take, before any of them is created.

Only what Forebay knows is counted: GPUs of ready nodes that match the node selector, without those of its own pods.
Pods of others and the nodes that an autoscaler would add are not known here.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from forebay.planner.observe.placement import free_gpus, gpus_by_node, replicas_within
from forebay.schedules.schedule_floors import WindowFloor
from forebay.world.settings import Settings
from forebay.world.world import NodeView, PodView, ReplicaShape

LOOKAHEAD_SECONDS: Final = 3600.0
"""So long before warming begins it is looked whether the nodes have room: time to free some, or to add a node."""


@dataclass(frozen=True, slots=True)
class FreeGpus:
    replicas: int
    """That would find GPUs on nodes."""
    gpus: int
    """Free ones on those nodes."""
    nodes: int
    """Nodes that match."""
    under_ceiling: int | None = None
    """Replicas that the operator's ceiling of GPUs leaves; None without one."""


def looks_ahead(window_floor: WindowFloor, now: float) -> bool:
    """Whether the next window is so near that its place on the nodes is looked for."""
    return window_floor.counts(now) or window_floor.warm_from - LOOKAHEAD_SECONDS <= now


def gpus_taken(pods: Iterable[PodView]) -> dict[str, int]:
    """By node. A pod that drains or is being deleted will have gone by then, and a placeholder gives its place up."""
    return gpus_by_node(pod for pod in pods if not _leaves(pod) and pod.phase not in ("Failed", "Succeeded"))


def _leaves(pod: PodView) -> bool:
    return pod.deleting or pod.drain_started_at is not None or pod.place is not None


def free_gpus_for(
    shape: ReplicaShape, nodes: Iterable[NodeView], taken: Mapping[str, int], used_gpus: int, settings: Settings
) -> FreeGpus:
    """`used_gpus` are those of all our pods, as the operator's ceiling counts them."""
    free = free_gpus(shape, nodes, taken)
    ceiling = None if settings.max_gpus is None else max(0, settings.max_gpus - used_gpus) // max(1, shape.gpus)
    return FreeGpus(replicas_within(shape, free), sum(free), len(free), ceiling)
