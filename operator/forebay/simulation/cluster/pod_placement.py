"""The scheduler of a simulated cluster: which node a pod gets, and which placeholders it preempts there.

First fit, in the order in which the nodes are given. A pod of a replica may preempt placeholders; a placeholder
preempts nothing. Pods of one replica go to different nodes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from forebay.world.world import NodeView, PodView, Revision, ServiceView

GATED = "Scheduling is blocked due to non-empty scheduling gates"


@dataclass(frozen=True, slots=True)
class Placement:
    """The node that a pod gets, and the placeholders that it preempts there."""

    node: str
    preempted: tuple[PodView, ...] = ()


def placement_of(
    pod: PodView,
    nodes: Iterable[NodeView],
    pods: Collection[PodView],
    selector: Mapping[str, str],
    avoid: Collection[str] = (),
) -> Placement | None:
    """The placement of a pod; None if no node fits.

    `pods` are all pods of the cluster. `avoid` names nodes that the pod must not get.
    """
    group_nodes = {other.node for other in group_of(pod, pods) if other.uid != pod.uid}
    on_node: dict[str, list[PodView]] = {}
    for other in pods:
        if other.node is not None:
            on_node.setdefault(other.node, []).append(other)
    for node in nodes:
        if not node.ready or node.cordoned or node.name in avoid or node.name in group_nodes:
            continue
        if selector.items() <= node.labels.items():
            placement = _on_node(pod, node, on_node.get(node.name, ()))
            if placement is not None:
                return placement
    return None


def group_of(pod: PodView, pods: Iterable[PodView]) -> list[PodView]:
    """All pods of the same replica; a placeholder is a group of its own."""
    if pod.place is not None or pod.ordinal < 0:
        return [pod]
    replica = (pod.service_uid, pod.revision, pod.ordinal)
    return [p for p in pods if p.place is None and (p.service_uid, p.revision, p.ordinal) == replica]


def revision_of(pod: PodView, service: ServiceView, stored: Iterable[Revision] = ()) -> Revision | None:
    """The revision that a pod runs, or a revision whose place a placeholder holds; None if it is no longer known.

    A revision that is not stored yet is looked up in the service's spec and in its variants.
    """
    wanted = (service.wanted, *(variant.wanted for variant in service.variants))
    for revision in (*stored, *(revision for revision in wanted if revision is not None)):
        if pod.place is None and revision.hash == pod.revision:
            return revision
        if pod.place is not None and revision.place is not None and revision.place.hash == pod.place:
            return revision
    return None


def _on_node(pod: PodView, node: NodeView, node_pods: Sequence[PodView]) -> Placement | None:
    free = sum(node.gpus.values()) - sum(other.gpus for other in node_pods)
    if free >= pod.gpus:
        return Placement(node.name)
    if pod.place is not None:
        return None
    placeholders = sorted((other for other in node_pods if other.place is not None), key=lambda other: other.name)
    preempted: list[PodView] = []
    while free < pod.gpus and placeholders:
        preempted.append(placeholders.pop())
        free += preempted[-1].gpus
    return Placement(node.name, tuple(preempted)) if free >= pod.gpus else None
