"""Nodes of a simulated cluster: the initial ones, those that a node autoscaler adds, and which of them are warm."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial

from forebay.simulation.cluster.cold_start import ColdStarts, NodePool
from forebay.simulation.cluster.timeline import Timeline
from forebay.world.world import NodeView


@dataclass(slots=True)
class SimulatedNode:
    view: NodeView
    warm: bool
    """Whether the node holds the image and the weights from the beginning."""
    images: set[str] = field(default_factory=set)
    """Images that placeholders have pulled to the node."""

    def warm_for(self, image: str) -> bool:
        return self.warm or (image != "" and image in self.images)


class SimulatedNodes:
    """All nodes by name, in the order in which they joined."""

    def __init__(
        self, timeline: Timeline, pools: Iterable[NodePool], starts: ColdStarts, *, seed: int, epoch: float
    ) -> None:
        self.by_name: dict[str, SimulatedNode] = {}
        self._timeline = timeline
        self._pools = tuple(pools)
        self._starts = starts
        self._seed = seed
        self._epoch = epoch
        self._requested: dict[str, int] = {}
        self._joined: dict[str, int] = {}
        for pool in self._pools:
            for number in range(pool.nodes):
                self._join(pool, number)

    def views(self) -> tuple[NodeView, ...]:
        return tuple(node.view for node in self.by_name.values())

    def ask_for_more(self, waiting_gpus: int, joined: Callable[[], None]) -> None:
        """Request one more node if those on the way lack GPUs for `waiting_gpus`; `joined` is called when it is up."""
        for pool in self._pools:
            requested = self._requested.get(pool.name, 0)
            up = self._joined.get(pool.name, 0)
            if requested < pool.more_nodes and (requested - up) * pool.gpus_per_node < waiting_gpus:
                self._requested[pool.name] = requested + 1
                seconds = self._starts.draw(self._starts.node_seconds, self._seed, f"node/{pool.name}", requested)
                self._timeline.after(seconds, partial(self._add, pool, pool.nodes + requested, joined))
                return

    def _add(self, pool: NodePool, number: int, joined: Callable[[], None]) -> None:
        self._join(pool, number, created_at=self._epoch + self._timeline.now)
        self._joined[pool.name] = self._joined.get(pool.name, 0) + 1
        joined()

    def _join(self, pool: NodePool, number: int, created_at: float = 0.0) -> None:
        name = f"{pool.name}-{number}"
        gpus = {pool.resource_name: pool.gpus_per_node}
        view = NodeView(name, True, False, gpus, dict(pool.labels), created_at=created_at)
        self.by_name[name] = SimulatedNode(view, warm=number < pool.warm_nodes)

    def change(self, name: str, **fields: object) -> None:
        node = self.by_name[name]
        node.view = replace(node.view, **fields)  # type: ignore[arg-type]
