"""`forebay operator`: turns flags into options and starts `controller.process`."""

import typer

from forebay.cli.run import operator_flags as flags
from forebay.controller.options import (
    EngineOptions,
    LeaseOptions,
    MetricsSource,
    OperatorOptions,
    OptionError,
    PaceOptions,
    PortOptions,
    ScrapeOptions,
)
from forebay.runtime.log_format import LogFormat, LogLevel
from forebay.telemetry.prometheus.prometheus_options import PrometheusOptions
from forebay.world.settings import Settings

_LIMITS = Settings()
_LEASE = LeaseOptions()
_PACE = PaceOptions()
_PORTS = PortOptions()
_SCRAPE = ScrapeOptions()
_PROMETHEUS = PrometheusOptions()


def operator(
    kubeconfig: flags.Kubeconfig = None,
    context: flags.Context = None,
    namespace: flags.WatchNamespace = None,
    dry_run: flags.DryRun = False,
    log_level: flags.Level = LogLevel.INFO,
    log_format: flags.Format = LogFormat.JSON,
    bind_address: flags.BindAddress = None,
    health_port: flags.HealthPort = _PORTS.health,
    metrics_port: flags.MetricsPort = _PORTS.metrics,
    health_limit_seconds: flags.HealthLimit = _PACE.health_limit_seconds,
    leader_election: flags.LeaderElection = True,
    lease_namespace: flags.LeaseNamespace = None,
    lease_name: flags.LeaseName = _LEASE.name,
    lease_identity: flags.LeaseIdentity = None,
    tick_seconds: flags.TickSeconds = _PACE.tick_seconds,
    debounce_seconds: flags.DebounceSeconds = _PACE.debounce_seconds,
    pending_timeout: flags.PendingTimeout = _LIMITS.pending_timeout_seconds,
    variant_hold: flags.VariantHold = _LIMITS.variant_hold_seconds,
    node_lost_after_seconds: flags.NodeLostAfter = _LIMITS.node_lost_after_seconds,
    drain_grace_seconds: flags.DrainGrace = _LIMITS.drain_grace_seconds,
    metrics_url: flags.MetricsUrl = _SCRAPE.url,
    metrics_source: flags.MetricsFrom = MetricsSource.DIRECT,
    prometheus_url: flags.PrometheusUrl = _PROMETHEUS.url,
    prometheus_ca_file: flags.PrometheusCaFile = None,
    prometheus_token_file: flags.PrometheusTokenFile = None,
    prometheus_namespace_label: flags.PrometheusNamespaceLabel = _PROMETHEUS.namespace_label,
    prometheus_pod_label: flags.PrometheusPodLabel = _PROMETHEUS.pod_label,
    prometheus_selector: flags.PrometheusSelector = None,
    scrape_interval: flags.ScrapeInterval = _SCRAPE.interval_seconds,
    scrape_workers: flags.ScrapeWorkers = _SCRAPE.workers,
    stale_after_seconds: flags.StaleAfter = _LIMITS.stale_after_seconds,
    lost_after_seconds: flags.LostAfter = _LIMITS.lost_after_seconds,
    stall_after_seconds: flags.StallAfter = _LIMITS.stall_after_seconds,
    engine_version: flags.EngineVersion = None,
    engine_image: flags.EngineImage = None,
    placeholder_priority_class: flags.PlaceholderPriorityClass = _LIMITS.placeholder_priority_class,
    default_tenant: flags.DefaultTenant = _LIMITS.default_tenant,
    max_drains_per_10_minutes: flags.MaxDrains = _LIMITS.max_drains_per_10_minutes,
    max_creates_per_minute: flags.MaxCreates = _LIMITS.max_creates_per_minute,
    max_gpus: flags.MaxGpus = _LIMITS.max_gpus,
) -> None:
    """Run the operator: create the pods of InferenceServices and scale them ahead of demand."""
    _start(
        OperatorOptions(
            kubeconfig=kubeconfig,
            context=context,
            namespace=namespace,
            dry_run=dry_run,
            log_level=log_level,
            log_format=log_format,
            lease=LeaseOptions(leader_election and not dry_run, lease_namespace, lease_name, lease_identity),
            pace=PaceOptions(tick_seconds, debounce_seconds, health_limit_seconds),
            scrape=ScrapeOptions(
                metrics_url,
                scrape_interval,
                metrics_source,
                PrometheusOptions(
                    url=prometheus_url,
                    ca_file=prometheus_ca_file,
                    token_file=prometheus_token_file,
                    namespace_label=prometheus_namespace_label,
                    pod_label=prometheus_pod_label,
                    selector=prometheus_selector,
                ),
                workers=scrape_workers,
            ),
            engine=EngineOptions(engine_version, engine_image),
            ports=PortOptions(bind_address, health_port, metrics_port),
            settings=Settings(
                max_drains_per_10_minutes=max_drains_per_10_minutes,
                max_creates_per_minute=max_creates_per_minute,
                max_gpus=max_gpus,
                pending_timeout_seconds=pending_timeout,
                variant_hold_seconds=variant_hold,
                stale_after_seconds=stale_after_seconds,
                lost_after_seconds=lost_after_seconds,
                stall_after_seconds=stall_after_seconds,
                node_lost_after_seconds=node_lost_after_seconds,
                drain_grace_seconds=drain_grace_seconds,
                placeholder_priority_class=placeholder_priority_class,
                default_tenant=default_tenant,
            ),
        )
    )


def _start(options: OperatorOptions) -> None:
    try:
        options.check()
    except OptionError as error:
        raise typer.BadParameter(str(error)) from error

    from forebay.controller.process import run

    raise typer.Exit(run(options))
