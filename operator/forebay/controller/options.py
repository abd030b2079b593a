"""Options of the operator process, checked together before anything is started."""

from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from forebay.runtime.log_format import LogFormat, LogLevel
from forebay.telemetry.direct.url_template import DEFAULT as DEFAULT_METRICS_URL
from forebay.telemetry.direct.url_template import UrlTemplate
from forebay.telemetry.prometheus.prometheus_options import PrometheusOptions
from forebay.world.settings import Settings

SHORTEST_SCRAPE_INTERVAL_SECONDS = 5.0
"""vLLM answers from the process that serves requests; asked more often it gets slower."""


class OptionError(ValueError):
    """A flag that cannot be meant; the message names the flag, its value and the way out."""


@dataclass(frozen=True, slots=True)
class LeaseOptions:
    enabled: bool = True
    """False for a single replica that nobody stands by for."""
    namespace: str | None = None
    """None means the operator's own namespace."""
    name: str = "forebay-operator"
    identity: str | None = None
    """Who holds the lease; None means host name and a random part."""


@dataclass(frozen=True, slots=True)
class PaceOptions:
    tick_seconds: float = 5.0
    debounce_seconds: float = 1.0
    health_limit_seconds: float = 60.0
    """`/healthz` turns red when no tick was good for longer."""


class MetricsSource(StrEnum):
    DIRECT = "direct"
    """The engines themselves; up to some 2,000 pods."""
    PROMETHEUS = "prometheus"


@dataclass(frozen=True, slots=True)
class ScrapeOptions:
    url: str = DEFAULT_METRICS_URL
    """Of an engine; of no meaning when Prometheus is asked."""
    interval_seconds: float = SHORTEST_SCRAPE_INTERVAL_SECONDS
    """At least; a large fleet is asked less often."""
    source: MetricsSource = MetricsSource.DIRECT
    prometheus: PrometheusOptions = field(default_factory=PrometheusOptions)


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """What a service that names neither image nor version gets; None means the operator's built-in default."""

    version: str | None = None
    image: str | None = None
    """`{version}` in it stands for the engine's version."""


@dataclass(frozen=True, slots=True)
class PortOptions:
    address: str | None = None
    """None means every interface. Port 0 switches a listener off."""
    health: int = 8081
    metrics: int = 9090


@dataclass(frozen=True, slots=True)
class OperatorOptions:
    kubeconfig: Path | None = None
    context: str | None = None
    namespace: str | None = None
    """The only namespace whose services are served; None means all."""
    dry_run: bool = False
    log_level: LogLevel = LogLevel.INFO
    log_format: LogFormat = LogFormat.JSON
    lease: LeaseOptions = field(default_factory=LeaseOptions)
    pace: PaceOptions = field(default_factory=PaceOptions)
    scrape: ScrapeOptions = field(default_factory=ScrapeOptions)
    engine: EngineOptions = field(default_factory=EngineOptions)
    ports: PortOptions = field(default_factory=PortOptions)
    settings: Settings = field(default_factory=Settings)

    def check(self) -> None:
        """Raises OptionError for what cannot be meant; ranges of single values are the command line's."""
        self._check_times()
        self._check_addresses()
        self._check_source()

    def _check_times(self) -> None:
        settings = self.settings
        if settings.lost_after_seconds <= settings.stale_after_seconds:
            raise OptionError(
                f"--lost-after-seconds {settings.lost_after_seconds:g} is not above --stale-after-seconds "
                f"{settings.stale_after_seconds:g}: a signal is stale first and lost later; raise the former."
            )
        interval = self.scrape.interval_seconds
        if settings.stale_after_seconds < 2 * interval:
            raise OptionError(
                f"--stale-after-seconds {settings.stale_after_seconds:g} is below two scrapes of "
                f"--scrape-interval {interval:g}: one late answer would hold all scaling; raise the former or "
                "shorten the latter."
            )
        if self.pace.health_limit_seconds < 4 * self.pace.tick_seconds:
            raise OptionError(
                f"--health-limit-seconds {self.pace.health_limit_seconds:g} is below four ticks of --tick-seconds "
                f"{self.pace.tick_seconds:g}: one slow tick would restart the operator; raise the former."
            )

    def _check_addresses(self) -> None:
        try:
            UrlTemplate(self.scrape.url)
        except ValueError as error:
            raise OptionError(f"--metrics-url: {error}") from error
        if self.ports.health and self.ports.health == self.ports.metrics:
            raise OptionError(
                f"--health-port and --metrics-port are both {self.ports.health}; give them different ports, "
                "or 0 to switch one off."
            )

    def _check_source(self) -> None:
        prometheus = self.scrape.prometheus
        if self.scrape.source is MetricsSource.PROMETHEUS:
            if problem := prometheus.problem():
                raise OptionError(problem)
        elif prometheus != PrometheusOptions():
            raise OptionError(
                "--metrics-source is direct, and a flag about Prometheus is given, which would do nothing; "
                "set --metrics-source prometheus, or leave the flag out."
            )
