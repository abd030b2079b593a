import aiohttp
import pytest
from prometheus_client import CollectorRegistry, Counter

from forebay.cluster.client.kube_api import ApiError
from forebay.controller.loop_health import Pulse, waits_for
from forebay.runtime.http_endpoints import health_app, listen, metrics_app


def a_pulse() -> Pulse:
    return Pulse(limit_seconds=60.0, started_at=100.0)


async def ask(app, path: str) -> tuple[int, str]:
    server = await listen(app, "127.0.0.1", 0)
    try:
        async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{server.port}{path}") as answer:
            return answer.status, await answer.text()
    finally:
        await server.close()


@pytest.mark.parametrize(
    ("age", "status"),
    [
        pytest.param(60.0, 200, id="at the limit"),
        pytest.param(60.1, 500, id="past the limit"),
    ],
)
async def test_healthz_goes_by_the_age_of_the_last_good_tick(age: float, status: int):
    pulse = a_pulse()
    pulse.beat(110.0)
    answer = await ask(health_app(pulse, lambda: 110.0 + age), "/healthz")
    assert answer == (status, f"standing by; last good tick {age:.1f} s ago, limit 60 s\n")


async def test_healthz_gives_a_start_the_same_time_as_a_tick():
    assert (await ask(health_app(a_pulse(), lambda: 159.0), "/healthz"))[0] == 200
    assert await ask(health_app(a_pulse(), lambda: 161.0), "/healthz") == (
        500,
        "standing by; no good tick yet, 61.0 s old, limit 60 s\n",
    )


async def test_readyz_waits_for_the_first_good_tick_and_ends_with_the_view_of_the_cluster():
    pulse = a_pulse()
    assert (await ask(health_app(pulse, lambda: 101.0), "/readyz"))[0] == 503
    pulse.beat(102.0)
    pulse.miss(103.0, ApiError(0, "NoAnswer", "connection refused"))
    assert (await ask(health_app(pulse, lambda: 162.0), "/readyz"))[0] == 200
    assert (await ask(health_app(pulse, lambda: 163.0), "/readyz"))[0] == 503


def test_an_outage_that_is_still_answered_by_attempts_is_not_our_illness():
    pulse = a_pulse()
    for second in range(110, 400, 30):
        pulse.miss(float(second), ApiError(503, "ServiceUnavailable", "shutting down"))
        assert pulse.is_alive(second + 29.0)
    assert not pulse.is_alive(380.0 + 61.0)


def test_a_tick_with_thousands_of_writes_is_alive_while_it_makes_them():
    pulse = a_pulse()
    for second in range(110, 400, 50):
        pulse.wrote(float(second))
        assert pulse.is_alive(second + 60.0)
    assert not pulse.is_alive(360.0 + 61.0)


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (ApiError(0, "NoAnswer", ""), "no view of the cluster"),
        (ApiError(429, "TooManyRequests", ""), "no view of the cluster"),
        (ApiError(500, "InternalError", ""), "no view of the cluster"),
        (
            ApiError(404, "NotFound", ""),
            "the cluster does not serve InferenceServices; apply the CRDs, which `forebay crds` prints",
        ),
        (
            ApiError(403, "Forbidden", ""),
            "the operator's service account lacks a right; the chart's roles grant all of them",
        ),
        (ApiError(400, "BadRequest", ""), None),
        (ValueError("a bug"), None),
    ],
)
def test_what_is_waited_for_and_what_is_our_own_fault(error: Exception, sentence: str | None):
    assert waits_for(error) == sentence


async def test_metrics_are_served_as_prometheus_text():
    registry = CollectorRegistry()
    Counter("forebay_x", "An x.", registry=registry).inc(2)
    status, text = await ask(metrics_app(registry), "/metrics")
    assert status == 200
    assert "forebay_x_total 2.0\n" in text


async def test_a_port_that_is_taken_is_an_error_at_the_start():
    first = await listen(health_app(a_pulse(), lambda: 100.0), "127.0.0.1", 0)
    try:
        with pytest.raises(OSError, match="address already in use"):
            await listen(health_app(a_pulse(), lambda: 100.0), "127.0.0.1", first.port)
    finally:
        await first.close()
