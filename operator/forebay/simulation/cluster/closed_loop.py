"""The closed loop in virtual time: traffic, engines, scrapes and a scaling controller, played to the end.

The traffic of a service is a `Trace`, played request by request, or a `Flow`, played step by step. Cluster, scrapes and
control are the same for both. A run is deterministic: the same models, traces, control and seed give the same outcome,
to the byte.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from math import inf

from forebay.simulation.cluster.cluster_model import ClusterModel
from forebay.simulation.cluster.cold_start import ColdStarts, NodePool
from forebay.simulation.cluster.gateway_model import Gateway, GatewaySettings
from forebay.simulation.cluster.policy import Control
from forebay.simulation.cluster.scrape_model import PageFilter, Scrapes
from forebay.simulation.cluster.served_model import ServedModel
from forebay.simulation.cluster.timeline import Timeline
from forebay.simulation.compare.outcome import RunOutcome, Tick
from forebay.simulation.fluid.fluid_gateway import FluidGateway
from forebay.simulation.fluid.fluid_outcome import FluidOutcome
from forebay.simulation.traffic.flow import Flow
from forebay.simulation.traffic.traces import Trace
from forebay.world.names import pod_names
from forebay.world.world import ServiceKey, WarmPoolView

LoopOutcome = RunOutcome | FluidOutcome
INITIAL_REPLICA_AGE_SECONDS = 3600.0
"""How long the initial replicas have been ready when a simulation begins."""


@dataclass(frozen=True, slots=True)
class LoopSettings:
    """The settings that all policies of a comparison share."""

    pools: tuple[NodePool, ...] = (NodePool(),)
    starts: ColdStarts = field(default_factory=ColdStarts)
    gateway: GatewaySettings = field(default_factory=GatewaySettings)
    seed: int = 0
    epoch: float = 1_750_000_000.0
    """Unix time at which the simulation begins; schedules are read against it."""
    initial_replicas: Mapping[ServiceKey, int] = field(default_factory=dict)
    """Replicas that already serve when the simulation begins. A service without an entry starts minReplicas cold."""
    warm_pools: tuple[WarmPoolView, ...] = ()
    """WarmPools of the cluster. Only a control that knows them, the planner, creates their pods."""
    tick_seconds: float = 10.0
    """Time between two entries of the outcome's timeline."""


