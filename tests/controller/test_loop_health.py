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
async def test_healthz_goes_by_the_age_of_the_last_good_tick(age: float, status: int):
    health = a_loop_health()
    health.tick_succeeded(110.0)
    answer = await ask(health_app(health, lambda: 110.0 + age), "/healthz")
    assert answer == (status, f"standing by; last good tick {age:.1f} s ago, limit 60 s\n")


async def test_healthz_gives_a_start_the_same_time_as_a_tick():
    assert (await ask(health_app(a_loop_health(), lambda: 159.0), "/healthz"))[0] == 200
    assert await ask(health_app(a_loop_health(), lambda: 161.0), "/healthz") == (
        500,
        "standing by; no good tick yet, 61.0 s old, limit 60 s\n",
    )


async def test_readyz_waits_for_the_first_good_tick_and_ends_with_the_view_of_the_cluster():
    health = a_loop_health()
    assert (await ask(health_app(health, lambda: 101.0), "/readyz"))[0] == 503
    health.tick_succeeded(102.0)
    health.tick_failed(103.0, ApiError(0, "NoAnswer", "connection refused"))
    assert (await ask(health_app(health, lambda: 162.0), "/readyz"))[0] == 200
    assert (await ask(health_app(health, lambda: 163.0), "/readyz"))[0] == 503


def test_an_outage_that_is_still_answered_by_attempts_is_not_our_illness():
    health = a_loop_health()
    for second in range(110, 400, 30):
        health.tick_failed(float(second), ApiError(503, "ServiceUnavailable", "shutting down"))
        assert health.is_alive(second + 29.0)
    assert not health.is_alive(380.0 + 61.0)


def test_a_tick_with_thousands_of_writes_is_alive_while_it_makes_them():
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
def test_what_is_waited_for_and_what_is_our_own_fault(error: Exception, sentence: str | None):
    assert external_cause(error) == sentence
