"""Assembly: builds the parts of the operator from its options and connects them."""

import secrets
import socket
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from forebay.cluster.client.access import Access
from forebay.cluster.client.kubernetes_client import KubernetesClient, connect
from forebay.cluster.client.lease import Leadership
from forebay.cluster.client.server_clock import ServerClock
from forebay.cluster.read.observer import Observer
from forebay.cluster.write.apply import Applier
from forebay.cluster.write.event_recorder import EventRecorder
from forebay.cluster.write.share_plan_writer import SharePlanWriter
from forebay.cluster.write.status_writer import StatusWriter
from forebay.controller import scrape_worker
from forebay.controller.handlers import build_registry
from forebay.controller.loop import Loop, LoopPace, TickSteps
from forebay.controller.loop_health import LoopHealth
from forebay.controller.operator_metrics import Metrics
from forebay.controller.options import EngineOptions, MetricsSource, OperatorOptions, ScrapeOptions
from forebay.controller.service_watch import ServiceWatch
from forebay.controller.tick_log import UnreadableLog
from forebay.controller.wake import Wake
from forebay.planner.memory import State
from forebay.planner.planner import plan
from forebay.runtime.shutdown import Shutdown
from forebay.telemetry.direct.fleet_scraper import FleetScraper
from forebay.telemetry.direct.scrape_workers import WorkerOptions
from forebay.telemetry.direct.scraper import ScrapeSettings
from forebay.telemetry.prometheus.prometheus_source import Connection, PrometheusSource
from forebay.telemetry.signal_source import Clock, ScrapeTarget, SignalSource
from forebay.workloads.spec.engine_versions import Defaults
from forebay.world.plan import Plan
from forebay.world.settings import Settings
from forebay.world.world import World

STALE_AFTER_INTERVALS = 3
"""A signal is stale after at least this many scrape intervals, so that two late answers do not hold scaling."""
EXIT_LEASE_LOST = 3


class Leader(Protocol):
    """Says whether this process may write: by a lease, or always."""

    @property
    def leading(self) -> bool: ...

    def start(self) -> None: ...

    def stop(self) -> None: ...


class AlwaysLeader:
    """The leader of an operator without leader election: it leads from start to stop."""

    leading = True

    def start(self) -> None:
        pass

    def stop(self) -> None:
        self.leading = False


@dataclass(frozen=True, slots=True)
class Operator:
    """The parts that run. `process` starts and stops them."""

    observer: Observer
    signal_source: SignalSource
    loop: Loop[State]
    wake: Wake
    leader: Leader
    service_watch: ServiceWatch
    clock: ServerClock

    async def scrape(self) -> None:
        await self.signal_source.run(self.targets, lambda: self.wake.wake("scrape", skip_debounce=True))

    def targets(self) -> Sequence[ScrapeTarget]:
        """The engines to scrape; none on a standby.

        Only one operator scrapes an engine, and a new leader holds the replica count until it has signals.
        """
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
                self.clock.present(engine.created_at),
                engine.service,
            )
            for engine in self.observer.engines()
        ]


@dataclass(frozen=True, slots=True)
class PlanExecutor:
    """Carries a plan out: first the actions, then what admission is told, then the statuses, then the Events."""

    applier: Applier
    share_plans: SharePlanWriter
    status: StatusWriter
    events: EventRecorder

    async def execute(self, world: World, plan: Plan, now: float) -> int:
        """Returns the number of calls that failed; a later plan repeats what is still needed."""
        applied = await self.applier.apply(plan, now)
        failed_plans = await self.share_plans.write(plan)
        written = await self.status.write(plan, world, now)
        await self.events.record(plan, now)
        return len(applied.failures) + failed_plans + len(written.failures)


