"""A cluster in virtual time: what an API server, a scheduler, kubelets and a node autoscaler do to pods of engines.

It keeps the promises that planning rests on: writes are refused on a version that is not the last one, names are taken
until their pod is gone, pods are placed first fit in order of creation, and what is deleted first finishes what it has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from math import inf

from forebay.planner.plan import (
    Action,
    AdoptPod,
    ApplyChildren,
    CancelDrain,
    CreatePod,
    DeletePod,
    DeleteRevision,
    StartDrain,
    StoreRevision,
)
from forebay.planner.world import ChildView, NodeView, PodView, Revision, ServiceKey, ServiceView
from forebay.simulation.cold_start import ColdStarts, NodePool
from forebay.simulation.fluid_gateway import FluidGateway
from forebay.simulation.gateway_model import Gateway
from forebay.simulation.served_model import ServedModel
from forebay.simulation.simulated_replica import SimulatedReplica
from forebay.simulation.timeline import Timeline

CRASHES_UNTIL_BACK_OFF = 2


@dataclass(slots=True)
class SimulatedNode:
    view: NodeView
    warm: bool
    """Image and weights are there."""


class ClusterModel:
    """All pods, nodes and engines. `epoch` is the unix time at which the simulation begins."""

    def __init__(
        self,
        timeline: Timeline,
        models: Iterable[ServedModel],
        pools: Iterable[NodePool],
        starts: ColdStarts | None = None,
        *,
        seed: int = 0,
        epoch: float = 1_750_000_000.0,
    ) -> None:
        self.timeline = timeline
        self.epoch = epoch
        self.starts = starts or ColdStarts()
        self.seed = seed
        self.models: dict[ServiceKey, ServedModel] = {model.view.key: model for model in models}
        self.services: dict[ServiceKey, ServiceView] = {key: model.view for key, model in self.models.items()}
        self.gateways: dict[ServiceKey, Gateway | FluidGateway] = {}
        self.pools = tuple(pools)
        self.nodes: dict[str, SimulatedNode] = {}
        self.pods: dict[tuple[str, str], SimulatedReplica] = {}
        self.ended: list[SimulatedReplica] = []
        self.revisions: dict[str, list[Revision]] = {}
        self.children: list[ChildView] = []
        self.on_change: Callable[[], None] = lambda: None
        """Told when a pod or a node has changed by itself."""
        self.on_ready: Callable[[SimulatedReplica], None] = lambda replica: None
        self.why_not_start: Callable[[SimulatedReplica], str | None] = lambda replica: None
        """Asked when a pod is to become ready: None, or the reason why it does not (`ImagePull`, `CrashLoop`, …, or
        `never` for one that loads for ever)."""
        self.changes: dict[ServiceKey, list[tuple[float, int]]] = {}
        """(time, pods wanted from then on) by service: whenever the number of those that neither drain nor end changes
        because somebody wanted it."""
        self.conflicts = 0
        """Writes that were refused because the object had changed."""
        self._created = 0
        self._nodes_asked: dict[str, int] = {}
        self._nodes_joined: dict[str, int] = {}
        for pool in self.pools:
            for number in range(pool.nodes):
                self._join(pool, number)

    @property
    def wall_time(self) -> float:
        return self.epoch + self.timeline.now

    # What can be seen

    def replicas_of(self, key: ServiceKey) -> list[SimulatedReplica]:
        return [replica for replica in self.pods.values() if replica.view.key == key]

    def wanted_of(self, key: ServiceKey) -> int:
        """Pods that are neither draining nor ending."""
        views = [r.view for r in self.pods.values() if r.view.key == key]
        return sum(view.drain_started_at is None and not view.deleting and view.rank == 0 for view in views)

    def node_views(self) -> tuple[NodeView, ...]:
        return tuple(node.view for node in self.nodes.values())

    def pod_views(self) -> tuple[PodView, ...]:
        return tuple(replica.view for replica in self.pods.values())

    def revision_views(self) -> Mapping[str, tuple[Revision, ...]]:
        return {uid: tuple(found) for uid, found in self.revisions.items()}

    # What an operator does to it

    def carry_out(self, key: ServiceKey, action: Action) -> None:
        """One action of a plan, as `cluster.apply` would have it done."""
        service = self.services[key]
        match action:
            case StoreRevision():
                kept = [r for r in self.revisions.get(service.uid, []) if r.hash != action.revision.hash]
                self.revisions[service.uid] = [*kept, replace(action.revision, name=f"rev-{action.revision.hash}")]
            case DeleteRevision():
                self.revisions[service.uid] = [r for r in self.revisions[service.uid] if r.name != action.name]
            case ApplyChildren():
                self.children = [c for c in self.children if c.kind not in action.kinds or c.name != key.name]
                self.children += [child for child in service.children if child.kind in action.kinds]
            case CreatePod():
                self._create_planned(key, action)
            case AdoptPod() | StartDrain() | CancelDrain() | DeletePod():
                self._write(service, action)
        self._note_wanted(key)

    def create(self, key: ServiceKey, name: str, revision: str, gpus: int, **fields: object) -> SimulatedReplica:
        """A new pod; it is placed at once if there is room."""
        service = self.services[key]
        view = PodView(
            key=key,
            name=name,
            uid=f"pod-{self._created:06d}",
            resource_version="1",
            owner_uid=service.uid,
            service_uid=service.uid,
            revision=revision,
            ordinal=0,
            rank=0,
            serving=True,
            created_at=self.wall_time,
            phase="Pending",
            gpus=gpus,
        )
        avoid = fields.pop("avoid_nodes", ())
        assert isinstance(avoid, tuple)
        view = replace(view, **fields)  # type: ignore[arg-type]
        replica = SimulatedReplica(view, self.models[key], self._created, frozenset(avoid))
        self._created += 1
        self.pods[key.namespace, name] = replica
        self._schedule(replica)
        self._note_wanted(key)
        return replica

    def make_ready(self, replica: SimulatedReplica, since: float) -> None:
        """As if it had been created and ready for long; the way a simulation begins with standing replicas."""
        created_at = since - self.starts.ready_seconds
        replica.change(created_at=created_at, scheduled_at=created_at)
        self._become_ready(replica, since)

    def start_drain(self, replica: SimulatedReplica, reason: str) -> None:
        """Out of rotation; it finishes what it has."""
        replica.change(serving=False, drain_started_at=self.wall_time, drain_reason=reason)
        self._rotate(replica.view.key)

    def delete(self, replica: SimulatedReplica, grace_seconds: float | None = None) -> None:
        """Out of rotation; gone once it has finished what it has, killed after its grace."""
        if replica.view.deleting:
            return
        grace = replica.model.grace_seconds if grace_seconds is None else grace_seconds
        replica.deadline = self.timeline.now + grace
        replica.change(deleting=True, ready=False, ready_since=None)
        self._rotate(replica.view.key)
        self._note_wanted(replica.view.key)
        self._end_if_idle(replica)

    # What goes wrong

    def crash(self, replica: SimulatedReplica) -> None:
        """Its engine ends with everything it had, and is started again with empty counters."""
        self._lose_engine(replica)
        replica.change(ready=False, ready_since=None, unready_since=self.wall_time, restarts=replica.view.restarts + 1)
        self._rotate(replica.view.key)
        self._load(replica)
        self.on_change()

    def kill_node(self, name: str) -> None:
        """Its kubelet is gone: pods are no longer ready, what they had is lost, and none of them ends by itself."""
        node = self.nodes[name]
        node.view = replace(node.view, ready=False, unready_since=self.wall_time)
        for replica in self.pods.values():
            if replica.view.node == name:
                self._lose_engine(replica)
                replica.change(ready=False, ready_since=None, unready_since=self.wall_time)
        for key in self.gateways:
            self._rotate(key)
        self.on_change()

    def cordon(self, name: str) -> None:
        """The node is to be left."""
        node = self.nodes[name]
        node.view = replace(node.view, cordoned=True)
        self.on_change()

    # Inside: writes

    def _note_wanted(self, key: ServiceKey) -> None:
        noted, wanted = self.changes.setdefault(key, []), self.wanted_of(key)
        if not noted or noted[-1][1] != wanted:
            noted.append((self.timeline.now, wanted))

    def _create_planned(self, key: ServiceKey, action: CreatePod) -> None:
        if (key.namespace, action.name) in self.pods:
            self.conflicts += 1
            return
        self.create(
            key,
            action.name,
            action.revision.hash,
            action.revision.shape.gpus_per_pod,
            ordinal=action.ordinal,
            rank=action.rank,
            avoid_nodes=action.avoid_nodes,
        )

    def _write(self, service: ServiceView, action: AdoptPod | StartDrain | CancelDrain | DeletePod) -> None:
        replica = self.pods.get((service.key.namespace, action.name))
        if replica is None or (replica.view.uid, replica.view.resource_version) != (
            action.uid,
            action.resource_version,
        ):
            self.conflicts += 1
            return
        if isinstance(action, DeletePod):
            self.delete(replica, action.grace_seconds)
        elif isinstance(action, CancelDrain):
            replica.change(serving=True, drain_started_at=None, drain_reason=None)
            self._rotate(service.key)
        else:
            if isinstance(action, AdoptPod):
                replica.change(owner_uid=service.uid)
            reason = action.reason if isinstance(action, StartDrain) else action.drain_reason
            if reason is not None:
                self.start_drain(replica, reason)

    # Inside: the scheduler and the node autoscaler

    def _schedule(self, replica: SimulatedReplica) -> None:
        node = next((n for n in self.nodes.values() if self._fits(replica, n)), None)
        if node is None:
            replica.change(blocked="Unschedulable", blocked_message="no node has room for its GPUs")
            self._ask_for_node(replica)
            return
        now = self.timeline.now
        replica.placed_at = now
        placed = {"unready_since": self.wall_time, "scheduled_at": self.wall_time}
        replica.change(node=node.view.name, blocked=None, blocked_message="", **placed)
        self._load(replica)

    def _fits(self, replica: SimulatedReplica, node: SimulatedNode) -> bool:
        view = node.view
        if not view.ready or view.cordoned or view.name in replica.avoid:
            return False
        shape = self._shape(replica)
        if any(view.labels.get(name) != value for name, value in shape):
            return False
        used = sum(other.view.gpus for other in self.pods.values() if other.view.node == view.name)
        return used + replica.view.gpus <= sum(view.gpus.values())

    def _shape(self, replica: SimulatedReplica) -> tuple[tuple[str, str], ...]:
        wanted = replica.model.view.wanted
        return () if wanted is None else wanted.shape.node_selector

    def _ask_for_node(self, replica: SimulatedReplica) -> None:
        """One node per so many waiting pods as it has GPUs for."""
        waiting = sum(r.view.gpus for r in self.pods.values() if r.view.node is None and not r.view.deleting)
        for pool in self.pools:
            asked = self._nodes_asked.get(pool.name, 0)
            joined = self._nodes_joined.get(pool.name, 0)
            if asked < pool.more_nodes and (asked - joined) * pool.gpus_per_node < waiting:
                self._nodes_asked[pool.name] = asked + 1
                seconds = self.starts.draw(self.starts.node_seconds, self.seed, f"node/{pool.name}", asked)
                self.timeline.after(seconds, partial(self._joined, pool, pool.nodes + asked))
                return

    def _joined(self, pool: NodePool, number: int) -> None:
        self._join(pool, number, created_at=self.wall_time)
        self._nodes_joined[pool.name] = self._nodes_joined.get(pool.name, 0) + 1
        self._place_waiting()
        self.on_change()

    def _join(self, pool: NodePool, number: int, created_at: float = 0.0) -> None:
        name = f"{pool.name}-{number}"
        gpus = {pool.resource_name: pool.gpus_per_node}
        view = NodeView(name, True, False, gpus, dict(pool.labels), created_at=created_at)
        self.nodes[name] = SimulatedNode(view, warm=number < pool.warm_nodes)

    def _place_waiting(self) -> None:
        for replica in sorted(self.pods.values(), key=lambda r: r.number):
            if replica.view.node is None and not replica.view.deleting:
                self._schedule(replica)

    # Inside: kubelets

    def _load(self, replica: SimulatedReplica) -> None:
        node = self.nodes[replica.view.node or ""]
        median = self.starts.warm_seconds if node.warm else self.starts.ready_seconds
        uid, restarts = replica.view.uid, replica.view.restarts
        seconds = self.starts.draw(median, self.seed, "start", replica.number + 100_000 * restarts)
        self.timeline.after(seconds, lambda: self._loaded(replica, uid, restarts))

    def _loaded(self, replica: SimulatedReplica, uid: str, restarts: int) -> None:
        view = replica.view
        node = self.nodes.get(view.node or "")
        if view.ready or view.deleting or view.restarts != restarts or node is None or not node.view.ready:
            return
        why = self.why_not_start(replica)
        if why is None:
            self._become_ready(replica, self.wall_time)
        elif why == "CrashLoop":
            crashes = view.restarts + 1
            blocked = why if crashes >= CRASHES_UNTIL_BACK_OFF else None
            replica.change(phase="Running", restarts=crashes, blocked=blocked)
            self._load(replica)
        elif why != "never":
            replica.change(blocked=why, blocked_message=f"{why}, as the simulation was told to")
        self.on_change()

    def _become_ready(self, replica: SimulatedReplica, since: float) -> None:
        if replica.view.rank == 0:
            now = self.timeline.now
            replica.start_engine(self.gateways[replica.view.key].new_engine(now), now)
        replica.change(
            phase="Running", ready=True, ready_since=since, unready_since=None, blocked=None, blocked_message=""
        )
        self._rotate(replica.view.key)
        self.on_ready(replica)

    def _end_if_idle(self, replica: SimulatedReplica) -> None:
        now = self.timeline.now
        replica.advance(now)
        self._collect(replica)
        node = self.nodes.get(replica.view.node or "")
        if node is not None and not node.view.ready and now < replica.deadline:
            return
        if replica.outstanding and now < replica.deadline:
            again = min(replica.deadline, max(replica.next_event, now + 0.1))
            self.timeline.at(again, lambda: self._end_if_idle(replica))
            return
        self._lose_engine(replica)
        served = replica.placed_at is not None
        self.timeline.after(replica.model.termination_seconds if served else 0.0, lambda: self._end(replica))

    def _end(self, replica: SimulatedReplica) -> None:
        replica.gone_at = self.timeline.now
        self.pods.pop((replica.view.key.namespace, replica.view.name), None)
        self.ended.append(replica)
        self._place_waiting()
        self.on_change()

    def _lose_engine(self, replica: SimulatedReplica) -> None:
        replica.advance(self.timeline.now)
        self._collect(replica)
        gateway = self.gateways.get(replica.view.key)
        if gateway is not None and replica.engine is not None:
            gateway.lose(replica)
        replica.engine = None
        replica.next_event = inf

    def _collect(self, replica: SimulatedReplica) -> None:
        gateway = self.gateways.get(replica.view.key)
        if gateway is not None:
            gateway.collect(replica)

    def _rotate(self, key: ServiceKey) -> None:
        gateway = self.gateways.get(key)
        if gateway is not None:
            gateway.rotation = [r for r in self.pods.values() if r.view.key == key and r.in_rotation]
            gateway.settle(self.timeline.now)
