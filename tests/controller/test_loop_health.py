import aiohttp
import pytest
from aiohttp import web

from forebay.cluster.client.kube_api import ApiError
from forebay.controller.loop_health import LoopHealth, external_cause
from forebay.runtime.http_endpoints import health_app, listen


def a_loop_health() -> LoopHealth:
    return LoopHealth(limit_seconds=60.0, started_at=100.0)


async def ask(app: web.Application, path: str) -> tuple[int, str]:
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
async def test_healthz_depends_on_the_age_of_the_last_successful_tick(age: float, status: int):
    health = a_loop_health()
    health.tick_succeeded(110.0)
    answer = await ask(health_app(health, lambda: 110.0 + age), "/healthz")
    assert answer == (status, f"standing by; last good tick {age:.1f} s ago, limit 60 s\n")


async def test_healthz_allows_the_first_tick_the_same_time():
    assert (await ask(health_app(a_loop_health(), lambda: 159.0), "/healthz"))[0] == 200
    assert await ask(health_app(a_loop_health(), lambda: 161.0), "/healthz") == (
        500,
        "standing by; no good tick yet, 61.0 s old, limit 60 s\n",
    )


async def test_readyz_needs_a_recent_successful_tick():
    health = a_loop_health()
    assert (await ask(health_app(health, lambda: 101.0), "/readyz"))[0] == 503
    health.tick_succeeded(102.0)
    health.tick_failed(103.0, ApiError(0, "NoAnswer", "connection refused"))
    assert (await ask(health_app(health, lambda: 162.0), "/readyz"))[0] == 200
    assert (await ask(health_app(health, lambda: 163.0), "/readyz"))[0] == 503


def test_an_outage_of_the_api_server_keeps_the_process_alive():
    health = a_loop_health()
    for second in range(110, 400, 30):
        health.tick_failed(float(second), ApiError(503, "ServiceUnavailable", "shutting down"))
        assert health.is_alive(second + 29.0)
    assert not health.is_alive(380.0 + 61.0)


def test_a_tick_with_thousands_of_writes_counts_as_alive():
    health = a_loop_health()
    for second in range(110, 400, 50):
        health.write_answered(float(second))
        assert health.is_alive(second + 60.0)
    assert not health.is_alive(360.0 + 61.0)


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (ApiError(0, "NoAnswer", ""), "the cluster cannot be read"),
        (ApiError(429, "TooManyRequests", ""), "the cluster cannot be read"),
        (ApiError(500, "InternalError", ""), "the cluster cannot be read"),
        (
            ApiError(404, "NotFound", ""),
            "the cluster does not serve InferenceServices; apply the CRDs, which `forebay crds` prints",
        ),
        (
            ApiError(403, "Forbidden", ""),
            "the operator's service account lacks a permission; the chart's roles grant all of them",
        ),
        (ApiError(400, "BadRequest", ""), None),
        (ValueError("a bug"), None),
    ],
)
def test_external_causes_by_error(error: Exception, sentence: str | None):
    assert external_cause(error) == sentence


@pytest.mark.parametrize(
    ("skew_seconds", "said"),
    [
        (3600.0, "the operator's clock is 3600 s ahead of the API server's"),
        (-3600.0, "the operator's clock is 3600 s behind the API server's"),
        (1.0, ""),
        (None, ""),
    ],
)
def test_a_skewed_clock_is_said_and_makes_nothing_unhealthy(skew_seconds: float | None, said: str):
    health = LoopHealth(limit_seconds=60.0, started_at=100.0, skew_seconds=lambda: skew_seconds)
    health.tick_succeeded(110.0)
    assert health.is_alive(120.0)
    assert health.is_ready(120.0)
    assert ("clock" in health.describe(120.0)) == bool(said)
    assert said in health.describe(120.0)
