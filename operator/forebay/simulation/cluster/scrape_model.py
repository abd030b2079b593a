"""Scrapes in virtual time: a policy sees an engine's state as of its last scrape, and only after a delay.

Every ready pod is scraped at multiples of the period; with `staggered`, each pod at an offset of its own, as Prometheus
does. Scenarios about broken metrics give a `page` function: the engine's page is then written, changed by that
function, and read by the production parser.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from math import floor
from random import Random

from forebay.scaling.load.signals import EngineSample, PodSignals
from forebay.simulation.cluster.cluster_model import ClusterModel
from forebay.simulation.cluster.gateway_model import GatewaySample
from forebay.simulation.cluster.simulated_replica import SimulatedEngine, SimulatedReplica
from forebay.simulation.engine.replica_engine import ReplicaEngine
from forebay.simulation.engine.scraped_sample import sample_of_engine
from forebay.simulation.fluid.fluid_gateway import FluidEngine
from forebay.simulation.vllm_server.vllm_arguments import parse_serve
from forebay.simulation.vllm_server.vllm_metrics import MetricsPage, cache_config
from forebay.telemetry.engine_sample import sample_of
from forebay.telemetry.metric_catalogue import catalogue_for
from forebay.world.world import ServiceKey

PageFilter = Callable[[SimulatedReplica, str], str | None]
"""Changes a metrics page in transit: returns the text that arrives, or None for no answer."""


@dataclass(frozen=True, slots=True)
class ScrapeTiming:
    period_seconds: float = 5.0
    delay_seconds: float = 0.5
    """Time from a scrape until a policy can see its result."""
    staggered: bool = False
    engine_version: str = "0.32.0"
    """The vLLM version whose metric names the parser expects."""


@dataclass(slots=True)
class Scrapes:
    cluster: ClusterModel
    settings: ScrapeTiming
    on_news: Callable[[], None]
    page: PageFilter | None = None
    signals: dict[str, PodSignals] = field(default_factory=dict)
    """The last result of each existing pod, by uid."""
    gateway_samples: dict[ServiceKey, GatewaySample] = field(default_factory=dict)
    pages: dict[str, MetricsPage] = field(default_factory=dict)
    """The metrics page of each pod's engine, by uid; empty unless `page` is given."""

    def begin(self) -> None:
        self.cluster.on_ready = self.expect
        self._ask_gateways()

    def current(self) -> Mapping[str, PodSignals]:
        """The signals that have arrived, without those of pods that are gone."""
        uids = {replica.view.uid for replica in self.cluster.pods.values()}
        self.signals = {uid: signals for uid, signals in self.signals.items() if uid in uids}
        return dict(self.signals)

    def expect(self, replica: SimulatedReplica) -> None:
        """Scrape this pod from now on."""
        period = self.settings.period_seconds
        offset = Random(replica.view.uid).random() * period if self.settings.staggered else 0.0
        now = self.cluster.timeline.now
        first = offset + period * (floor((now - offset) / period) + 1)
        engine = replica.engine
        if self.page is not None:
            self.pages[replica.view.uid] = _page_of(replica)
        self.cluster.timeline.at(first, lambda: self._ask(replica, engine))

    def _ask(self, replica: SimulatedReplica, engine: object) -> None:
        if replica.engine is None or replica.engine is not engine or replica.gone_at is not None:
            return
        timeline = self.cluster.timeline
        replica.advance(timeline.now)
        self.cluster.gateways[replica.view.key].collect(replica)
        answer = self._answer(replica)
        timeline.after(self.settings.delay_seconds, lambda: self._arrived(replica, answer))
        timeline.after(self.settings.period_seconds, lambda: self._ask(replica, engine))

    def _answer(self, replica: SimulatedReplica) -> EngineSample | str:
        """The sample, or a message why there is none."""
        assert replica.engine is not None
        taken_at = self.cluster.wall_time
        if self.page is None:
            engine = replica.engine
            return engine.sample(taken_at) if isinstance(engine, FluidEngine) else _sample(engine, taken_at)
        text = self.page(replica, self.pages[replica.view.uid].text())
        if text is None:
            return "no answer within 3 s"
        try:
            return sample_of(text.encode(), catalogue_for(self.settings.engine_version), taken_at)
        except ValueError as error:
            return str(error)

    def _arrived(self, replica: SimulatedReplica, answer: EngineSample | str) -> None:
        uid = replica.view.uid
        if isinstance(answer, str):
            before = self.signals.get(uid)
            self.signals[uid] = PodSignals(None if before is None else before.sample, answer)
        else:
            self.signals[uid] = PodSignals(answer)
        self.on_news()

    def _ask_gateways(self) -> None:
        timeline = self.cluster.timeline
        for key, gateway in self.cluster.gateways.items():
            sample = gateway.sample(timeline.now)
            timeline.after(self.settings.delay_seconds, partial(self._gateway_sample_arrived, key, sample))
        timeline.after(self.settings.period_seconds, self._ask_gateways)

    def _gateway_sample_arrived(self, key: ServiceKey, sample: GatewaySample) -> None:
        self.gateway_samples[key] = sample


def _sample(engine: SimulatedEngine, taken_at: float) -> EngineSample:
    assert isinstance(engine, ReplicaEngine)
    return sample_of_engine(engine, taken_at)


def _page_of(replica: SimulatedReplica) -> MetricsPage:
    engine = replica.engine
    assert isinstance(engine, ReplicaEngine), "a fluid has no page that could be written and broken"
    arguments = parse_serve(["org/model"])
    return MetricsPage("model", (engine,), [cache_config(arguments, engine, 0)], replica.view.created_at)
