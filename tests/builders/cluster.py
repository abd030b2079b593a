"""A cluster in memory and in virtual time: applies plans, schedules pods, loads models, ends streams.

Small on purpose: it keeps the promises of an API server that planning rests on (uid and resourceVersion preconditions,
names that are taken until their object is gone, pods that end in their own time) and a crude model of load.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from forebay.api.inference_service import InferenceServiceStatus
from forebay.api.labels import GROUP_GATE
from forebay.planner.names import pod_names
from forebay.planner.plan import (
    Action,
    AdoptPod,
    ApplyChildren,
    CancelDrain,
    CreatePlaceholder,
    CreatePod,
    DeletePlaceholder,
    DeletePod,
    DeleteRevision,
    EventRecord,
    LiftGate,
    Plan,
    StartDrain,
    StoreRevision,
)
from forebay.planner.planner import plan
from forebay.planner.settings import Settings
from forebay.planner.state import State
from forebay.planner.world import ChildView, NodeView, PodView, Refusal, Revision, ServiceView, World
from forebay.scaling.signals import PodSignals
from tests.builders.world import NOW, a_node, a_sample, uid_of


@dataclass(frozen=True)
class Demand:
    """What clients want of a service at a moment; spread evenly over what serves."""

    requests: float = 0.0
    """In flight, if there were room."""
    per_replica: float = 100.0
    """That one engine runs at a time; the rest waits."""
    kv_at_full: float = 0.9
    """KV fraction of an engine that runs `per_replica` requests."""
    arrivals: float | None = None
    """Requests that arrive and are served per second; None where engines do not count them."""


@dataclass
class Engine:
    """What the cluster knows of a pod besides its view."""

    scheduled_at: float | None = None
    ends_at: float | None = None
    """When a pod that is being deleted is gone."""
    held_requests: float = 0.0
    """Streams that a draining pod still has; they end `stream_seconds` after the drain began."""
    steps: float = 0.0
    finished: float = 0.0
    last: PodSignals | None = None


@dataclass
class Cluster:
    services: dict[str, ServiceView] = field(default_factory=dict)
    """By name."""
    nodes: dict[str, NodeView] = field(default_factory=lambda: {n: a_node(n) for n in ("node-0", "node-1")})
    now: float = NOW
    settings: Settings = field(default_factory=Settings)
    demand: dict[str, Demand] = field(default_factory=dict)
    load_seconds: float = 60.0
    stream_seconds: float = 20.0
    termination_seconds: float = 15.0
    crashing: set[str] = field(default_factory=set)
    """Hashes of revisions whose engines crash."""
    unpullable: set[str] = field(default_factory=set)
    """Hashes of revisions, or names of nodes, where the image cannot be pulled."""
    silent: set[str] = field(default_factory=set)
    """Names of services whose metrics do not answer."""
    hung: set[str] = field(default_factory=set)
    """Names of pods whose engines stand still: the gauges stay, no step is made."""
    refuse: Callable[[CreatePod | CreatePlaceholder], str | None] = lambda action: None
    """Why the API server refuses to create a pod, such as a quota."""
    after_write: Callable[[], None] = lambda: None
    """Called after each single write, when a watcher would see the cluster half-way through a plan."""
    pods: dict[tuple[str, str], PodView] = field(default_factory=dict)
    engines: dict[str, Engine] = field(default_factory=dict)
    revisions: dict[str, list[Revision]] = field(default_factory=dict)
    children: list[ChildView] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    state: State = field(default_factory=lambda: State.empty(NOW))
    events: list[tuple[float, str, EventRecord]] = field(default_factory=list)
    plans: list[tuple[float, Plan]] = field(default_factory=list)
    writes: int = 0

    # What tests do to it.

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

    def add_node(self, node: NodeView) -> None:
        self.nodes[node.name] = node

    def kill_node(self, node: str) -> None:
        """Its kubelet stops: pods are no longer ready, and none of them ever ends by itself."""
        self.nodes[node] = replace(self.nodes[node], ready=False, unready_since=self.now)
        for key, pod in list(self.pods.items()):
            if pod.node == node:
                self._store(key, replace(pod, ready=False, ready_since=None, unready_since=self.now))

    def delete_pod(self, name: str) -> None:
        """By hand."""
        key = next(key for key in self.pods if key[1] == name)
        self._end(key)

    def put(self, pod: PodView) -> None:
        """A pod that comes from somewhere else."""
        self.pods[pod.key.namespace, pod.name] = pod
        self.engines[pod.uid] = Engine(scheduled_at=pod.created_at if pod.node else None)

    # What tests read.

    def pods_of(self, name: str) -> list[PodView]:
        uid = self.services[name].uid
        return sorted((pod for pod in self._replicas() if pod.owner_uid == uid), key=lambda pod: pod.name)

    def placeholders_of(self, name: str) -> list[PodView]:
        uid = self.services[name].uid
        there = (pod for pod in self.pods.values() if pod.owner_uid == uid and pod.place is not None)
        return sorted(there, key=_by_name)

    def _replicas(self) -> list[PodView]:
        return [pod for pod in self.pods.values() if pod.place is None]

    def serving(self, name: str, revision: str | None = None) -> list[str]:
        return [p.name for p in self.pods_of(name) if self._serves(p) and revision in (None, p.revision)]

    def holding_places(self, name: str) -> list[str]:
        """Neither draining nor ending: what maxReplicas bounds."""
        return [p.name for p in self.pods_of(name) if p.drain_started_at is None and not p.deleting]

    def status(self, name: str) -> InferenceServiceStatus:
        return self.services[name].status

    def condition(self, name: str, kind: str) -> tuple[str, str]:
        found = next(c for c in self.status(name).conditions if c.type == kind)
        return found.status, found.reason

    def told(self, name: str) -> list[str]:
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
        """The kubelets and the scheduler do their part up to now."""
        for key, pod in sorted(self.pods.items()):
            engine = self.engines[pod.uid]
            if pod.deleting and engine.ends_at is not None and self.now >= engine.ends_at and self._node_ready(pod):
                del self.pods[key], self.engines[pod.uid]
        for key, pod in sorted(self.pods.items(), key=_queue):
            if key in self.pods and not pod.deleting and pod.phase == "Pending" and pod.node is None:
                self._schedule(key, pod)
        for key, pod in sorted(self.pods.items()):
            if not pod.deleting and pod.node is not None and not pod.ready and self._node_ready(pod):
                self._load(key, pod)
        self._answer_metrics()

    def world(self) -> World:
        return World(
            services=tuple(self.services.values()),
            revisions={uid: tuple(found) for uid, found in self.revisions.items()},
            pods=tuple(self.pods.values()),
            nodes=tuple(self.nodes.values()),
            children=tuple(self.children),
            signals={uid: engine.last for uid, engine in self.engines.items() if engine.last is not None},
            settings=self.settings,
            refusals=tuple(r for r in self.refusals if self.now - r.at < 600),
        )

    def apply(self, done: Plan) -> None:
        by_uid = {service.uid: name for name, service in self.services.items()}
        for share in done.services:
            name = by_uid.get(share.uid)
            if name is None:
                continue
            for action in share.actions:
                self._carry_out(self.services[name], action)
                self.writes += 1
                self.after_write()
            self.events += [(self.now, name, event) for event in share.events]
            self.services[name] = replace(self.services[name], status=share.status)

    # Inside.

    def _carry_out(self, service: ServiceView, action: Action) -> None:
        namespace = service.key.namespace
        if isinstance(action, StoreRevision):
            found = self.revisions.setdefault(service.uid, [])
            found[:] = [revision for revision in found if revision.hash != action.revision.hash]
            found.append(replace(action.revision, name=f"revision-{action.revision.hash}"))
        elif isinstance(action, DeleteRevision):
            found = self.revisions[service.uid]
            found[:] = [revision for revision in found if revision.name != action.name]
        elif isinstance(action, ApplyChildren):
            kinds = set(action.kinds)
            self.children = [c for c in self.children if c.kind not in kinds or c.name != service.key.name]
            self.children += [child for child in service.children if child.kind in kinds]
        elif isinstance(action, CreatePod):
            self._create(service, action)
        elif isinstance(action, CreatePlaceholder):
            self._create_placeholder(service, action)
        else:
            key = (namespace, action.name)
            pod = self.pods.get(key)
            if pod is None or (pod.uid, pod.resource_version) != (action.uid, action.resource_version):
                return
            self._change(key, pod, service, action)

    def _change(
        self,
        key: tuple[str, str],
        pod: PodView,
        service: ServiceView,
        action: AdoptPod | StartDrain | CancelDrain | DeletePod | DeletePlaceholder | LiftGate,
    ) -> None:
        assert (pod.place is not None) == isinstance(action, DeletePlaceholder), "a placeholder is no replica"
        if isinstance(action, DeletePlaceholder):
            del self.pods[key], self.engines[pod.uid]
        elif isinstance(action, DeletePod):
            assert self.engines[pod.uid].held_requests == 0 or action.reason != "Drained", "a stream was cut"
            self._end(key)
        elif isinstance(action, LiftGate):
            self._store(key, replace(pod, gates=action.gates, blocked=None, blocked_message=""))
        elif isinstance(action, CancelDrain):
            self._store(key, replace(pod, serving=True, drain_started_at=None, drain_reason=None))
        else:
            reason = action.reason if isinstance(action, StartDrain) else action.drain_reason
            if reason is not None:
                last = self.engines[pod.uid].last
                if last is not None and last.sample is not None:
                    self.engines[pod.uid].held_requests = last.sample.running_requests
                pod = replace(pod, serving=False, drain_started_at=self.now, drain_reason=reason)
            self._store(key, replace(pod, owner_uid=service.uid))

    def _create(self, service: ServiceView, action: CreatePod) -> None:
        key = (service.key.namespace, action.name)
        assert key[1] in pod_names(service.key, service.uid, action.revision, action.ordinal)
        stored = [revision.hash for revision in self.revisions.get(service.uid, [])]
        assert action.revision.hash in stored, "a pod of a revision that is not stored"
        assert key not in self.pods, "a name that is taken"
        why = self.refuse(action)
        if why is not None:
            self.refusals.append(Refusal(service.uid, action.name, "QuotaExceeded", why, self.now))
            return
        self.writes += 1
        self.put(
            PodView(
                key=service.key,
                name=action.name,
                uid=uid_of(f"{key}/{self.writes}"),
                resource_version="1",
                owner_uid=service.uid,
                service_uid=service.uid,
                revision=action.revision.hash,
                ordinal=action.ordinal,
                rank=action.rank,
                serving=True,
                created_at=self.now,
                phase="Pending",
                gpus=action.revision.shape.gpus_per_pod,
                gates=(GROUP_GATE,) if action.revision.shape.pods > 1 else (),
            )
        )
        self._avoid[action.name] = frozenset(action.avoid_nodes)

    def _create_placeholder(self, service: ServiceView, action: CreatePlaceholder) -> None:
        key = (service.key.namespace, action.name)
        assert key not in self.pods, "a name that is taken"
        why = self.refuse(action)
        if why is not None:
            refusal = Refusal(service.uid, action.name, "QuotaExceeded", why, self.now, placeholder=True)
            self.refusals.append(refusal)
            return
        self.writes += 1
        self.put(
            PodView(
                key=service.key,
                name=action.name,
                uid=uid_of(f"{key}/{self.writes}"),
                resource_version="1",
                owner_uid=service.uid,
                service_uid=service.uid,
                revision="",
                ordinal=-1,
                rank=0,
                serving=False,
                created_at=self.now,
                phase="Pending",
                gpus=action.place.gpus,
                place=action.place.hash,
            )
        )

    _avoid: dict[str, frozenset[str]] = field(default_factory=dict)

    def _schedule(self, key: tuple[str, str], pod: PodView) -> None:
        if pod.gates:
            gated = "Scheduling is blocked due to non-empty scheduling gates"
            self._store(key, replace(pod, blocked="Unschedulable", blocked_message=gated))
            return
        apart = {other.node for other in self._group(pod) if other is not pod}
        for node in sorted(self.nodes.values(), key=lambda node: node.name):
            there = [other for other in self.pods.values() if other.node == node.name]
            free = sum(node.gpus.values()) - sum(other.gpus for other in there)
            yielding = [] if pod.place is not None else sorted((o for o in there if o.place is not None), key=_by_name)
            fits = free + sum(other.gpus for other in yielding) >= pod.gpus and node.name not in apart
            fits = fits and self._selector(pod).items() <= node.labels.items()
            if fits and node.ready and not node.cordoned and node.name not in self._avoid.get(pod.name, ()):
                while free < pod.gpus:
                    victim = yielding.pop()
                    free += victim.gpus
                    del self.pods[victim.key.namespace, victim.name], self.engines[victim.uid]
                self.engines[pod.uid].scheduled_at = self.now
                placed = replace(pod, node=node.name, unready_since=self.now, scheduled_at=self.now)
                self._store(key, replace(placed, blocked=None, blocked_message=""))
                return
        if pod.blocked is None:
            self._store(key, replace(pod, blocked="Unschedulable", blocked_message="Insufficient nvidia.com/gpu"))

    def _selector(self, pod: PodView) -> dict[str, str]:
        found = (r for r in self.revisions.get(pod.service_uid or "", []) if r.hash == pod.revision)
        return {name: value for revision in found for name, value in revision.shape.node_selector}

    def _load(self, key: tuple[str, str], pod: PodView) -> None:
        began = self.engines[pod.uid].scheduled_at or pod.created_at
        if pod.revision in self.unpullable or pod.node in self.unpullable:
            self._store(key, replace(pod, blocked="ImagePull", blocked_message="manifest unknown"))
        elif pod.revision in self.crashing:
            if self.now - began >= 10:
                restarts = int((self.now - began) // 20) + 1
                self._store(key, replace(pod, phase="Running", blocked="CrashLoop", restarts=restarts))
        elif pod.rank > 0 or self._group_placed_for(pod, self.load_seconds if pod.place is None else PULL_SECONDS):
            healthy = replace(pod, phase="Running", ready=True, ready_since=self.now, unready_since=None)
            self._store(key, replace(healthy, blocked=None, blocked_message=""))

    def _group(self, pod: PodView) -> list[PodView]:
        """The pods of its replica."""
        if pod.place is not None:
            return [pod]
        mine = (pod.service_uid, pod.revision, pod.ordinal)
        return [p for p in self.pods.values() if (p.service_uid, p.revision, p.ordinal) == mine]

    def _group_placed_for(self, pod: PodView, seconds: float) -> bool:
        """Rank 0 loads with all the others, or not at all."""
        names = [r.shape.pods for r in self.revisions.get(pod.service_uid or "", []) if r.hash == pod.revision]
        group = self._group(pod)
        if len(group) < max(names, default=1) or any(p.node is None for p in group):
            return False
        return all(self.now - (self.engines[p.uid].scheduled_at or p.created_at) >= seconds for p in group)

    def _answer_metrics(self) -> None:
        for name, service in self.services.items():
            serving = [pod for pod in self.pods_of(name) if self._serves(pod) and pod.rank == 0]
            demand = self.demand.get(name, Demand())
            for pod in self._replicas():
                if pod.service_uid != service.uid or not pod.ready or pod.rank != 0:
                    continue
                engine = self.engines[pod.uid]
                if name in self.silent:
                    engine.last = PodSignals(engine.last.sample if engine.last else None, "no answer within 4 s")
                    continue
                running, waiting = self._share(pod, demand, len(serving), engine)
                if pod.name in self.hung and engine.last is not None and engine.last.sample is not None:
                    running = engine.last.sample.running_requests
                elif running:
                    engine.steps += 100
                if engine.last is not None and engine.last.sample is not None and self._serves(pod):
                    seconds = self.now - engine.last.sample.taken_at
                    engine.finished += (demand.arrivals or 0.0) * seconds / max(1, len(serving))
                engine.last = PodSignals(
                    a_sample(
                        at=self.now,
                        running=running,
                        waiting=waiting,
                        kv=min(1.0, demand.kv_at_full * running / demand.per_replica),
                        steps=engine.steps,
                        # One token of each counted request would be a length; without any, what is declared counts.
                        generation_tokens=engine.steps if demand.arrivals is None else None,
                        finished=None if demand.arrivals is None else engine.finished,
                    )
                )

    def _share(self, pod: PodView, demand: Demand, serving: int, engine: Engine) -> tuple[float, float]:
        """(running, waiting) of one pod. One that drains has what it had, until its streams end."""
        if pod.drain_started_at is not None:
            if self.now - pod.drain_started_at >= self.stream_seconds:
                engine.held_requests = 0.0
            return engine.held_requests, 0.0
        if not self._serves(pod):
            return 0.0, 0.0
        share = demand.requests / max(1, serving)
        return min(share, demand.per_replica), max(0.0, share - demand.per_replica)

    def _serves(self, pod: PodView) -> bool:
        return pod.ready and pod.serving and not pod.deleting and self._node_ready(pod)

    def _node_ready(self, pod: PodView) -> bool:
        return pod.node is None or (pod.node in self.nodes and self.nodes[pod.node].ready)

    def _end(self, key: tuple[str, str]) -> None:
        pod = self.pods[key]
        if not pod.deleting:
            self.engines[pod.uid].ends_at = self.now + (self.termination_seconds if pod.node else 0.0)
            self._store(key, replace(pod, deleting=True, ready=False, ready_since=None))

    def _store(self, key: tuple[str, str], pod: PodView) -> None:
        if pod != self.pods[key]:
            self.pods[key] = replace(pod, resource_version=str(int(pod.resource_version) + 1))

    def _picture(self) -> str:
        pods = [(p.name, p.phase, p.ready, p.blocked, p.deleting, p.drain_reason) for p in self.pods.values()]
        return f"{pods}, {[(n, s.status.decision, s.status.conditions) for n, s in self.services.items()]}"


PULL_SECONDS = 5.0
"""Until a placeholder is ready."""


def _queue(item: tuple[tuple[str, str], PodView]) -> tuple[bool, float, str]:
    """The order in which the scheduler looks at pods: by priority, then by age."""
    key, pod = item
    return pod.place is not None, pod.created_at, key[1]


def _by_name(pod: PodView) -> str:
    return pod.name


def a_cluster(*services: ServiceView, nodes: Iterable[NodeView] | None = None, **fields: object) -> Cluster:
    """Two nodes of 8 GPUs unless told otherwise; the operator has just begun."""
    cluster = Cluster(**fields)  # type: ignore[arg-type]
    if nodes is not None:
        cluster.nodes = {node.name: node for node in nodes}
    cluster.add(*services)
    return cluster