class ClosedLoop:
    """One run of one control. `at` schedules faults, `run` and `play` run the simulation."""

    def __init__(
        self,
        setting: LoopSettings,
        models: Iterable[ServedModel],
        traces: Mapping[ServiceKey, Trace | Flow],
        control: Control,
        page: PageFilter | None = None,
    ) -> None:
        self.setting = setting
        self.control = control
        self.on_tick: Callable[[float], None] = lambda now: None
        """Called at every tick with the progress of the run, in simulated seconds."""
        self.timeline = Timeline()
        self.cluster = ClusterModel(
            self.timeline, models, setting.pools, setting.starts, seed=setting.seed, epoch=setting.epoch
        )
        self.cluster.warm_pools = {pool.key: pool for pool in setting.warm_pools}
        for key, model in self.cluster.models.items():
            self.cluster.gateways[key] = _gateway(traces[key], model, setting.gateway)
        self.scrapes = Scrapes(self.cluster, control.scrape, control.news, page)
        self.ticks: dict[ServiceKey, list[Tick]] = {key: [] for key in self.cluster.models}
        self.cluster.on_change = control.news

    def at(self, seconds: float, act: Callable[[ClosedLoop], None]) -> ClosedLoop:
        """Call `act` at the given simulated time."""
        self.timeline.at(seconds, lambda: act(self))
        return self

    def run(self, seconds: float) -> dict[ServiceKey, RunOutcome]:
        """Simulate services whose traffic is a trace; their outcomes know what became of each request."""
        outcomes = self.play(seconds)
        return {key: outcome for key, outcome in outcomes.items() if isinstance(outcome, RunOutcome)}

    def play(self, seconds: float) -> dict[ServiceKey, LoopOutcome]:
        """Simulate up to `seconds`; requests in flight at that time are unfinished."""
        self.scrapes.begin()
        self._create_initial_replicas()
        self.control.begin(self.cluster, self.scrapes)
        self._tick()
        self._play(seconds)
        for replica in self.cluster.pods.values():
            replica.advance(seconds)
            self.cluster.gateways[replica.view.key].collect(replica)
        return {key: self._outcome(key, seconds) for key in self.cluster.models}

    def _play(self, end: float) -> None:
        timeline, gateways = self.timeline, tuple(self.cluster.gateways.values())
        while True:
            gateway = min(gateways, key=lambda gateway: _time(gateway.next_arrival))
            arrival = _time(gateway.next_arrival)
            if arrival > end:
                break
            if timeline.next_time <= arrival:
                timeline.pass_to(arrival)
            timeline.now = arrival
            gateway.arrive()
        timeline.pass_to(end)

    def _create_initial_replicas(self) -> None:
        """Create the replicas that serve from the beginning, as if they had been ready for an hour."""
        cluster = self.cluster
        for key, count in self.setting.initial_replicas.items():
            wanted = cluster.models[key].view.wanted
            assert wanted is not None
            for ordinal in range(count):
                for rank, name in enumerate(pod_names(key, cluster.services[key].uid, wanted, ordinal)):
                    gpus = wanted.shape.gpus_per_pod
                    replica = cluster.create(key, name, wanted.hash, gpus, ordinal=ordinal, rank=rank)
                    cluster.make_ready(replica, since=cluster.wall_time - INITIAL_REPLICA_AGE_SECONDS)

    def _tick(self) -> None:
        timeline = self.timeline
        for key, gateway in self.cluster.gateways.items():
            gateway.settle(timeline.now)
            replicas = self.cluster.replicas_of(key)
            for replica in replicas:
                replica.advance(timeline.now)
                gateway.collect(replica)
            self.ticks[key].append(
                Tick.of(timeline.now, replicas, self.control.desired(key), gateway.sample(timeline.now).held)
            )
        self.on_tick(timeline.now)
        timeline.after(self.setting.tick_seconds, self._tick)

    def _outcome(self, key: ServiceKey, seconds: float) -> LoopOutcome:
        cluster, gateway = self.cluster, self.cluster.gateways[key]
        replicas = [r for r in (*cluster.ended, *cluster.pods.values()) if r.view.key == key]
        gpu_seconds = sum(_held_seconds(r.placed_at, r.gone_at, seconds) * r.view.gpus for r in replicas)
        for placeholder in cluster.placeholders_of(cluster.services[key].uid):
            gpu_seconds += _held_seconds(placeholder.placed_at, placeholder.gone_at, seconds) * placeholder.view.gpus
        ticks, changes, model = tuple(self.ticks[key]), tuple(cluster.changes.get(key, ())), cluster.models[key]
        if isinstance(gateway, FluidGateway):
            return FluidOutcome(key, seconds, gateway, ticks, gpu_seconds, changes, model)
        return RunOutcome(key, seconds, gateway.trace, gateway.log, ticks, gpu_seconds, changes, model)


def _gateway(trace: Trace | Flow, model: ServedModel, settings: GatewaySettings) -> Gateway | FluidGateway:
    """The gateway of a service: a trace is played request by request, a flow as a fluid."""
    if isinstance(trace, Trace):
        return Gateway(trace, model, settings)
    if model.prefill_on_top:
        raise ValueError("a flow has no single prompts, so no limit can add the time of its prompt; play the trace")
    assert model.view.replica_capacity is not None, "a simulated service has a known engine"
    return FluidGateway(trace, model, model.view.replica_capacity.promise, settings)


def _time(arrival: float | None) -> float:
    return inf if arrival is None else arrival


def _held_seconds(placed_at: float | None, gone_at: float | None, end: float) -> float:
    """How long a pod held its GPUs: from its placement on a node to its end."""
    if placed_at is None:
        return 0.0
    return (end if gone_at is None else gone_at) - placed_at
