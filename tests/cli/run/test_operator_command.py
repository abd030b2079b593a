import inspect
import re
from pathlib import Path

import pytest
from typer.main import get_command
from typer.testing import CliRunner, Result

from forebay.cli.main import app
from forebay.cli.run.operator_command import operator
from forebay.controller.options import (
    EngineOptions,
    LeaseOptions,
    MetricsSource,
    OperatorOptions,
    PaceOptions,
    PortOptions,
    ScrapeOptions,
)
from forebay.runtime.log_format import LogFormat, LogLevel
from forebay.telemetry.prometheus.prometheus_options import PrometheusOptions
from forebay.world.settings import Settings


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[OperatorOptions]:
    """The options of each operator that the command would have started."""
    options: list[OperatorOptions] = []

    def run(given: OperatorOptions) -> int:
        options.append(given)
        return 0

    monkeypatch.setattr("forebay.controller.process.run", run)
    return options


def invoke(*arguments: str, **environment: str) -> Result:
    return CliRunner().invoke(app, ["operator", *arguments], env=environment, terminal_width=400)


def error_text(result: Result) -> str:
    """The error as one line, without its frame."""
    return " ".join(re.sub(r"[│╭╮╰╯─]", " ", result.output).split())


def test_without_flags_everything_has_its_default(started: list[OperatorOptions]):
    assert invoke().exit_code == 0
    assert started == [OperatorOptions()]


def test_every_flag_arrives_where_it_belongs(started: list[OperatorOptions]):
    result = invoke(
        *("--kubeconfig", "/kube/config", "--context", "east", "--namespace", "team-a"),
        *("--log-level", "debug", "--log-format", "plain", "--bind-address", "127.0.0.1"),
        *("--health-port", "1", "--metrics-port", "2", "--health-limit-seconds", "33"),
        *("--lease-namespace", "ops", "--lease-name", "mine", "--lease-identity", "me"),
        *("--tick-seconds", "2", "--debounce-seconds", "0.5", "--pending-timeout", "60"),
        *("--metrics-url", "http://sim/{namespace}/{pod}", "--scrape-interval", "8"),
        *("--stale-after-seconds", "20", "--lost-after-seconds", "200", "--stall-after-seconds", "100"),
        *("--engine-version", "0.32.0", "--engine-image", "registry/vllm:v{version}"),
        *("--node-lost-after-seconds", "70", "--drain-grace-seconds", "7"),
        *("--placeholder-priority-class", "ours", "--default-tenant", "everyone"),
        *("--max-drains-per-10-minutes", "4", "--max-creates-per-minute", "5", "--max-gpus", "64"),
    )
    assert result.exit_code == 0, result.output
    assert started == [
        OperatorOptions(
            kubeconfig=Path("/kube/config"),
            context="east",
            namespace="team-a",
            log_level=LogLevel.DEBUG,
            log_format=LogFormat.PLAIN,
            lease=LeaseOptions(True, "ops", "mine", "me"),
            pace=PaceOptions(2.0, 0.5, 33.0),
            scrape=ScrapeOptions("http://sim/{namespace}/{pod}", 8.0),
            engine=EngineOptions("0.32.0", "registry/vllm:v{version}"),
            ports=PortOptions("127.0.0.1", 1, 2),
            settings=Settings(
                max_drains_per_10_minutes=4,
                max_creates_per_minute=5,
                max_gpus=64,
                pending_timeout_seconds=60.0,
                stale_after_seconds=20.0,
                lost_after_seconds=200.0,
                stall_after_seconds=100.0,
                node_lost_after_seconds=70.0,
                drain_grace_seconds=7.0,
                placeholder_priority_class="ours",
                default_tenant="everyone",
            ),
        )
    ]


def test_flags_are_environment_variables_too(started: list[OperatorOptions]):
    invoke(FOREBAY_TICK_SECONDS="2.5", FOREBAY_NAMESPACE="team-a", FOREBAY_LEADER_ELECTION="false")
    (options,) = started
    assert (options.pace.tick_seconds, options.namespace, options.lease.enabled) == (2.5, "team-a", False)


def test_each_flag_names_its_variable():
    group = get_command(app)
    command = group.get_command(group.make_context("forebay", ["operator"]), "operator")  # type: ignore[attr-defined]
    options = [option for option in command.params if option.name != "help"]
    assert len(options) == len(inspect.signature(operator).parameters)
    for option in options:
        assert option.envvar == "FOREBAY_" + option.opts[0][2:].replace("-", "_").upper()


