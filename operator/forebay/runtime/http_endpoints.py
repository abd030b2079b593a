"""The HTTP endpoints of a process: `/healthz` and `/readyz` on one port, `/metrics` on another.

They answer at once, and they report whether the process still does its work rather than whether it still runs.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from aiohttp import web
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector


class Health(Protocol):
    """The health of a process; `now` is monotonic seconds."""

    def is_alive(self, now: float) -> bool:
        """False makes the kubelet restart the process."""
        ...

    def is_ready(self, now: float) -> bool: ...

    def describe(self, now: float) -> str:
        """One sentence for the body of the response."""
        ...


def health_app(health: Health, monotonic: Callable[[], float]) -> web.Application:
    """`/healthz` answers 500 when the process is not alive, `/readyz` answers 503 when it is not ready."""

    async def healthz(_: web.Request) -> web.Response:
        now = monotonic()
        return web.Response(status=200 if health.is_alive(now) else 500, text=health.describe(now) + "\n")

    async def readyz(_: web.Request) -> web.Response:
        now = monotonic()
        return web.Response(status=200 if health.is_ready(now) else 503, text=health.describe(now) + "\n")

    app = web.Application()
    app.router.add_get("/healthz", healthz)
    app.router.add_get("/readyz", readyz)
    return app


def metrics_app(registry: CollectorRegistry) -> web.Application:
    """`/metrics` in the Prometheus text format; `/metrics?name[]=…` has only the series of these names."""

    async def metrics(request: web.Request) -> web.Response:
        names = request.query.getall("name[]", [])
        chosen: Collector = registry.restricted_registry(names) if names else registry
        return web.Response(body=generate_latest(chosen), headers={"Content-Type": CONTENT_TYPE_LATEST})

    app = web.Application()
    app.router.add_get("/metrics", metrics)
    return app


@dataclass(frozen=True, slots=True)
class Server:
    """A listening app."""

    runner: web.AppRunner
    port: int
    """The port in use, also when 0 asked for any free one."""

    async def close(self) -> None:
        await self.runner.cleanup()


async def listen(app: web.Application, address: str | None, port: int) -> Server:
    """Serve the app; `address` None listens on every interface. Raises OSError when the port is taken."""
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        await web.TCPSite(runner, address, port, reuse_address=True).start()
    except OSError:
        await runner.cleanup()
        raise
    return Server(runner, runner.addresses[0][1])
