"""A cluster in virtual time: what the API server, the scheduler, kubelets and a node autoscaler do to engine pods.

It keeps the guarantees that planning relies on: a write to an outdated version is refused, a name is taken until its
pod is gone, pods are placed first fit in order of creation, pods of replicas preempt placeholders, and a deleted pod
finishes its requests first.
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
    """All pods, nodes and engines. `epoch` is the Unix time at which the simulation begins."""

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
        """Called when a pod or a node has changed without a write by the control."""
        self.on_ready: Callable[[SimulatedReplica], None] = lambda replica: None
        self.start_failure: Callable[[SimulatedReplica], str | None] = lambda replica: None
        """Called when a pod is about to become ready. It returns None, or the reason why the pod does not become ready
        (`ImagePull`, `CrashLoop`, …, or `never` for a pod that loads for ever)."""
        self.changes: dict[ServiceKey, list[tuple[float, int]]] = {}
        """(time, wanted replicas from then on) by service. An entry is added when a write changes the number of
        replicas that are neither draining nor being deleted."""
        self.conflicts = 0
        """Writes that were refused because the object had changed."""
        self._created = 0

    @property
    def wall_time(self) -> float:
        return self.epoch + self.timeline.now

    # State

    def replicas_of(self, key: ServiceKey) -> list[SimulatedReplica]:
        return [replica for replica in self.pods.values() if replica.view.key == key]

    def wanted_replicas(self, key: ServiceKey) -> int:
        """The number of replicas that are neither draining nor being deleted."""
        views = [r.view for r in self.pods.values() if r.view.key == key]
        return sum(view.drain_started_at is None and not view.deleting and view.rank == 0 for view in views)

    def node_views(self) -> tuple[NodeView, ...]:
        return self.nodes.views()

    def pod_views(self) -> tuple[PodView, ...]:
        """All pods, including placeholders."""
        return (
            *(replica.view for replica in self.pods.values()),
            *(placeholder.view for placeholder in self.placeholders.by_name.values()),
        )

    def placeholders_of(self, owner_uid: str) -> list[SimulatedPlaceholder]:
        """All placeholders of an owner, including those that are gone."""
        placeholders = (*self.placeholders.ended, *self.placeholders.by_name.values())
        return [placeholder for placeholder in placeholders if placeholder.view.owner_uid == owner_uid]

    def revision_views(self) -> Mapping[str, tuple[Revision, ...]]:
        return {uid: tuple(revisions) for uid, revisions in self.revisions.items()}

    # Writes by a control

    def carry_out(self, owner: Owner, action: Action) -> None:
        """Apply one action from the plan of a service or a WarmPool, with the effect that `cluster.write.apply` has."""
        self.write(owner, action)
        if isinstance(owner, ServiceView):
            self._note_wanted(owner.key)

    def create(self, key: ServiceKey, name: str, revision: str, gpus: int, **fields: object) -> SimulatedReplica:
        """Create a pod. It is placed at once if a node has free GPUs."""
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
        """Make a pod ready as if it had been created long ago; used for initial replicas."""
        created_at = since - self.starts.ready_seconds
        replica.change(created_at=created_at, scheduled_at=created_at)
        self._become_ready(replica, since)

    def start_drain(self, replica: SimulatedReplica, reason: str) -> None:
        """Take a replica out of rotation; it finishes its requests."""
        replica.change(serving=False, drain_started_at=self.wall_time, drain_reason=reason)
        self._rotate(replica.view.key)

    def delete(self, replica: SimulatedReplica, grace_seconds: float | None = None) -> None:
        """Delete a pod: it leaves the rotation and ends once its requests are finished, or after its grace period."""
        if replica.view.deleting:
            return
        grace = replica.model.grace_seconds if grace_seconds is None else grace_seconds
        replica.deadline = self.timeline.now + grace
        replica.change(deleting=True, ready=False, ready_since=None)
        self._rotate(replica.view.key)
        self._note_wanted(replica.view.key)
        self._end_if_idle(replica)

    # Faults

    def crash(self, replica: SimulatedReplica) -> None:
        """The replica's engine dies, its requests are lost, and it restarts with empty counters."""
        self._lose_engine(replica)
        replica.change(ready=False, ready_since=None, unready_since=self.wall_time, restarts=replica.view.restarts + 1)
        self._rotate(replica.view.key)
        self._load(replica)
        self.on_change()

    def kill_node(self, name: str) -> None:
        """The node's kubelet dies: its pods are no longer ready, their requests are lost, and no pod ends by itself."""
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
        """Cordon the node, as before a drain."""
        self.nodes.change(name, cordoned=True)
        self.on_change()

    def give_notice(self, name: str) -> None:
        """Announce the end of the node, as a cloud does before it takes a spot instance back."""
        self.nodes.change(name, cordoned=True, notice=True)
        self.on_change()

    # Writes

    def _note_wanted(self, key: ServiceKey) -> None:
        changes, wanted = self.changes.setdefault(key, []), self.wanted_replicas(key)
        if not changes or changes[-1][1] != wanted:
            changes.append((self.timeline.now, wanted))

    def wall_clock(self) -> float:
        return self.wall_time

    def pod_view(self, namespace: str, name: str) -> PodView | None:
        pod = self.pods.get((namespace, name)) or self.placeholders.by_name.get((namespace, name))
        return None if pod is None else pod.view

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

    # Scheduler and node autoscaler

    def _schedule(self, replica: SimulatedReplica) -> None:
        if replica.view.gates:
            replica.change(blocked=Reason.UNSCHEDULABLE, blocked_message=GATED)
            return
        revision = self._revision(replica)
        selector = {} if revision is None else dict(revision.shape.node_selector)
        placement = placement_of(replica.view, self.nodes.views(), self.pod_views(), selector, replica.avoid)
        if placement is None:
            replica.change(blocked=Reason.UNSCHEDULABLE, blocked_message="no node has enough free GPUs")
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
        """Node selector of a placeholder: that of the replica pods that may take its place."""
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
        """Place waiting pods in order of priority: first pods of replicas, then placeholders, the oldest first."""
        for replica in sorted(self.pods.values(), key=lambda r: r.number):
            if replica.view.node is None and not replica.view.deleting:
                self._schedule(replica)
        for placeholder in self.placeholders.waiting():
            self._place_placeholder(placeholder)

    # Kubelets

    def _load_group(self, replica: SimulatedReplica) -> None:
        """Start to load a replica; one of several pods loads once all of them have a node."""
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
        failure = self.start_failure(replica)
        if failure is None:
            self._become_ready(replica, self.wall_time)
        elif failure == Reason.CRASH_LOOP:
            crashes = view.restarts + 1
            blocked = Reason.CRASH_LOOP if crashes >= CRASHES_UNTIL_BACK_OFF else None
            replica.change(phase="Running", restarts=crashes, blocked=blocked)
            self._load(replica)
        elif failure != "never":
            replica.change(blocked=Reason(failure), blocked_message=f"{failure}, as set in the simulation")
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
        placed = replica.placed_at is not None
        self.timeline.after(replica.model.termination_seconds if placed else 0.0, lambda: self._end(replica))

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
