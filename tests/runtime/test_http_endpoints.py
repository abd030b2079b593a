from dataclasses import dataclass

import aiohttp
import pytest
from aiohttp import web
from prometheus_client import CollectorRegistry, Counter

from forebay.runtime.http_endpoints import health_app, listen, metrics_app


@dataclass
class GivenHealth:
    alive: bool = True
    ready: bool = True

    def is_alive(self, now: float) -> bool:
        return self.alive

    def is_ready(self, now: float) -> bool:
        return self.ready

    def describe(self, now: float) -> str:
        return f"{now:g} s old"


async def ask(app: web.Application, path: str) -> tuple[int, str]:
    server = await listen(app, "127.0.0.1", 0)
    try:
        async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{server.port}{path}") as answer:
            return answer.status, await answer.text()
    finally:
        await server.close()


@pytest.mark.parametrize(
    ("health", "healthz", "readyz"),
    [
        pytest.param(GivenHealth(), 200, 200, id="alive and ready"),
        pytest.param(GivenHealth(ready=False), 200, 503, id="alive, not ready"),
        pytest.param(GivenHealth(alive=False, ready=False), 500, 503, id="dead"),
    ],
)
async def test_each_health_endpoint_has_its_own_status(health: GivenHealth, healthz: int, readyz: int):
    assert await ask(health_app(health, lambda: 7.0), "/healthz") == (healthz, "7 s old\n")
    assert await ask(health_app(health, lambda: 7.0), "/readyz") == (readyz, "7 s old\n")


async def test_metrics_are_served_as_prometheus_text():
    registry = CollectorRegistry()
    Counter("forebay_x", "An x.", registry=registry).inc(2)
    status, text = await ask(metrics_app(registry), "/metrics")
    assert status == 200
    assert "forebay_x_total 2.0\n" in text


async def test_metrics_can_be_asked_by_name():
    registry = CollectorRegistry()
    Counter("forebay_x", "An x.", registry=registry).inc(2)
    Counter("forebay_y", "A y.", ("name",), registry=registry).labels("a").inc(3)
    _, text = await ask(metrics_app(registry), "/metrics?name[]=forebay_y_total")
    assert "forebay_x" not in text
    assert 'forebay_y_total{name="a"} 3.0\n' in text


async def test_a_port_in_use_is_an_error_at_the_start():
    first = await listen(health_app(GivenHealth(), lambda: 100.0), "127.0.0.1", 0)
    try:
        with pytest.raises(OSError, match="address already in use"):
            await listen(health_app(GivenHealth(), lambda: 100.0), "127.0.0.1", first.port)
    finally:
        await first.close()
