"""Free GPUs: how many more replicas of a service the existing nodes could take, before any of them is created.

The count is the GPUs of ready nodes that match the node selector, minus those of Forebay's own pods. Pods of others and
nodes that an autoscaler would add are unknown here.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from forebay.planner.observe.placement import free_gpus, gpus_by_node, replicas_within
from forebay.schedules.schedule_floors import WindowFloor
from forebay.world.settings import Settings
from forebay.world.world import NodeView, PodView, ReplicaShape

LOOKAHEAD_SECONDS: Final = 3600.0
"""How long before warming begins the nodes are checked for free GPUs. It leaves time to free GPUs or to add a node."""


@dataclass(frozen=True, slots=True)
class FreeGpus:
    replicas: int
    """More replicas for which the nodes have free GPUs."""
    gpus: int
    """Free GPUs on the matching nodes."""
    nodes: int
    """Matching nodes."""
    under_ceiling: int | None = None
    """More replicas that the operator's GPU ceiling allows; None without a ceiling."""


def looks_ahead(window_floor: WindowFloor, now: float) -> bool:
    """Whether the next window is near enough to check the nodes for free GPUs."""
    return window_floor.counts(now) or window_floor.warm_from - LOOKAHEAD_SECONDS <= now


def gpus_taken(pods: Iterable[PodView]) -> dict[str, int]:
    """GPUs in use by node. Draining and terminating pods do not count because they will be gone by then, and
    placeholders do not count because they can be preempted."""
    return gpus_by_node(pod for pod in pods if not _leaves(pod) and pod.phase not in ("Failed", "Succeeded"))


def gpus_under_ceiling(pods: Iterable[PodView], lost_nodes: Collection[str]) -> int:
    """GPUs that count against the operator's ceiling: those of all replicas that any node still runs, terminating ones
    included.

    Placeholders do not count, because replicas preempt them. Pods of lost nodes do not count, because nothing runs them
    and nothing ends them either: they stay until the node returns or is removed.
    """
    return sum(
        pod.gpus
        for pod in pods
        if pod.place is None
        and (pod.service_uid is not None or pod.owner_uid is not None)
        and pod.node not in lost_nodes
    )


def _leaves(pod: PodView) -> bool:
    return pod.deleting or pod.drain_started_at is not None or pod.place is not None


def free_gpus_for(
    shape: ReplicaShape, nodes: Iterable[NodeView], taken: Mapping[str, int], used_gpus: int, settings: Settings
) -> FreeGpus:
    """`used_gpus` is the number of GPUs of all Forebay's pods, as the operator's ceiling counts them."""
    free = free_gpus(shape, nodes, taken)
    ceiling = None if settings.max_gpus is None else max(0, settings.max_gpus - used_gpus) // max(1, shape.gpus)
    return FreeGpus(replicas_within(shape, free), sum(free), len(free), ceiling)
