import pytest
from prometheus_client import generate_latest

from forebay import __version__
from forebay.cluster.client.kubernetes_client import Call
from forebay.cluster.client.server_clock import ServerClock
from forebay.controller.loop_health import LoopHealth
from forebay.controller.operator_metrics import Metrics
from forebay.telemetry.scrape_failure import ScrapeFailure
from forebay.telemetry.scrape_statistics import ScrapeTally
from forebay.world.plan import Plan, ServicePlan
from forebay.world.world import ServiceKey
from tests.controller.tick_steps import a_service_plan


def a_page(metrics: Metrics) -> str:
    return generate_latest(metrics.registry).decode()


def some_metrics(now: float = 130.0, *, leading: bool = False) -> Metrics:
    health = LoopHealth(limit_seconds=60.0, started_at=100.0, leading=leading)
    health.tick_succeeded(120.0)
    return Metrics(health, lambda: now)


def test_replicas_are_shown_per_service():
    metrics = some_metrics()
    metrics.show_plan(Plan(services=(a_service_plan("chat", desired=3, ready=2),)))
    page = a_page(metrics)
    assert 'forebay_desired_replicas{namespace="team-a",service="chat"} 3.0' in page
    assert 'forebay_ready_replicas{namespace="team-a",service="chat"} 2.0' in page


def test_only_the_series_of_a_deleted_service_are_removed():
    metrics = some_metrics()
    metrics.show_plan(Plan(services=(a_service_plan("chat"), a_service_plan("code"))))
    metrics.show_scrape_ages({ServiceKey("team-a", "chat"): 2.0, ServiceKey("team-a", "code"): 3.0})
    metrics.show_plan(Plan(services=(a_service_plan("code"),)))
    metrics.show_scrape_ages({ServiceKey("team-a", "chat"): 2.0})
    page = a_page(metrics)
    assert 'service="chat"' not in page
    assert 'forebay_scrape_age_seconds{namespace="team-a",service="code"} 3.0' in page


def shown_variants(metrics: Metrics) -> dict[str, str]:
    """The values of the series, by their labels."""
    lines = [line for line in a_page(metrics).splitlines() if line.startswith("forebay_variant_ready_replicas{")]
    series = (line.partition("{")[2].rpartition("} ") for line in lines)
    return {labels: value for labels, _, value in series}


def test_replicas_of_each_variant_are_shown_for_services_that_have_variants():
    metrics = some_metrics()
    metrics.show_plan(
        Plan(services=(a_service_plan("chat", variants={"base": 1, "small": 2}), a_service_plan("code", ready=3)))
    )
    assert shown_variants(metrics) == {
        'namespace="team-a",service="chat",variant="base"': "1.0",
        'namespace="team-a",service="chat",variant="small"': "2.0",
    }


@pytest.mark.parametrize(
    ("after", "left"),
    [
        pytest.param(
            (a_service_plan("chat", variants={"base": 3}),), ["base"], id="a variant that was taken out of the spec"
        ),
        pytest.param((a_service_plan("chat"),), [], id="all variants"),
        pytest.param((), [], id="the service"),
    ],
)
def test_the_series_of_a_removed_variant_is_removed(after: tuple[ServicePlan, ...], left: list[str]):
    metrics = some_metrics()
    metrics.show_plan(Plan(services=(a_service_plan("chat", variants={"base": 1, "small": 2}),)))
    metrics.show_plan(Plan(services=after))
    assert [labels.rpartition("=")[2].strip('"') for labels in shown_variants(metrics)] == left


def test_a_held_plan_keeps_the_series_of_variants():
    metrics = some_metrics()
    metrics.show_plan(Plan(services=(a_service_plan("chat", variants={"base": 1, "small": 2}),)))
    before = shown_variants(metrics)
    metrics.show_plan(Plan(services=(), held="no services where there were 200"))
    assert shown_variants(metrics) == before != {}


def test_a_held_plan_keeps_the_last_values():
    metrics = some_metrics()
    metrics.show_plan(Plan(services=(a_service_plan("chat", ready=2),)))
    metrics.show_plan(Plan(services=(), held="no services where there were 200"))
    page = a_page(metrics)
    assert 'forebay_ready_replicas{namespace="team-a",service="chat"} 2.0' in page
    assert "forebay_held 1.0" in page


def test_the_tick_age_grows_while_the_loop_hangs():
    assert "forebay_tick_age_seconds 10.0" in a_page(some_metrics(now=130.0))
    assert "forebay_tick_age_seconds 100.0" in a_page(some_metrics(now=220.0))


def test_leader_and_version_are_shown():
    page = a_page(some_metrics(leading=True))
    assert "forebay_leader 1.0" in page
    assert f'forebay_build_info{{version="{__version__}"}} 1.0' in page


def test_cache_ages_and_scrape_counts_are_read_at_each_scrape():
    metrics = some_metrics()
    tally = ScrapeTally(interval_seconds=5.0)
    metrics.show_sources(lambda: {"pods": 12.0}, tally.snapshot)
    tally.scraped(0.1, None)
    tally.scraped(3.0, ScrapeFailure.TIMEOUT)
    page = a_page(metrics)
    assert 'forebay_cache_age_seconds{resource="pods"} 12.0' in page
    assert "forebay_scrapes_total 2.0" in page
    assert f'forebay_scrape_failures_total{{reason="{ScrapeFailure.TIMEOUT.value}"}} 1.0' in page


@pytest.mark.parametrize(
    ("call", "alive"),
    [
        pytest.param(Call("create", "pods", 201, 0.1), True, id="a write that was answered"),
        pytest.param(Call("create", "pods", 0, 30.0), False, id="a write without an answer"),
        pytest.param(Call("list", "inferenceservices", 200, 0.1), False, id="a look"),
    ],
)
def test_calls_are_counted_and_answered_writes_update_the_health(call: Call, alive: bool):
    health = LoopHealth(limit_seconds=60.0, started_at=100.0)
    metrics = Metrics(health, lambda: 200.0)
    metrics.count_call(call)
    labels = {"verb": call.verb, "resource": call.resource, "code": str(call.status)}
    assert metrics.registry.get_sample_value("forebay_api_requests_total", labels) == 1.0
    assert health.is_alive(200.0) is alive


def test_the_skew_of_the_clock_is_shown_once_the_server_has_answered():
    clock = ServerClock(monotonic=lambda: 50.0, wall=lambda: 1_750_003_600.5)
    metrics = some_metrics()
    metrics.show_clock(clock)
    assert "\nforebay_clock_skew_seconds " not in a_page(metrics)
    clock.answered("Sun, 15 Jun 2025 15:06:40 GMT", 50.0, 50.0)
    assert "\nforebay_clock_skew_seconds 3600.0\n" in a_page(metrics)
    assert "\nforebay_clock_steps_total 0.0\n" in a_page(metrics)
