"""Placeholders of a simulated cluster: pods that hold GPUs on a node, with the engine's image, for a future replica.

Nothing runs in a placeholder, so it ends at once when it is deleted or preempted by a pod of a replica.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace

from forebay.api.reasons import Reason
from forebay.simulation.cluster.cold_start import ColdStarts
from forebay.simulation.cluster.pod_placement import placement_of
from forebay.simulation.cluster.simulated_nodes import SimulatedNodes
from forebay.simulation.cluster.timeline import Timeline
from forebay.world.world import PodView


@dataclass(slots=True, eq=False)
class SimulatedPlaceholder:
    view: PodView
    number: int
    """Order of creation in the whole run."""
    image: str
    selector: Mapping[str, str] = field(default_factory=dict)
    placed_at: float | None = None
    gone_at: float | None = None

    def change(self, **fields: object) -> None:
        """Change the object, which gives it a new resourceVersion."""
        version = str(int(self.view.resource_version) + 1)
        self.view = replace(self.view, **fields, resource_version=version)  # type: ignore[arg-type]


class SimulatedPlaceholders:
    """All placeholders, by namespace and name, and those that are gone."""

    def __init__(
        self, timeline: Timeline, nodes: SimulatedNodes, starts: ColdStarts, *, seed: int, epoch: float
    ) -> None:
        self.by_name: dict[tuple[str, str], SimulatedPlaceholder] = {}
        self.ended: list[SimulatedPlaceholder] = []
        self.on_change: Callable[[], None] = lambda: None
        """Called when a placeholder has become ready."""
        self._timeline = timeline
        self._nodes = nodes
        self._starts = starts
        self._seed = seed
        self._epoch = epoch
        self._created = 0

    def next_uid(self) -> str:
        return f"placeholder-{self._created:06d}"

    def add(self, view: PodView, image: str, selector: Mapping[str, str]) -> SimulatedPlaceholder:
        placeholder = SimulatedPlaceholder(view, self._created, image, selector)
        self._created += 1
        self.by_name[view.key.namespace, view.name] = placeholder
        return placeholder

    def waiting(self) -> list[SimulatedPlaceholder]:
        """Placeholders that wait for a node, oldest first."""
        return sorted((p for p in self.by_name.values() if p.view.node is None), key=lambda p: p.number)

    def place(self, placeholder: SimulatedPlaceholder, pods: Collection[PodView]) -> bool:
        """Place a placeholder on a node; False if no node has free GPUs. `pods` are all pods of the cluster."""
        placement = placement_of(placeholder.view, self._nodes.views(), pods, placeholder.selector)
        if placement is None:
            if placeholder.view.blocked is None:
                placeholder.change(blocked=Reason.UNSCHEDULABLE, blocked_message="no node has enough free GPUs")
            return False
        now = self._timeline.now
        placeholder.placed_at = now
        placed = {"unready_since": self._epoch + now, "scheduled_at": self._epoch + now}
        placeholder.change(node=placement.node, blocked=None, blocked_message="", **placed)
        self._timeline.after(self._pull_seconds(placeholder), lambda: self._pulled(placeholder))
        return True

    def remove(self, view: PodView) -> None:
        placeholder = self.by_name.pop((view.key.namespace, view.name))
        placeholder.gone_at = self._timeline.now
        self.ended.append(placeholder)

    def lose_node(self, name: str) -> None:
        """The node's kubelet died: placeholders on it are no longer ready."""
        for placeholder in self.by_name.values():
            if placeholder.view.node == name:
                since = self._epoch + self._timeline.now
                placeholder.change(ready=False, ready_since=None, unready_since=since)

    def _pull_seconds(self, placeholder: SimulatedPlaceholder) -> float:
        """By how much a cold start takes longer than a warm one; 0 if the node already has the image."""
        node = self._nodes.by_name[placeholder.view.node or ""]
        if node.warm_for(placeholder.image):
            return 0.0
        median = max(0.0, self._starts.ready_seconds - self._starts.warm_seconds)
        return self._starts.draw(median, self._seed, "pull", placeholder.number)

    def _pulled(self, placeholder: SimulatedPlaceholder) -> None:
        node = self._nodes.by_name[placeholder.view.node or ""]
        if placeholder.gone_at is not None or not node.view.ready:
            return
        node.images.add(placeholder.image)
        since = self._epoch + self._timeline.now
        placeholder.change(phase="Running", ready=True, ready_since=since, unready_since=None)
        self.on_change()
