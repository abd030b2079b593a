"""Assembly: the parts of the operator, made from its options and plugged into each other."""

import secrets
import socket
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from forebay.cluster.client.access import Access
from forebay.cluster.client.kubernetes_client import KubernetesApi, connect
from forebay.cluster.client.lease import Leadership
from forebay.cluster.read.observer import Observer
from forebay.cluster.write.apply import Applier
from forebay.cluster.write.event_recorder import EventRecorder
from forebay.cluster.write.status_writer import StatusWriter
from forebay.controller.handlers import build_registry
from forebay.controller.loop import Loop, LoopPace, Stations
from forebay.controller.loop_health import Pulse
from forebay.controller.operator_metrics import Metrics
from forebay.controller.options import EngineOptions, MetricsSource, OperatorOptions, ScrapeOptions
from forebay.controller.service_watch import ServiceWatch
from forebay.controller.tick_log import UnreadableLog
from forebay.controller.wake import Wake
from forebay.planner.memory import State
from forebay.planner.planner import plan
from forebay.runtime.shutdown import EXIT_LEASE_LOST, Shutdown
from forebay.telemetry.direct.scraper import Scraper, ScrapeSettings, ScrapeTarget
from forebay.telemetry.direct.url_template import UrlTemplate
from forebay.telemetry.prometheus.prometheus_source import Connection, PrometheusSource
from forebay.telemetry.signal_source import SignalSource
from forebay.workloads.spec.engine_versions import Defaults
from forebay.world.plan import Plan
from forebay.world.settings import Settings
from forebay.world.world import World

STALE_INTERVALS = 3
"""Of scraping; so that two late answers in a row hold nothing."""


class Leader(Protocol):
    """A lease, or its absence."""

    @property
    def leading(self) -> bool: ...

    def start(self) -> None: ...

    def stop(self) -> None: ...


class Alone:
    """For a single replica that nobody stands by for: it leads from start to end."""

    leading = True

    def start(self) -> None:
        pass

    def stop(self) -> None:
        self.leading = False


@dataclass(frozen=True, slots=True)
class Operator:
    """The parts that run. `process` starts and ends them."""

    observer: Observer
    scraper: SignalSource
    loop: Loop[State]
    wake: Wake
    leader: Leader
    service_watch: ServiceWatch

    async def scrape(self) -> None:
        await self.scraper.run(self.targets, lambda: self.wake.wake("scrape", settled=True))

    def targets(self) -> Sequence[ScrapeTarget]:
        """Nothing while standing by: an engine is asked by one operator only, and a new leader holds until it knows."""
        if not self.leader.leading:
            return []
        return [
            ScrapeTarget(
                engine.uid,
                engine.namespace,
                engine.pod,
                engine.ip,
                engine.port,
                engine.engine_version,
                engine.created_at,
            )
            for engine in self.observer.engines()
        ]


@dataclass(frozen=True, slots=True)
class Hands:
    """What carries a plan out, in this order: the objects, what the service says of itself, what people read."""

    applier: Applier
    status: StatusWriter
    events: EventRecorder

    async def act(self, world: World, what: Plan, now: float) -> int:
        """The number of calls that were refused; each is tried anew by a later plan."""
        applied = await self.applier.apply(what, now)
        written = await self.status.write(what, world, now)
        await self.events.record(what, now)
        return len(applied.failures) + len(written.failures)


async def assemble(
    options: OperatorOptions, access: Access, api: KubernetesApi, pulse: Pulse, metrics: Metrics, ending: Shutdown
) -> Operator:
    """Everything made, nothing started. Raises AccessError."""
    wake = Wake(options.pace.debounce_seconds)
    identity = options.lease.identity or f"{socket.gethostname()}-{secrets.token_hex(4)}"
    leader = await _leader(options, access, identity, wake, ending)
    observer = Observer(
        api,
        settings=options.settings,
        defaults=_defaults(options.engine),
        wake=wake.wake,
        namespace=options.namespace,
        # One that is kept to a namespace holds no pools: those are everybody's.
        pool_namespace=None if options.namespace else options.lease.namespace or await access.namespace(),
    )
    scraper = source_of(options.scrape)
    service_watch = ServiceWatch(lambda: build_registry(access, wake.wake_from_thread), options.namespace)

    def is_leader() -> bool:
        return leader.leading

    hands = Hands(
        Applier(api, observer, is_leader=is_leader, dry_run=options.dry_run),
        StatusWriter(api, is_leader=is_leader, dry_run=options.dry_run),
        EventRecorder(api, instance=identity, dry_run=options.dry_run),
    )

    metrics.show_sources(observer.ages, scraper.statistics)
    unreadable = UnreadableLog(metrics.unreadable)

    async def observe(now: float) -> World:
        world = await observer.observe(scraper.signals(), now)
        service_watch.allow()
        unreadable.note(observer.problems())
        return replace(world, settings=patient(options.settings, scraper.statistics().interval_seconds))

    loop = Loop(
        Stations(observe, plan, hands.act, State.empty),
        is_leader=is_leader,
        wake=wake,
        pulse=pulse,
        metrics=metrics,
        pace=LoopPace(options.pace.tick_seconds),
    )
    return Operator(observer, scraper, loop, wake, leader, service_watch)


def source_of(options: ScrapeOptions) -> SignalSource:
    """Where signals come from: the engines, or a Prometheus that scrapes them."""
    if options.source is MetricsSource.DIRECT:
        return Scraper(UrlTemplate(options.url), settings=ScrapeSettings(interval_seconds=options.interval_seconds))

    def connect() -> Connection:
        # Not at the top: the client takes 0.3 s and 20 MB, which only those pay who use it.
        from forebay.telemetry.prometheus.prometheus_connection import PrometheusConnection

        return PrometheusConnection(options.prometheus)

    return PrometheusSource(
        connect,
        labels=options.prometheus.labels,
        matchers=options.prometheus.matchers,
        at_least_seconds=options.interval_seconds,
    )


def patient(settings: Settings, scrape_interval_seconds: float) -> Settings:
    """A large fleet is asked less often; that its samples are older must not look like engines that fell silent."""
    stale = max(settings.stale_after_seconds, STALE_INTERVALS * scrape_interval_seconds)
    return replace(settings, stale_after_seconds=stale, lost_after_seconds=max(settings.lost_after_seconds, 2 * stale))


async def _leader(options: OperatorOptions, access: Access, identity: str, wake: Wake, ending: Shutdown) -> Leader:
    if not options.lease.enabled:
        return Alone()
    return Leadership(
        # A client of its own: a busy loop's requests must not delay a renewal.
        lambda: connect(access, purpose="lease"),
        namespace=options.lease.namespace or await access.namespace(),
        name=options.lease.name,
        identity=identity,
        on_acquired=lambda: wake.wake_from_thread("leading"),
        on_lost=lambda reason: ending.end_from_thread(EXIT_LEASE_LOST, f"the lease is lost: {reason}"),
    )


def _defaults(engine: EngineOptions) -> Defaults:
    built_in = Defaults()
    return Defaults(
        engine_version=engine.version or built_in.engine_version,
        image=engine.image or built_in.image,
        gpu_memory_utilization_percent=built_in.gpu_memory_utilization_percent,
    )
