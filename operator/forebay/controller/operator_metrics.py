"""The operator's own Prometheus metrics.

Label values come only from objects that Forebay manages, and a series is removed together with its object.
"""

from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from forebay import __version__
from forebay.cluster.client.kubernetes_client import Call
from forebay.cluster.client.server_clock import ServerClock
from forebay.controller.loop_health import LoopHealth
from forebay.telemetry.scrape_statistics import ScrapeStatistics
from forebay.world.plan import Plan
from forebay.world.world import ServiceKey

TICK_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
SERVICE = ("namespace", "service")
WRITES = frozenset({"create", "patch", "delete"})


class LoopHealthCollector(Collector):
    """Computes the age of the last tick at each scrape: a gauge set by the loop would freeze when the loop hangs."""

    def __init__(self, health: LoopHealth, monotonic: Callable[[], float]) -> None:
        self._health = health
        self._monotonic = monotonic

    def collect(self) -> Iterable[Metric]:
        now = self._monotonic()
        yield GaugeMetricFamily(
            "forebay_tick_age_seconds", "Seconds since the last successful tick.", self._health.tick_age_seconds(now)
        )
        yield GaugeMetricFamily("forebay_leader", "1 on the leader, 0 on a standby.", float(self._health.leading))


class SourcesCollector(Collector):
    """The state of the watch caches and of scraping, read at each scrape of the operator."""

    def __init__(self, cache_ages: Callable[[], dict[str, float]], scrapes: Callable[[], ScrapeStatistics]) -> None:
        self._cache_ages = cache_ages
        self._scrapes = scrapes

    def collect(self) -> Iterable[Metric]:
        ages = GaugeMetricFamily(
            "forebay_cache_age_seconds", "Seconds since the API server last confirmed a cache.", labels=("resource",)
        )
        for resource, age in self._cache_ages().items():
            ages.add_metric((resource,), age)
        yield ages
        statistics = self._scrapes()
        yield CounterMetricFamily("forebay_scrapes", "Scrapes of engines, failed ones included.", statistics.scrapes)
        failures = CounterMetricFamily("forebay_scrape_failures", "Failed scrapes, by reason.", labels=("reason",))
        for reason, count in statistics.failures.items():
            failures.add_metric((reason.value,), count)
        yield failures
        yield GaugeMetricFamily(
            "forebay_scrape_round_seconds", "Duration of the last round of scrapes.", statistics.last_round_seconds
        )
        yield GaugeMetricFamily(
            "forebay_scrape_workers", "Processes that scrape; 0 while the operator scrapes itself.", statistics.workers
        )
        yield CounterMetricFamily(
            "forebay_scrape_worker_ends", "How often a scrape worker was started again.", statistics.worker_ends
        )


class ServerClockCollector(Collector):
    """The difference between the clocks of the operator and the API server, read at each scrape of the operator."""

    def __init__(self, clock: ServerClock) -> None:
        self._clock = clock

    def collect(self) -> Iterable[Metric]:
        skew = GaugeMetricFamily(
            "forebay_clock_skew_seconds", "How far the operator's clock is ahead of the API server's."
        )
        skew_seconds = self._clock.skew_seconds()
        if skew_seconds is not None:
            skew.add_metric((), skew_seconds)
        yield skew
        yield CounterMetricFamily(
            "forebay_clock_steps", "How often the API server's clock was set, seen from here.", self._clock.steps
        )


