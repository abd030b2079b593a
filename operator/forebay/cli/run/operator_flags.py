"""The flags of `forebay operator`. Each is an environment variable too, for charts and for debugging."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from forebay.controller.options import MetricsSource
from forebay.runtime.log_format import LogFormat, LogLevel
from forebay.telemetry.signal_source import SHORTEST_INTERVAL_SECONDS as SHORTEST


def _flag(
    name: str, help_text: str, panel: str, at_least: float | None = None, at_most: float | None = None, **more: Any
) -> Any:
    """An option and its environment variable: FOREBAY_TICK_SECONDS for `--tick-seconds`, FOREBAY_A for `--a/--no-a`."""
    variable = "FOREBAY_" + name.split("/")[0].removeprefix("--").replace("-", "_").upper()
    if at_least is not None or at_most is not None:
        more["callback"] = _range(at_least, at_most)
    return typer.Option(name, envvar=variable, help=help_text, rich_help_panel=panel, **more)


def _range(at_least: float | None, at_most: float | None) -> Callable[[float | None], float | None]:
    """A callback that refuses values outside the range and names the value and the limit; typer adds the flag."""

    def check(value: float | None) -> float | None:
        if value is not None and at_least is not None and value < at_least:
            raise typer.BadParameter(f"{value:g} is too small; give at least {at_least:g}.")
        if value is not None and at_most is not None and value > at_most:
            raise typer.BadParameter(f"{value:g} is too large; give at most {at_most:g}.")
        return value

    return check


_CLUSTER = "Cluster"
_OUTPUT = "Output"
_LEADER = "Leadership"
_PACE = "Pace"
_SIGNALS = "Signals"
_ENGINE = "Engines"
_WARM_POOL = "Warm pool"
_TENANTS = "Tenants"
_LIMITS = "Blast radius"

Kubeconfig = Annotated[
    Path | None,
    _flag("--kubeconfig", "Default: KUBECONFIG, the pod's service account, ~/.kube/config.", _CLUSTER),
]
Context = Annotated[str | None, _flag("--context", "Context of the kubeconfig. Default: its current one.", _CLUSTER)]
WatchNamespace = Annotated[str | None, _flag("--namespace", "Serve only this namespace. Default: all.", _CLUSTER)]
DryRun = Annotated[bool, _flag("--dry-run", "Log what would be done; write nothing and take no lease.", _CLUSTER)]

Level = Annotated[LogLevel, _flag("--log-level", "Lowest level that is logged.", _OUTPUT)]
Format = Annotated[LogFormat, _flag("--log-format", "json: one object per line; plain: text for a terminal.", _OUTPUT)]
BindAddress = Annotated[
    str | None, _flag("--bind-address", "Address of both ports. Default: every interface.", _OUTPUT)
]
HealthPort = Annotated[
    int, _flag("--health-port", "Port of /healthz and /readyz; 0 turns it off.", _OUTPUT, at_least=0, at_most=65535)
]
MetricsPort = Annotated[
    int, _flag("--metrics-port", "Port of /metrics; 0 turns it off.", _OUTPUT, at_least=0, at_most=65535)
]
HealthLimit = Annotated[
    float,
    _flag(
        "--health-limit-seconds",
        "/healthz fails when the last successful tick is older than this.",
        _OUTPUT,
        at_least=1.0,
    ),
]

LeaderElection = Annotated[
    bool, _flag("--leader-election/--no-leader-election", "Write only while holding the lease.", _LEADER)
]
LeaseNamespace = Annotated[
    str | None, _flag("--lease-namespace", "Default: the operator's own namespace.", _LEADER, show_default=False)
]
LeaseName = Annotated[str, _flag("--lease-name", "Name of the lease.", _LEADER)]
LeaseIdentity = Annotated[
    str | None, _flag("--lease-identity", "Holder name. Default: host name and a random part.", _LEADER)
]

TickSeconds = Annotated[
    float, _flag("--tick-seconds", "Plan at least this often.", _PACE, at_least=0.05, at_most=300.0)
]
DebounceSeconds = Annotated[
    float,
    _flag("--debounce-seconds", "Wait this long after a change for more changes.", _PACE, at_least=0.0, at_most=30.0),
]
PendingTimeout = Annotated[
    float,
    _flag("--pending-timeout", "Seconds until a pod that has not started counts as stuck.", _PACE, at_least=1.0),
]
VariantHold = Annotated[
    float,
    _flag("--variant-hold", "Seconds until a variant that did not fit is tried again.", _PACE, at_least=1.0),
]

NodeLostAfter = Annotated[
    float,
    _flag(
        "--node-lost-after-seconds", "Replicas of a node that is not ready for longer are lost.", _PACE, at_least=1.0
    ),
]
DrainGrace = Annotated[
    float,
    _flag("--drain-grace-seconds", "A draining pod may still receive requests for this long.", _PACE, at_least=0.0),
]

MetricsUrl = Annotated[
    str, _flag("--metrics-url", "URL template of an engine's metrics: {namespace} {pod} {ip} {port}.", _SIGNALS)
]
MetricsFrom = Annotated[
    MetricsSource, _flag("--metrics-source", "direct: scrape the engines; prometheus: query Prometheus.", _SIGNALS)
]
PrometheusUrl = Annotated[str, _flag("--prometheus-url", "URL of Prometheus, without /api/v1.", _SIGNALS)]
PrometheusCaFile = Annotated[
    Path | None, _flag("--prometheus-ca-file", "Certificates to trust (PEM). Default: the system's.", _SIGNALS)
]
PrometheusTokenFile = Annotated[
    Path | None, _flag("--prometheus-token-file", "Bearer token to send; https only.", _SIGNALS)
]
PrometheusNamespaceLabel = Annotated[
    str, _flag("--prometheus-namespace-label", "Label that holds a pod's namespace.", _SIGNALS)
]
PrometheusPodLabel = Annotated[str, _flag("--prometheus-pod-label", "Label that holds a pod's name.", _SIGNALS)]
PrometheusSelector = Annotated[
    str | None,
    _flag("--prometheus-selector", "LABEL=VALUE that every series must have. Default: none.", _SIGNALS),
]
ScrapeInterval = Annotated[
    float, _flag("--scrape-interval", "Seconds between scrapes; longer for a large fleet.", _SIGNALS, at_least=SHORTEST)
]
ScrapeWorkers = Annotated[
    int,
    _flag(
        "--scrape-workers",
        "The most processes that scrape a fleet of over 625 pods; 0: none.",
        _SIGNALS,
        at_least=0,
        at_most=64,
    ),
]
StaleAfter = Annotated[
    float, _flag("--stale-after-seconds", "A signal older than this stops scaling down.", _SIGNALS, at_least=1.0)
]
LostAfter = Annotated[
    float,
    _flag("--lost-after-seconds", "A signal older than this counts as lost.", _SIGNALS, at_least=1.0),
]
StallAfter = Annotated[
    float,
    _flag(
        "--stall-after-seconds", "A busy engine without a step for longer counts as stalled.", _SIGNALS, at_least=1.0
    ),
]

EngineVersion = Annotated[
    str | None, _flag("--engine-version", "vLLM version of services that name none. Default: built in.", _ENGINE)
]
EngineImage = Annotated[
    str | None,
    _flag("--engine-image", "Image of services that name none; {version} is replaced. Default: built in.", _ENGINE),
]

PlaceholderPriorityClass = Annotated[
    str, _flag("--placeholder-priority-class", "PriorityClass of placeholder pods.", _WARM_POOL)
]

DefaultTenant = Annotated[
    str,
    _flag("--default-tenant", "Tenant of the namespaces that no TenantQuota names.", _TENANTS),
]

MaxDrains = Annotated[
    int, _flag("--max-drains-per-10-minutes", "Drains of all services together.", _LIMITS, at_least=0)
]
MaxCreates = Annotated[
    int, _flag("--max-creates-per-minute", "New pods of all services together.", _LIMITS, at_least=0)
]
MaxGpus = Annotated[
    int | None,
    _flag("--max-gpus", "GPUs of all services together. Default: all GPUs of the nodes.", _LIMITS, at_least=0),
]
