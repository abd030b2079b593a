"""A cluster in virtual time: what an API server, a scheduler, kubelets and a node autoscaler do to pods of engines.

It keeps the promises that planning rests on: writes are refused on a version that is not the last one, names are taken
until their pod is gone, pods are placed first fit in order of creation, placeholders give way to pods of replicas, and
what is deleted first finishes what it has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from math import inf

from forebay.api.reasons import Reason
from forebay.simulation.cluster.cluster_writes import ClusterWrites, Owner, new_pod
from forebay.simulation.cluster.cold_start import ColdStarts, NodePool
from forebay.simulation.cluster.gateway_model import Gateway
from forebay.simulation.cluster.pod_placement import GATED, group_of, placement_of, revision_of
from forebay.simulation.cluster.served_model import ServedModel
from forebay.simulation.cluster.simulated_nodes import SimulatedNodes
from forebay.simulation.cluster.simulated_placeholders import SimulatedPlaceholder, SimulatedPlaceholders
from forebay.simulation.cluster.simulated_replica import SimulatedReplica
from forebay.simulation.cluster.timeline import Timeline
from forebay.simulation.fluid.fluid_gateway import FluidGateway
from forebay.world.plan import Action, CreatePlaceholder, CreatePod, DeletePod
from forebay.world.world import (
    ChildView,
    NodeView,
    PodView,
    Revision,
    ServiceKey,
    ServiceView,
    WarmPoolView,
)

CRASHES_UNTIL_BACK_OFF = 2


class ClusterModel(ClusterWrites):
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
        self.warm_pools: dict[ServiceKey, WarmPoolView] = {}
        self.nodes = SimulatedNodes(timeline, pools, self.starts, seed=seed, epoch=epoch)
        self.placeholders = SimulatedPlaceholders(timeline, self.nodes, self.starts, seed=seed, epoch=epoch)
        self.placeholders.on_change = lambda: self.on_change()
        self.pods: dict[tuple[str, str], SimulatedReplica] = {}
        self.ended: list[SimulatedReplica] = []
        self.revisions: dict[str, list[Revision]] = {}
        self.children: list[ChildView] = []
        self.on_change: Callable[[], None] = lambda: None
        """Told when a pod or a node has changed by itself."""
        self.on_ready: Callable[[SimulatedReplica], None] = lambda replica: None
        self.start_failure: Callable[[SimulatedReplica], str | None] = lambda replica: None
        """Asked when a pod is to become ready: None, or the reason why it does not (`ImagePull`, `CrashLoop`, …, or
        `never` for one that loads for ever)."""
        self.changes: dict[ServiceKey, list[tuple[float, int]]] = {}
        """(time, pods wanted from then on) by service: whenever the number of those that neither drain nor end changes
        because somebody wanted it."""
        self.conflicts = 0
        """Writes that were refused because the object had changed."""
        self._created = 0

    @property
    def wall_time(self) -> float:
        return self.epoch + self.timeline.now

    # What can be seen

    def replicas_of(self, key: ServiceKey) -> list[SimulatedReplica]:
        return [replica for replica in self.pods.values() if replica.view.key == key]

    def wanted_replicas(self, key: ServiceKey) -> int:
        """Pods that are neither draining nor ending."""
        views = [r.view for r in self.pods.values() if r.view.key == key]
        return sum(view.drain_started_at is None and not view.deleting and view.rank == 0 for view in views)

    def node_views(self) -> tuple[NodeView, ...]:
        return self.nodes.views()

    def pod_views(self) -> tuple[PodView, ...]:
        """Placeholders, too."""
        return (
            *(replica.view for replica in self.pods.values()),
            *(placeholder.view for placeholder in self.placeholders.by_name.values()),
        )

    def placeholders_of(self, owner_uid: str) -> list[SimulatedPlaceholder]:
        """Those that there are, and those that are gone."""
        every = (*self.placeholders.ended, *self.placeholders.by_name.values())
        return [placeholder for placeholder in every if placeholder.view.owner_uid == owner_uid]

    def revision_views(self) -> Mapping[str, tuple[Revision, ...]]:
        return {uid: tuple(found) for uid, found in self.revisions.items()}

    # What an operator does to it

    def carry_out(self, owner: Owner, action: Action) -> None:
        """One action of the plan of a service or a WarmPool, as `cluster.write.apply` would have it done."""
        self.write(owner, action)
        if isinstance(owner, ServiceView):
            self._note_wanted(owner.key)

    def create(self, key: ServiceKey, name: str, revision: str, gpus: int, **fields: object) -> SimulatedReplica:
        """A new pod; it is placed at once if there is room."""
        service = self.services[key]
        view = PodView(
            key=key,
            name=name,
            uid=self._next_uid(),
            resource_version="1",
            owner_uid=service.uid,
            service_uid=service.uid,
            revision=revision,
            ordinal=-1,
            rank=0,
            serving=True,
            created_at=self.wall_time,
            phase="Pending",
            gpus=gpus,
        )
        replica = self._add(replace(view, **fields))  # type: ignore[arg-type]
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
        self.nodes.change(name, ready=False, unready_since=self.wall_time)
        self.placeholders.lose_node(name)
        for replica in self.pods.values():
            if replica.view.node == name:
                self._lose_engine(replica)
                replica.change(ready=False, ready_since=None, unready_since=self.wall_time)
        for key in self.gateways:
            self._rotate(key)
        self.on_change()

    def cordon(self, name: str) -> None:
        """The node is to be left."""
        self.nodes.change(name, cordoned=True)
        self.on_change()

    # Inside: writes

    def _note_wanted(self, key: ServiceKey) -> None:
        noted, wanted = self.changes.setdefault(key, []), self.wanted_replicas(key)
        if not noted or noted[-1][1] != wanted:
            noted.append((self.timeline.now, wanted))

    def wall_clock(self) -> float:
        return self.wall_time

    def pod_view(self, namespace: str, name: str) -> PodView | None:
        there = self.pods.get((namespace, name)) or self.placeholders.by_name.get((namespace, name))
        return None if there is None else there.view

    def refused(self, action: Action) -> None:
        self.conflicts += 1

    def create_pod(self, owner: Owner, action: CreatePod) -> None:
        if self.pod_view(owner.key.namespace, action.name) is not None:
            self.refused(action)
            return
        self._add(new_pod(owner, action, self._next_uid(), self.wall_time), frozenset(action.avoid_nodes))

    def create_placeholder(self, owner: Owner, action: CreatePlaceholder) -> None:
        if self.pod_view(owner.key.namespace, action.name) is not None:
            self.refused(action)
            return
        view = new_pod(owner, action, self.placeholders.next_uid(), self.wall_time)
        placeholder = self.placeholders.add(view, action.place.image, self._placeholder_selector(owner, view))
        self._place_placeholder(placeholder)

    def change_pod(self, pod: PodView) -> None:
        replica = self.pods[pod.key.namespace, pod.name]
        before = replica.view
        replica.store(pod)
        if before.serving != pod.serving:
            self._rotate(pod.key)
        if before.gates and not pod.gates:
            self._schedule(replica)

    def end_pod(self, pod: PodView, action: DeletePod) -> None:
        self.delete(self.pods[pod.key.namespace, pod.name], action.grace_seconds)

    def remove_placeholder(self, pod: PodView) -> None:
        self.placeholders.remove(pod)
        self._schedule_waiting()
        self.on_change()

    def _next_uid(self) -> str:
        return f"pod-{self._created:06d}"

    def _add(self, view: PodView, avoid: frozenset[str] = frozenset()) -> SimulatedReplica:
        replica = SimulatedReplica(view, self.models[view.key], self._created, avoid)
        self._created += 1
        self.pods[view.key.namespace, view.name] = replica
        self._schedule(replica)
        return replica

    # Inside: the scheduler and the node autoscaler

    def _schedule(self, replica: SimulatedReplica) -> None:
        if replica.view.gates:
            replica.change(blocked=Reason.UNSCHEDULABLE, blocked_message=GATED)
            return
        revision = self._revision(replica)
        selector = {} if revision is None else dict(revision.shape.node_selector)
        placement = placement_of(replica.view, self.nodes.views(), self.pod_views(), selector, replica.avoid)
        if placement is None:
            replica.change(blocked=Reason.UNSCHEDULABLE, blocked_message="no node has room for its GPUs")
            self._ask_for_node()
            return
        for preempted in placement.preempted:
            self.placeholders.remove(preempted)
        replica.placed_at = self.timeline.now
        placed = {"unready_since": self.wall_time, "scheduled_at": self.wall_time}
        replica.change(node=placement.node, blocked=None, blocked_message="", **placed)
        self._load_group(replica)
        if placement.preempted:
            self.on_change()

    def _place_placeholder(self, placeholder: SimulatedPlaceholder) -> None:
        if not self.placeholders.place(placeholder, self.pod_views()):
            self._ask_for_node()

    def _revision(self, replica: SimulatedReplica) -> Revision | None:
        service = self.services[replica.view.key]
        return revision_of(replica.view, service, self.revisions.get(service.uid, ()))

    def _placeholder_selector(self, owner: Owner, view: PodView) -> dict[str, str]:
        """Of the nodes where the pod may be that would take the place."""
        if isinstance(owner, WarmPoolView):
            return {} if owner.shape is None else dict(owner.shape.node_selector)
        revision = revision_of(view, owner, self.revisions.get(owner.uid, ()))
        return {} if revision is None else dict(revision.shape.node_selector)

    def _ask_for_node(self) -> None:
        waiting = [v for v in self.pod_views() if v.node is None and not v.deleting and not v.gates]
        self.nodes.ask_for_more(sum(view.gpus for view in waiting), self._node_joined)

    def _node_joined(self) -> None:
        self._schedule_waiting()
        self.on_change()

    def _schedule_waiting(self) -> None:
        """In order of priority: pods of replicas, then placeholders; the oldest first."""
        for replica in sorted(self.pods.values(), key=lambda r: r.number):
            if replica.view.node is None and not replica.view.deleting:
                self._schedule(replica)
        for placeholder in self.placeholders.waiting():
            self._place_placeholder(placeholder)

    # Inside: kubelets

    def _load_group(self, replica: SimulatedReplica) -> None:
        """A replica of several pods loads once all of them have a node."""
        revision = self._revision(replica)
        pods = 1 if revision is None or replica.view.ordinal < 0 else revision.shape.pods
        group = group_of(replica.view, self.pod_views()) if pods > 1 else [replica.view]
        if len(group) >= pods and all(view.node is not None for view in group):
            for view in group:
                self._load(self.pods[view.key.namespace, view.name])

    def _load(self, replica: SimulatedReplica) -> None:
        node, revision = self.nodes.by_name[replica.view.node or ""], self._revision(replica)
        image = "" if revision is None or revision.place is None else revision.place.image
        median = self.starts.warm_seconds if node.warm_for(image) else self.starts.ready_seconds
        uid, restarts = replica.view.uid, replica.view.restarts
        seconds = self.starts.draw(median, self.seed, "start", replica.number + 100_000 * restarts)
        self.timeline.after(seconds, lambda: self._loaded(replica, uid, restarts))

    def _loaded(self, replica: SimulatedReplica, uid: str, restarts: int) -> None:
        view = replica.view
        node = self.nodes.by_name.get(view.node or "")
        if view.ready or view.deleting or view.restarts != restarts or node is None or not node.view.ready:
            return
        why = self.start_failure(replica)
        if why is None:
            self._become_ready(replica, self.wall_time)
        elif why == Reason.CRASH_LOOP:
            crashes = view.restarts + 1
            blocked = Reason.CRASH_LOOP if crashes >= CRASHES_UNTIL_BACK_OFF else None
            replica.change(phase="Running", restarts=crashes, blocked=blocked)
            self._load(replica)
        elif why != "never":
            replica.change(blocked=Reason(why), blocked_message=f"{why}, as the simulation was told to")
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
        node = self.nodes.by_name.get(replica.view.node or "")
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
        self._schedule_waiting()
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