class Metrics:
    """All metrics of the loop and of the API client; `/metrics` shows `registry`."""

    def __init__(self, health: LoopHealth, monotonic: Callable[[], float]) -> None:
        self._health = health
        self._monotonic = monotonic
        self.registry = CollectorRegistry(auto_describe=True)
        self.registry.register(LoopHealthCollector(health, monotonic))
        Info("forebay_build", "Version of the operator.", registry=self.registry).info({"version": __version__})
        self.tick_seconds = Histogram(
            "forebay_tick_duration_seconds",
            "Duration of one tick: observe, plan and apply.",
            buckets=TICK_BUCKETS,
            registry=self.registry,
        )
        self.stage_seconds = Histogram(
            "forebay_stage_duration_seconds",
            "Duration of one stage of a tick: observe, plan or apply.",
            ("stage",),
            buckets=TICK_BUCKETS,
            registry=self.registry,
        )
        self.stage_cpu_seconds = Counter(
            "forebay_stage_cpu_seconds",
            "CPU time of the loop's thread by stage; while observe and apply wait, that of other tasks is counted too.",
            ("stage",),
            registry=self.registry,
        )
        self.errors = Counter(
            "forebay_reconcile_errors",
            "Failures by stage: those of observe, plan and apply end a tick, those of service and action do not.",
            ("stage",),
            registry=self.registry,
        )
        self.api_requests = Counter(
            "forebay_api_requests",
            "Requests to the API server; code 0 means no answer.",
            ("verb", "resource", "code"),
            registry=self.registry,
        )
        self.decisions = Counter(
            "forebay_decisions", "Changes of a service's decision, by the new rule.", ("rule",), registry=self.registry
        )
        self.held = Gauge("forebay_held", "1 while the whole plan is held back.", registry=self.registry)
        self.scrape_age = Gauge(
            "forebay_scrape_age_seconds",
            "Age of the oldest last good sample among a service's pods.",
            SERVICE,
            registry=self.registry,
        )
        self._replicas = {
            state: Gauge(f"forebay_{state}_replicas", f"Replicas: {state}.", SERVICE, registry=self.registry)
            for state in ("desired", "ready", "loading", "draining", "warm")
        }
        self._variants = Gauge(
            "forebay_variant_ready_replicas",
            "Replicas that serve, by variant, of services that have variants.",
            (*SERVICE, "variant"),
            registry=self.registry,
        )
        self.unreadable = Gauge(
            "forebay_unreadable_objects", "Objects that could not be read; the log names them.", registry=self.registry
        )
        self._services: set[ServiceKey] = set()
        self._shown_variants: set[tuple[str, str, str]] = set()

    def show_sources(self, cache_ages: Callable[[], dict[str, float]], scrapes: Callable[[], ScrapeStatistics]) -> None:
        self.registry.register(SourcesCollector(cache_ages, scrapes))

    def show_clock(self, clock: ServerClock) -> None:
        self.registry.register(ServerClockCollector(clock))

    def count_call(self, call: Call) -> None:
        if call.verb in WRITES and call.status:
            self._health.write_answered(self._monotonic())
        self.api_requests.labels(call.verb, call.resource, str(call.status)).inc()

    def show_plan(self, plan: Plan) -> None:
        """Show the replica counts of each service's status, and remove the series of deleted services."""
        self.held.set(plan.held is not None)
        if plan.held is not None:
            return
        present = {service.key for service in plan.services}
        for service in plan.services:
            replicas = service.status.replicas
            for state, gauge in self._replicas.items():
                gauge.labels(service.key.namespace, service.key.name).set(getattr(replicas, state))
        for gone in self._services - present:
            for gauge in (*self._replicas.values(), self.scrape_age):
                gauge.remove_by_labels({"namespace": gone.namespace, "service": gone.name})
        self._services = present
        self._show_variants(plan)

    def _show_variants(self, plan: Plan) -> None:
        ready = {
            (service.key.namespace, service.key.name, variant.name): variant.ready
            for service in plan.services
            for variant in service.status.variants
        }
        for labels, count in ready.items():
            self._variants.labels(*labels).set(count)
        for gone in self._shown_variants - ready.keys():
            self._variants.remove(*gone)
        self._shown_variants = set(ready)

    def show_scrape_ages(self, ages: dict[ServiceKey, float]) -> None:
        for key, age in ages.items():
            if key in self._services:
                self.scrape_age.labels(key.namespace, key.name).set(age)
