"""Nodes with their pods in memory: the simulation's scheduler, and kubelets that load models."""

from dataclasses import dataclass, field, replace

from forebay.api.reasons import Reason
from forebay.simulation.cluster.pod_placement import GATED, group_of, placement_of
from forebay.world.world import NodeView, PodView, Revision
from tests.builders.engines import Engine
from tests.builders.world import NOW, a_node

Key = tuple[str, str]
"""Namespace and name."""
PULL_SECONDS = 5.0
"""Time until a placeholder is ready."""


@dataclass
class Machines:
    """The scheduler and the kubelets: what changes pods as time passes."""

    nodes: dict[str, NodeView] = field(default_factory=lambda: {n: a_node(n) for n in ("node-0", "node-1")})
    now: float = NOW
    load_seconds: float = 60.0
    termination_seconds: float = 15.0
    crashing: set[str] = field(default_factory=set)
    """Hashes of revisions whose engines crash."""
    unpullable: set[str] = field(default_factory=set)
    """Hashes of revisions, or names of nodes, where the image cannot be pulled."""
    pods: dict[Key, PodView] = field(default_factory=dict)
    engines: dict[str, Engine] = field(default_factory=dict)
    """By uid of the pod."""
    revisions: dict[str, list[Revision]] = field(default_factory=dict)
    """By uid of the service."""
    avoided: dict[str, frozenset[str]] = field(default_factory=dict)
    """Nodes that a pod keeps away from, by its name."""

    def live(self) -> None:
        """Let the kubelets and the scheduler act until now."""
        for key, pod in sorted(self.pods.items()):
            engine = self.engines[pod.uid]
            if pod.deleting and engine.ends_at is not None and self.now >= engine.ends_at and self.node_ready(pod):
                del self.pods[key], self.engines[pod.uid]
        for key, pod in sorted(self.pods.items(), key=_queue):
            if key in self.pods and not pod.deleting and pod.phase == "Pending" and pod.node is None:
                self._schedule(key, pod)
        for key, pod in sorted(self.pods.items()):
            if not pod.deleting and pod.node is not None and not pod.ready and self.node_ready(pod):
                self._load(key, pod)

    def put(self, pod: PodView) -> None:
        """Add a pod that the operator did not create."""
        self.pods[pod.key.namespace, pod.name] = pod
        self.engines[pod.uid] = Engine(scheduled_at=pod.created_at if pod.node else None)

    def store(self, key: Key, pod: PodView) -> None:
        if pod != self.pods[key]:
            self.pods[key] = replace(pod, resource_version=str(int(pod.resource_version) + 1))

    def end(self, key: Key) -> None:
        pod = self.pods[key]
        if not pod.deleting:
            self.engines[pod.uid].ends_at = self.now + (self.termination_seconds if pod.node else 0.0)
            self.store(key, replace(pod, deleting=True, ready=False, ready_since=None))

    def node_ready(self, pod: PodView) -> bool:
        return pod.node is None or (pod.node in self.nodes and self.nodes[pod.node].ready)

    def _schedule(self, key: Key, pod: PodView) -> None:
        if pod.gates:
            self.store(key, replace(pod, blocked=Reason.UNSCHEDULABLE, blocked_message=GATED))
            return
        nodes = sorted(self.nodes.values(), key=lambda node: node.name)
        avoid = self.avoided.get(pod.name, frozenset())
        placement = placement_of(pod, nodes, self.pods.values(), self._selector(pod), avoid)
        if placement is not None:
            for victim in placement.preempted:
                del self.pods[victim.key.namespace, victim.name], self.engines[victim.uid]
            self.engines[pod.uid].scheduled_at = self.now
            placed = replace(pod, node=placement.node, unready_since=self.now, scheduled_at=self.now)
            self.store(key, replace(placed, blocked=None, blocked_message=""))
            return
        if pod.blocked is None:
            self.store(key, replace(pod, blocked=Reason.UNSCHEDULABLE, blocked_message="Insufficient nvidia.com/gpu"))

    def _selector(self, pod: PodView) -> dict[str, str]:
        revisions = (r for r in self.revisions.get(pod.service_uid or "", []) if r.hash == pod.revision)
        return {name: value for revision in revisions for name, value in revision.shape.node_selector}

    def _load(self, key: Key, pod: PodView) -> None:
        began = self.engines[pod.uid].scheduled_at or pod.created_at
        if pod.revision in self.unpullable or pod.node in self.unpullable:
            self.store(key, replace(pod, blocked=Reason.IMAGE_PULL, blocked_message="manifest unknown"))
        elif pod.revision in self.crashing:
            if self.now - began >= 10:
                restarts = int((self.now - began) // 20) + 1
                self.store(key, replace(pod, phase="Running", blocked=Reason.CRASH_LOOP, restarts=restarts))
        elif pod.rank > 0 or self._group_placed_for(pod, self.load_seconds if pod.place is None else PULL_SECONDS):
            healthy = replace(pod, phase="Running", ready=True, ready_since=self.now, unready_since=None)
            self.store(key, replace(healthy, blocked=None, blocked_message=""))

    def _group_placed_for(self, pod: PodView, seconds: float) -> bool:
        """Whether all ranks have been placed for so long. Rank 0 loads together with all others."""
        names = [r.shape.pods for r in self.revisions.get(pod.service_uid or "", []) if r.hash == pod.revision]
        group = group_of(pod, self.pods.values())
        if len(group) < max(names, default=1) or any(p.node is None for p in group):
            return False
        return all(self.now - (self.engines[p.uid].scheduled_at or p.created_at) >= seconds for p in group)


def _queue(item: tuple[Key, PodView]) -> tuple[bool, float, str]:
    """The order in which the scheduler looks at pods: by priority, then by age."""
    key, pod = item
    return pod.place is not None, pod.created_at, key[1]


def by_name(pod: PodView) -> str:
    return pod.name
