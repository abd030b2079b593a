"""A cluster in memory and in virtual time: applies plans, schedules pods, loads models, ends streams.

The code of `forebay simulate` applies the actions and places the pods. This module adds only what tests need: time in
steps, deterministic kubelets, and engines with a simple model of load, so that a test can control them.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from forebay.api.inference_service import InferenceServiceStatus
from forebay.planner.memory import State
from forebay.planner.planner import plan
from forebay.simulation.cluster.cluster_writes import ClusterWrites, Owner, new_pod
from forebay.world.names import pod_names
from forebay.world.plan import (
    CreatePlaceholder,
    CreatePod,
    DeletePod,
    EventRecord,
    Plan,
)
from forebay.world.quota import QuotaView
from forebay.world.settings import Settings
from forebay.world.world import ChildView, NodeView, PodView, Refusal, ServiceView, World
from tests.builders.engines import Demand
from tests.builders.machines import Machines, by_name
from tests.builders.quotas import charged_by, used_by
from tests.builders.world import NOW, uid_of


@dataclass
class Cluster(Machines, ClusterWrites):
    services: dict[str, ServiceView] = field(default_factory=dict)
    """By name."""
    settings: Settings = field(default_factory=Settings)
    demand: dict[str, Demand] = field(default_factory=dict)
    stream_seconds: float = 20.0
    silent: set[str] = field(default_factory=set)
    """Names of services whose metrics do not answer."""
    hung: set[str] = field(default_factory=set)
    """Names of pods whose engines hang: the gauges stay and no step is made."""
    refuse: Callable[[CreatePod | CreatePlaceholder], str | None] = lambda action: None
    """Why the API server refuses to create a pod, such as a quota."""
    quotas: list[QuotaView] = field(default_factory=list)
    """ResourceQuotas that the API server enforces; what is used of them follows from the pods."""
    specs: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    """Specs of the pods that the operator created, by uid."""
    after_write: Callable[[], None] = lambda: None
    """Called after each single write, when a watcher would see a partly applied plan."""
    children: list[ChildView] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    state: State = field(default_factory=lambda: State.empty(NOW))
    events: list[tuple[float, str, EventRecord]] = field(default_factory=list)
    plans: list[tuple[float, Plan]] = field(default_factory=list)
    writes: int = 0

    # Changes that tests make.

    def add(self, *services: ServiceView) -> None:
        for service in services:
            self.services[service.key.name] = service

    def edit(self, name: str, **fields: object) -> None:
        """A new generation of the spec, and of what it resolves to."""
        service = self.services[name]
        self.services[name] = replace(service, generation=service.generation + 1, **fields)  # type: ignore[arg-type]

    def restart_operator(self) -> None:
        self.state = State.empty(self.now)

    def cordon(self, node: str) -> None:
        self.nodes[node] = replace(self.nodes[node], cordoned=True)

    def give_notice(self, node: str) -> None:
        """Announce the end of its machine, as a cloud does before it takes a spot instance back."""
        self.nodes[node] = replace(self.nodes[node], cordoned=True, notice=True)

    def add_node(self, node: NodeView) -> None:
        self.nodes[node.name] = node

    def kill_node(self, node: str) -> None:
        """Stop its kubelet: its pods are no longer ready, and none of them ever ends by itself."""
        self.nodes[node] = replace(self.nodes[node], ready=False, unready_since=self.now)
        for key, pod in list(self.pods.items()):
            if pod.node == node:
                self.store(key, replace(pod, ready=False, ready_since=None, unready_since=self.now))

    def delete_pod(self, name: str) -> None:
        """Delete a pod as a user would."""
        key = next(key for key in self.pods if key[1] == name)
        self.end(key)

    # State that tests read.

    def pods_of(self, name: str) -> list[PodView]:
        uid = self.services[name].uid
        return sorted((pod for pod in self._replicas() if pod.owner_uid == uid), key=lambda pod: pod.name)

    def placeholders_of(self, name: str) -> list[PodView]:
        uid = self.services[name].uid
        placeholders = (pod for pod in self.pods.values() if pod.owner_uid == uid and pod.place is not None)
        return sorted(placeholders, key=by_name)

    def _replicas(self) -> list[PodView]:
        return [pod for pod in self.pods.values() if pod.place is None]

    def serving(self, name: str, revision: str | None = None) -> list[str]:
        return [p.name for p in self.pods_of(name) if self._serves(p) and revision in (None, p.revision)]

    def holding_places(self, name: str) -> list[str]:
        """Names of pods that neither drain nor end, nor are on a node with a notice: those that maxReplicas bounds."""
        noticed = {node.name for node in self.nodes.values() if node.notice}
        held = [p for p in self.pods_of(name) if p.drain_started_at is None and not p.deleting]
        return [p.name for p in held if p.node not in noticed]

    def status(self, name: str) -> InferenceServiceStatus:
        return self.services[name].status

    def condition(self, name: str, kind: str) -> tuple[str, str]:
        condition = next(c for c in self.status(name).conditions if c.type == kind)
        return condition.status, condition.reason

    def event_reasons(self, name: str) -> list[str]:
        return [event.reason for _, service, event in self.events if service == name]

    # Time.

    def run(self, seconds: float, *, tick_seconds: float = 5.0, watch: Callable[[], None] | None = None) -> None:
        end = self.now + seconds
        while self.now < end:
            self.tick()
            if watch is not None:
                watch()
            self.now += tick_seconds

    def run_until(self, condition: Callable[[], bool], *, within_seconds: float = 3600.0) -> float:
        """Seconds it took; fails when the condition is not met in time."""
        began = self.now
        while not condition():
            assert self.now - began < within_seconds, f"not within {within_seconds:.0f} s: {self._picture()}"
            self.tick()
            self.now += 5.0
        return self.now - began

    def tick(self) -> Plan:
        self.live()
        done, self.state = plan(self.world(), self.state, self.now)
        self.plans.append((self.now, done))
        self.apply(done)
        return done

    def live(self) -> None:
        super().live()
        self._answer_metrics()

    def world(self) -> World:
        return World(
            services=tuple(self.services.values()),
            revisions={uid: tuple(stored) for uid, stored in self.revisions.items()},
            pods=tuple(self.pods.values()),
            nodes=tuple(self.nodes.values()),
            children=tuple(self.children),
            signals={uid: engine.last for uid, engine in self.engines.items() if engine.last is not None},
            settings=self.settings,
            refusals=tuple(r for r in self.refusals if self.now - r.at < 600),
            quotas=tuple(self.counted_quotas()),
        )

    def counted_quotas(self) -> list[QuotaView]:
        """The quotas with their use, to which terminating pods contribute."""
        return [used_by(quota, (self.specs.get(pod.uid, {}) for pod in self.pods.values())) for quota in self.quotas]

    def apply(self, done: Plan) -> None:
        by_uid = {service.uid: name for name, service in self.services.items()}
        for share in done.services:
            name = by_uid.get(share.uid)
            if name is None:
                continue
            for action in share.actions:
                self.write(self.services[name], action)
                self.writes += 1
                self.after_write()
            self.events += [(self.now, name, event) for event in share.events]
            self.services[name] = replace(self.services[name], status=share.status)

    # Inside.

    def wall_clock(self) -> float:
        return self.now

    def pod_view(self, namespace: str, name: str) -> PodView | None:
        return self.pods.get((namespace, name))

    def create_pod(self, owner: Owner, action: CreatePod) -> None:
        assert (owner.key.namespace, action.name) not in self.pods, "a name that is taken"
        assert action.name in pod_names(owner.key, owner.uid, action.revision, action.ordinal)
        stored = [revision.hash for revision in self.revisions.get(owner.uid, [])]
        assert action.revision.hash in stored, "a pod of a revision that is not stored"
        if self._create(owner, action):
            self.avoided[action.name] = frozenset(action.avoid_nodes)

    def create_placeholder(self, owner: Owner, action: CreatePlaceholder) -> None:
        assert (owner.key.namespace, action.name) not in self.pods, "a name that is taken"
        self._create(owner, action)

    def _create(self, owner: Owner, action: CreatePod | CreatePlaceholder) -> bool:
        """Whether the API server accepts it."""
        if (why := self.refuse(action) or self._exceeded(action)) is not None:
            place = isinstance(action, CreatePlaceholder)
            self.refusals.append(Refusal(owner.uid, action.name, "QuotaExceeded", why, self.now, placeholder=place))
            return False
        self.writes += 1
        uid = uid_of(f"{(owner.key.namespace, action.name)}/{self.writes}")
        self.put(new_pod(owner, action, uid, self.now))
        self.specs[uid] = action.body["spec"]
        return True

    def _exceeded(self, action: CreatePod | CreatePlaceholder) -> str | None:
        for quota in self.counted_quotas():
            used = charged_by(quota, [action])
            if any(used[name] > max(hard, quota.used[name]) for name, hard in quota.hard.items()):
                return f"exceeded quota: {quota.name}"
        return None

    def change_pod(self, pod: PodView) -> None:
        key = (pod.key.namespace, pod.name)
        if pod.drain_started_at is not None and self.pods[key].drain_started_at is None:
            last = self.engines[pod.uid].last
            if last is not None and last.sample is not None:
                self.engines[pod.uid].held_requests = last.sample.running_requests
        self.store(key, pod)

    def end_pod(self, pod: PodView, action: DeletePod) -> None:
        assert self.engines[pod.uid].held_requests == 0 or action.reason != "Drained", "a stream was cut"
        self.end((pod.key.namespace, pod.name))

    def remove_placeholder(self, pod: PodView) -> None:
        del self.pods[pod.key.namespace, pod.name], self.engines[pod.uid]

    def _answer_metrics(self) -> None:
        for name, service in self.services.items():
            serving = len([pod for pod in self.pods_of(name) if self._serves(pod) and pod.rank == 0])
            demand = self.demand.get(name, Demand())
            for pod in self._replicas():
                if pod.service_uid != service.uid or not pod.ready or pod.rank != 0:
                    continue
                engine, among = self.engines[pod.uid], serving if self._serves(pod) else 0
                if name in self.silent:
                    engine.fall_silent()
                else:
                    share = engine.share(pod, demand, among, self.now, self.stream_seconds)
                    engine.answer(self.now, demand, share, among, hung=pod.name in self.hung)

    def _serves(self, pod: PodView) -> bool:
        return pod.ready and pod.serving and not pod.deleting and self.node_ready(pod)

    def _picture(self) -> str:
        pods = [(p.name, p.phase, p.ready, p.blocked, p.deleting, p.drain_reason) for p in self.pods.values()]
        return f"{pods}, {[(n, s.status.decision, s.status.conditions) for n, s in self.services.items()]}"


def a_cluster(*services: ServiceView, nodes: Iterable[NodeView] | None = None, **fields: object) -> Cluster:
    """A cluster of two nodes of 8 GPUs, unless `nodes` are given, with an operator that has just started."""
    cluster = Cluster(**fields)  # type: ignore[arg-type]
    if nodes is not None:
        cluster.nodes = {node.name: node for node in nodes}
    cluster.add(*services)
    return cluster