async def assemble(
    options: OperatorOptions,
    access: Access,
    api: KubernetesClient,
    clock: ServerClock,
    health: LoopHealth,
    metrics: Metrics,
    shutdown: Shutdown,
) -> Operator:
    """Build all parts and start none of them. Raises AccessError."""
    wake = Wake(options.pace.debounce_seconds)
    identity = options.lease.identity or f"{socket.gethostname()}-{secrets.token_hex(4)}"
    leader = await _leader(options, access, identity, wake, shutdown)
    observer = Observer(
        api,
        settings=options.settings,
        defaults=_defaults(options.engine),
        wake=wake.wake,
        namespace=options.namespace,
        # An operator for one namespace serves no WarmPools and no TenantQuotas, since they are cluster-scoped.
        pool_namespace=None if options.namespace else options.lease.namespace or await access.namespace(),
    )
    worker = scrape_worker.command(options.log_level, options.log_format)
    signal_source = build_signal_source(options.scrape, clock, worker)
    service_watch = ServiceWatch(lambda: build_registry(access, wake.wake_from_thread), options.namespace)

    def is_leader() -> bool:
        return leader.leading

    executor = PlanExecutor(
        Applier(api, observer, is_leader=is_leader, dry_run=options.dry_run),
        SharePlanWriter(api, observer, is_leader=is_leader, dry_run=options.dry_run),
        StatusWriter(api, observer, is_leader=is_leader, dry_run=options.dry_run),
        EventRecorder(api, instance=identity, dry_run=options.dry_run),
    )

    metrics.show_sources(observer.ages, signal_source.statistics)
    unreadable_log = UnreadableLog(metrics.unreadable)

    async def observe(now: float) -> World:
        world = await observer.observe(signal_source.signals(), now)
        service_watch.allow_start()
        unreadable_log.note(observer.problems())
        interval_seconds = signal_source.statistics().interval_seconds
        return replace(world, settings=settings_for_interval(options.settings, interval_seconds))

    def forget() -> None:
        signal_source.forget()
        observer.refusals.clear()
        executor.status.forget()

    loop = Loop(
        TickSteps(observe, plan, executor.execute, State.empty, forget),
        is_leader=is_leader,
        wake=wake,
        health=health,
        metrics=metrics,
        pace=LoopPace(options.pace.tick_seconds),
        clock=clock,
    )
    return Operator(observer, signal_source, loop, wake, leader, service_watch, clock)


def build_signal_source(
    options: ScrapeOptions, server_clock: ServerClock, worker_command: tuple[str, ...]
) -> SignalSource:
    """The direct scraper, or the client of a Prometheus that scrapes the engines."""
    clock = Clock(now=server_clock.now, monotonic=server_clock.monotonic)
    if options.source is MetricsSource.DIRECT:
        settings = ScrapeSettings(interval_seconds=options.interval_seconds)
        workers = WorkerOptions(worker_command, options.workers)
        return FleetScraper(options.url, workers, settings=settings, clock=clock)

    def connect() -> Connection:
        # Imported here, because the client costs 0.3 s and 20 MB that an operator without Prometheus need not pay.
        from forebay.telemetry.prometheus.prometheus_connection import PrometheusConnection

        return PrometheusConnection(options.prometheus)

    return PrometheusSource(
        connect,
        labels=options.prometheus.labels,
        matchers=options.prometheus.matchers,
        at_least_seconds=options.interval_seconds,
        clock=clock,
    )


def settings_for_interval(settings: Settings, scrape_interval_seconds: float) -> Settings:
    """The settings with limits on the age of signals that fit the scrape interval.

    A large fleet is scraped less often. Its samples are older, and must not count as missing for that reason.
    """
    stale = max(settings.stale_after_seconds, STALE_AFTER_INTERVALS * scrape_interval_seconds)
    return replace(settings, stale_after_seconds=stale, lost_after_seconds=max(settings.lost_after_seconds, 2 * stale))


async def _leader(options: OperatorOptions, access: Access, identity: str, wake: Wake, shutdown: Shutdown) -> Leader:
    if not options.lease.enabled:
        return AlwaysLeader()
    return Leadership(
        # The lease has a client of its own, so that the requests of a busy loop cannot delay a renewal.
        lambda: connect(access, purpose="lease"),
        namespace=options.lease.namespace or await access.namespace(),
        name=options.lease.name,
        identity=identity,
        on_acquired=lambda: wake.wake_from_thread("leading"),
        on_lost=lambda reason: shutdown.end_from_thread(EXIT_LEASE_LOST, f"the lease is lost: {reason}"),
    )


def _defaults(engine: EngineOptions) -> Defaults:
    built_in = Defaults()
    return Defaults(
        engine_version=engine.version or built_in.engine_version,
        image=engine.image or built_in.image,
        gpu_memory_utilization_percent=built_in.gpu_memory_utilization_percent,
    )