def test_a_dry_run_takes_no_lease(started: list[OperatorOptions]):
    invoke("--dry-run")
    (options,) = started
    assert options.dry_run
    assert not options.lease.enabled


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--tick-seconds", "0"],
            "Invalid value for '--tick-seconds' (env var: 'FOREBAY_TICK_SECONDS'): 0 is too small; give at least 0.05.",
        ),
        (
            ["--max-gpus", "-1"],
            "Invalid value for '--max-gpus' (env var: 'FOREBAY_MAX_GPUS'): -1 is too small; give at least 0.",
        ),
        (["--log-level", "loud"], "'loud' is not one of 'debug', 'info', 'warning', 'error'."),
        (
            ["--stale-after-seconds", "30", "--lost-after-seconds", "30"],
            "--lost-after-seconds 30 is not above --stale-after-seconds 30: ",
        ),
        (
            ["--scrape-interval", "20"],
            "--stale-after-seconds 30 is below two scrapes of --scrape-interval 20: ",
        ),
        (
            ["--tick-seconds", "20"],
            "--health-limit-seconds 60 is below four ticks of --tick-seconds 20: ",
        ),
        (
            ["--health-port", "8080", "--metrics-port", "8080"],
            "--health-port and --metrics-port are both 8080; ",
        ),
        (
            ["--metrics-url", "http://{ip}:{prot}/metrics"],
            '--metrics-url: metrics URL "http://{ip}:{prot}/metrics" has the unknown field {prot};',
        ),
        (
            ["--scrape-interval", "1"],
            "'--scrape-interval' (env var: 'FOREBAY_SCRAPE_INTERVAL'): 1 is too small; give at least 5.",
        ),
        (
            ["--default-tenant", "Team A"],
            '--default-tenant "Team A" is not the name of a TenantQuota; use at most 40 lower case letters',
        ),
        (["--health-port", "70000"], "(env var: 'FOREBAY_HEALTH_PORT'): 70000 is too large; give at most 65535."),
    ],
)
def test_invalid_flags_are_refused_with_flag_value_and_remedy(
    arguments: list[str], message: str, started: list[OperatorOptions]
):
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert message in error_text(result)
    assert started == []


def test_flags_of_prometheus_arrive_too(started: list[OperatorOptions], tmp_path: Path):
    ca, token = tmp_path / "ca.crt", tmp_path / "token"
    ca.touch()
    token.touch()
    result = invoke(
        *("--metrics-source", "prometheus", "--prometheus-url", "https://prometheus:9090"),
        *("--prometheus-ca-file", str(ca), "--prometheus-token-file", str(token)),
        *("--prometheus-namespace-label", "ns", "--prometheus-pod-label", "pod_name"),
        *("--prometheus-selector", "cluster=eu=1"),
    )
    assert result.exit_code == 0, result.output
    prometheus = PrometheusOptions("https://prometheus:9090", ca, token, "ns", "pod_name", "cluster=eu=1")
    assert started[0].scrape == ScrapeOptions(source=MetricsSource.PROMETHEUS, prometheus=prometheus)
    assert prometheus.matchers == ('cluster="eu=1"',)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(("--prometheus-url", ""), "--prometheus-url is missing", id="no address"),
        pytest.param(("--prometheus-url", "prometheus:9090"), "--prometheus-url prometheus:9090 ", id="no scheme"),
        pytest.param(("--prometheus-url", "http://[::1"), "--prometheus-url http://[::1 is not a URL", id="no URL"),
        pytest.param(("--prometheus-url", "http://p/?a=b"), "--prometheus-url http://p/?a=b ", id="a query"),
        pytest.param(("--prometheus-url", "http://me:pw@p"), "use --prometheus-token-file", id="a password"),
        pytest.param(
            ("--prometheus-token-file", __file__),
            "--prometheus-token-file unencrypted; use https",
            id="a token in the clear",
        ),
        pytest.param(("--prometheus-ca-file", __file__), "--prometheus-ca-file; use https", id="a CA, and no TLS"),
        pytest.param(
            ("--prometheus-url", "https://p", "--prometheus-ca-file", "/none"),
            "--prometheus-ca-file /none is not a file",
            id="no CA",
        ),
        pytest.param(
            ("--prometheus-pod-label", "a-b"), '--prometheus-pod-label: "a-b" is not a label name', id="no label name"
        ),
        pytest.param(
            ("--prometheus-pod-label", "namespace"),
            "--prometheus-namespace-label and --prometheus-pod-label are both namespace",
            id="one label for both",
        ),
        pytest.param(("--prometheus-selector", "eu"), 'has no "="', id="a selector without a value"),
        pytest.param(
            ("--prometheus-selector", "a b=c"),
            '--prometheus-selector: "a b" is not a label name',
            id="a selector without a label",
        ),
        pytest.param(
            ("--metrics-source", "direct"), "--metrics-source is direct", id="a Prometheus flag for the direct source"
        ),
    ],
)
def test_invalid_prometheus_flags_are_refused(started: list[OperatorOptions], arguments, message):
    result = invoke("--metrics-source", "prometheus", "--prometheus-url", "http://p", *arguments)

    assert result.exit_code == 2
    assert message in error_text(result)
    assert "pw" not in error_text(result)
    assert started == []
