"""Nodes: which are down, which are lost, which end soon, and which new replicas should avoid."""

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from forebay.planner.memory import ReplicaFailure
from forebay.world.settings import Settings
from forebay.world.world import NodeView, PodView

FAILURES_UNTIL_AVOIDED: Final = 2
FAILURES_KEPT_SECONDS: Final = 3600.0
MOST_FAILURES: Final = 32
MOST_AVOIDED: Final = 10
NOTICE_SECONDS: Final = 120.0
"""How long a node lasts after a spot or maintenance notice. Taints do not say it. AWS announces the end of a spot
instance two minutes ahead, and its termination handler drains two minutes ahead of a maintenance."""


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


def notices_of(
    nodes: Iterable[NodeView], down: Collection[str], before: Mapping[str, float], now: float
) -> dict[str, float]:
    """By when each node with a spot or maintenance notice ends. A node that is gone keeps its time while pods name it.

    The time runs from the tick that first observed the notice. Times in taints and labels are of other clocks, and most
    taints have none.
    """
    known = {node.name: node for node in nodes}
    noticed = {name for name, node in known.items() if node.notice}
    gone = {name for name in down if name not in known and name in before}
    return {name: before.get(name, now + NOTICE_SECONDS) for name in sorted(noticed | gone)}


def earliest_end(names: Iterable[str], notices: Mapping[str, float]) -> float | None:
    """By when the first of these nodes ends; None when none has a notice."""
    return min((notices[name] for name in names if name in notices), default=None)


def lost_nodes(
    nodes: Iterable[NodeView],
    down: Mapping[str, float],
    settings: Settings,
    now: float,
    notices: Collection[str] = (),
) -> frozenset[str]:
    """Nodes whose replicas no longer count: those that are down for long enough, and at once those that are shut down.

    When more nodes are down than up, the control plane has probably lost sight of them and their engines still serve,
    so no node counts as lost. Nodes whose end was announced, by a notice or as shut down, take no part in this.
    """
    known = {node.name: node for node in nodes}
    shut_down = {name for name, node in known.items() if node.shut_down}
    announced = shut_down.union(notices)
    unexplained = down.keys() - announced
    out_of_sight = unexplained if len(unexplained) * 2 > len((known.keys() | down.keys()) - announced) else set()
    return frozenset(shut_down) | {
        name
        for name, since in down.items()
        if now - since >= settings.node_lost_after_seconds and name not in out_of_sight
    }


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
