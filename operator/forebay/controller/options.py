"""The options of the operator process, checked together before anything starts."""

import re
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from forebay.runtime.log_format import LogFormat, LogLevel
from forebay.telemetry.direct.url_template import DEFAULT as DEFAULT_METRICS_URL
from forebay.telemetry.direct.url_template import UrlTemplate
from forebay.telemetry.prometheus.prometheus_options import PrometheusOptions
from forebay.telemetry.signal_source import SHORTEST_INTERVAL_SECONDS
from forebay.world.settings import Settings

TENANT_NAME = "[a-z]([-a-z0-9]{0,38}[a-z0-9])?"
"""As in the API, whose models are not loaded to check flags."""


class OptionError(ValueError):
    """An invalid flag; the message names the flag, its value, the reason and a value that works."""


@dataclass(frozen=True, slots=True)
class LeaseOptions:
    enabled: bool = True
    """False for an operator that runs as a single replica."""
    namespace: str | None = None
    """None means the operator's own namespace."""
    name: str = "forebay-operator"
    identity: str | None = None
    """The holder name of this process; None means the host name and a random part."""


@dataclass(frozen=True, slots=True)
class PaceOptions:
    tick_seconds: float = 5.0
    debounce_seconds: float = 1.0
    health_limit_seconds: float = 60.0
    """`/healthz` fails when the last successful tick is older than this."""


class MetricsSource(StrEnum):
    DIRECT = "direct"
    """Scrapes the engines; for up to about 10,000 pods."""
    PROMETHEUS = "prometheus"
    """Queries a Prometheus that scrapes the engines."""


@dataclass(frozen=True, slots=True)
class ScrapeOptions:
    url: str = DEFAULT_METRICS_URL
    """URL template of an engine's metrics; not used with Prometheus."""
    interval_seconds: float = SHORTEST_INTERVAL_SECONDS
    """The shortest time between two rounds; a large fleet is scraped less often."""
    source: MetricsSource = MetricsSource.DIRECT
    prometheus: PrometheusOptions = field(default_factory=PrometheusOptions)
    workers: int = 4
    """The most processes that scrape for the operator, one for every 5,000 pods; 0 if it is to scrape all itself."""


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """The engine of services that name neither image nor version; None means the built-in default."""

    version: str | None = None
    image: str | None = None
    """`{version}` is replaced by the engine's version."""


@dataclass(frozen=True, slots=True)
class PortOptions:
    address: str | None = None
    """None means every interface. Port 0 turns a listener off."""
    health: int = 8081
    metrics: int = 9090


@dataclass(frozen=True, slots=True)
class OperatorOptions:
    kubeconfig: Path | None = None
    context: str | None = None
    namespace: str | None = None
    """The only namespace whose services this operator serves; None means all."""
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
        """Raises OptionError for options that contradict each other; the CLI checks the ranges of single values."""
        self._check_times()
        self._check_addresses()
        self._check_source()
        self._check_names()

    def _check_times(self) -> None:
        settings = self.settings
        if settings.lost_after_seconds <= settings.stale_after_seconds:
            raise OptionError(
                f"--lost-after-seconds {settings.lost_after_seconds:g} is not above --stale-after-seconds "
                f"{settings.stale_after_seconds:g}: a signal must be stale before it is lost; raise "
                "--lost-after-seconds."
            )
        interval = self.scrape.interval_seconds
        if settings.stale_after_seconds < 2 * interval:
            raise OptionError(
                f"--stale-after-seconds {settings.stale_after_seconds:g} is below two scrapes of "
                f"--scrape-interval {interval:g}: one late answer would hold all scaling; raise "
                "--stale-after-seconds or lower --scrape-interval."
            )
        if self.pace.health_limit_seconds < 4 * self.pace.tick_seconds:
            raise OptionError(
                f"--health-limit-seconds {self.pace.health_limit_seconds:g} is below four ticks of --tick-seconds "
                f"{self.pace.tick_seconds:g}: one slow tick would restart the operator; raise "
                "--health-limit-seconds."
            )

    def _check_addresses(self) -> None:
        try:
            UrlTemplate(self.scrape.url)
        except ValueError as error:
            raise OptionError(f"--metrics-url: {error}") from error
        if self.ports.health and self.ports.health == self.ports.metrics:
            raise OptionError(
                f"--health-port and --metrics-port are both {self.ports.health}; give them different ports, "
                "or 0 to turn one off."
            )

    def _check_source(self) -> None:
        prometheus = self.scrape.prometheus
        if self.scrape.source is MetricsSource.PROMETHEUS:
            if problem := prometheus.problem():
                raise OptionError(problem)
        elif prometheus != PrometheusOptions():
            raise OptionError(
                "--metrics-source is direct, so a --prometheus-* flag has no effect; set --metrics-source prometheus, "
                "or remove the flag."
            )

    def _check_names(self) -> None:
        name = self.settings.default_tenant
        if not re.fullmatch(TENANT_NAME, name):
            raise OptionError(
                f'--default-tenant "{name}" is not the name of a TenantQuota; use at most 40 lower case letters, '
                "digits and '-', beginning with a letter."
            )
