"""`/healthz`, `/readyz` and `/metrics` of the operator.

kopf's own probe answers as long as its event loop turns, and a failing probe handler there is retried for a minute
while the request hangs; these answer at once and know whether planning goes on.
"""

from collections.abc import Callable
from dataclasses import dataclass

from aiohttp import web
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from forebay.controller.loop_health import Pulse


def health_app(pulse: Pulse, monotonic: Callable[[], float]) -> web.Application:
    """`/healthz`: 500 when planning has stopped; `/readyz`: 503 while the cluster is not in view."""

    async def healthz(_: web.Request) -> web.Response:
        now = monotonic()
        return web.Response(status=200 if pulse.is_alive(now) else 500, text=pulse.describe(now) + "\n")

    async def readyz(_: web.Request) -> web.Response:
        now = monotonic()
        return web.Response(status=200 if pulse.is_ready(now) else 503, text=pulse.describe(now) + "\n")

    app = web.Application()
    app.router.add_get("/healthz", healthz)
    app.router.add_get("/readyz", readyz)
    return app


def metrics_app(registry: CollectorRegistry) -> web.Application:
    async def metrics(_: web.Request) -> web.Response:
        return web.Response(body=generate_latest(registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

    app = web.Application()
    app.router.add_get("/metrics", metrics)
    return app


@dataclass(frozen=True, slots=True)
class Server:
    """A listening app; `port` is the real one, also where 0 asked for any free one."""

    runner: web.AppRunner
    port: int

    async def close(self) -> None:
        await self.runner.cleanup()


async def listen(app: web.Application, address: str | None, port: int) -> Server:
    """Raises OSError when the port is taken; `address` None means every interface."""
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        await web.TCPSite(runner, address, port, reuse_address=True).start()
    except OSError:
        await runner.cleanup()
        raise
    return Server(runner, runner.addresses[0][1])
