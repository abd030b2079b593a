"""Nodes: which are down, which are lost, and which new replicas should avoid."""

from collections.abc import Iterable, Mapping
from typing import Final

from forebay.planner.memory import ReplicaFailure
from forebay.world.settings import Settings
from forebay.world.world import NodeView, PodView

FAILURES_UNTIL_AVOIDED: Final = 2
FAILURES_KEPT_SECONDS: Final = 3600.0
MOST_FAILURES: Final = 32
MOST_AVOIDED: Final = 10


def nodes_down(
    nodes: Iterable[NodeView], pods: Iterable[PodView], before: Mapping[str, float], now: float
) -> dict[str, float]:
    """Since when each node has been not ready, or missing although a pod names it.

    Pods and nodes are read one after the other, so a node may be missing for a moment. Therefore the time is kept, and
    only a node that stays down is lost.
    """
    known = {node.name: node for node in nodes}
    down = {
        node.name: node.unready_since if node.unready_since is not None else before.get(node.name, now)
        for node in known.values()
        if not node.ready
    }
    for pod in pods:
        if pod.node is not None and pod.node not in known:
            down[pod.node] = before.get(pod.node, now)
    return dict(sorted(down.items()))


def lost_nodes(nodes: Iterable[NodeView], down: Mapping[str, float], settings: Settings, now: float) -> frozenset[str]:
    """Nodes whose replicas no longer count.

    When more nodes are down than up, the control plane has probably lost sight of them and their engines still serve,
    so no node counts as lost.
    """
    known = {node.name for node in nodes}
    if len(down) * 2 > len(known | down.keys()):
        return frozenset()
    return frozenset(name for name, since in down.items() if now - since >= settings.node_lost_after_seconds)


def avoided_nodes(
    failures: Iterable[ReplicaFailure], nodes: Iterable[NodeView], serving_on: Mapping[str, frozenset[str]]
) -> tuple[str, ...]:
    """Nodes on which replicas of one service failed repeatedly, or failed once while the same revision serves on
    another node.

    When this would exclude every node, the fault is the service's and no node is avoided. `serving_on` maps each
    current revision to the nodes on which it serves, possibly none. Failures of other revisions are ignored.
    """
    counts: dict[str, int] = {}
    for failure in failures:
        if failure.node is None or failure.revision not in serving_on:
            continue
        elsewhere = serving_on[failure.revision]
        cleared = elsewhere and failure.node not in elsewhere and not failure.ended
        counts[failure.node] = counts.get(failure.node, 0) + (FAILURES_UNTIL_AVOIDED if cleared else 1)
    if max(counts.values(), default=0) < FAILURES_UNTIL_AVOIDED:
        return ()
    names = {node.name for node in nodes if any(node.gpus.values())}
    avoided = sorted(name for name, failed in counts.items() if failed >= FAILURES_UNTIL_AVOIDED and name in names)
    return tuple(avoided[:MOST_AVOIDED]) if len(avoided) < len(names) else ()
