"""The operator process: starts its parts, and stops them in an order that loses no write and no lease."""

import asyncio
import logging
import time
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from typing import Any

from forebay import __version__
from forebay.cluster.client.access import Access, AccessError
from forebay.cluster.client.kubernetes_client import connect
from forebay.cluster.client.server_clock import ServerClock
from forebay.controller.assembly import Operator, assemble
from forebay.controller.handlers import KOPF_LOG_LEVELS
from forebay.controller.loop_health import LoopHealth
from forebay.controller.operator_metrics import Metrics
from forebay.controller.options import OperatorOptions, PortOptions
from forebay.runtime.http_endpoints import health_app, listen, metrics_app
from forebay.runtime.log_format import configure
from forebay.runtime.shutdown import EXIT_BROKEN, Cause, Shutdown

log = logging.getLogger(__name__)

STOP_SECONDS = 6.0
"""How long a graceful stop waits for the running tick; releasing the lease may take 2.5 s more."""
EXIT_ACCESS = 1


class PortTakenError(Exception):
    """Another process listens on one of the operator's ports; the message names the flag."""


def run(options: OperatorOptions) -> int:
    """Run the operator until something asks it to end; returns the exit code."""
    configure(options.log_level, options.log_format, library_levels=KOPF_LOG_LEVELS)
    try:
        return asyncio.run(_serve(options))
    except (AccessError, PortTakenError) as error:
        log.error("%s", error)
        return EXIT_ACCESS


async def _serve(options: OperatorOptions) -> int:
    shutdown = Shutdown()
    shutdown.listen_to_signals()
    access = Access(str(options.kubeconfig) if options.kubeconfig else None, options.context)
    clock = ServerClock()
    health = LoopHealth(options.pace.health_limit_seconds, started_at=time.monotonic(), skew_seconds=clock.skew_seconds)
    metrics = Metrics(health, time.monotonic)
    metrics.show_clock(clock)
    async with AsyncExitStack() as stack:
        await _open_ports(stack, options.ports, health, metrics)
        api = await stack.enter_async_context(await connect(access, on_call=metrics.count_call, server_clock=clock))
        operator = await assemble(options, access, api, clock, health, metrics, shutdown)
        log.info("forebay %s started", __version__, extra={"dry_run": options.dry_run})
        cause = await _run_parts(operator, shutdown)
    log.info("stopped: %s", cause.reason, extra={"exit_code": cause.code})
    return cause.code


async def _open_ports(stack: AsyncExitStack, ports: PortOptions, health: LoopHealth, metrics: Metrics) -> None:
    """Serve the health endpoints and the metrics. Raises PortTakenError.

    kopf's own probe is not used: it answers as long as kopf's event loop runs, and it retries a failing probe handler
    for a minute while the request hangs.
    """
    for flag, port, app in (
        ("--health-port", ports.health, health_app(health, time.monotonic)),
        ("--metrics-port", ports.metrics, metrics_app(metrics.registry)),
    ):
        if not port:
            continue
        try:
            server = await listen(app, ports.address, port)
        except OSError as error:
            raise PortTakenError(f"{flag} {port} is not available: {error.strerror}; choose another port.") from error
        stack.push_async_callback(server.close)


async def _run_parts(operator: Operator, shutdown: Shutdown) -> Cause:
    """Start every part, wait for a cause to end, and stop them: the loop first, the lease after the last write."""

    def start(name: str, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work, name=name)
        task.add_done_callback(lambda done: _report(done, shutdown))
        return task

    observing = start("observer", operator.observer.run())
    scraping = start("scraper", operator.scrape())
    looping = start("loop", operator.loop.run())
    operator.service_watch.start()
    operator.leader.start()
    cause = await shutdown.decided()
    operator.service_watch.stop()
    if cause.graceful:
        operator.wake.stop()
        await asyncio.wait({looping}, timeout=STOP_SECONDS)
        await asyncio.to_thread(operator.leader.stop)
    looping.cancel()
    operator.signal_source.stop()
    await asyncio.wait({scraping}, timeout=1.0)
    for task in (scraping, observing):
        task.cancel()
    await asyncio.gather(looping, scraping, observing, return_exceptions=True)
    operator.service_watch.join(1.0)
    return cause


def _report(task: asyncio.Task[None], shutdown: Shutdown) -> None:
    """End the process when one of its parts has ended, since the others would look healthy without doing all the work.

    A part that was cancelled before the shutdown began has ended by itself too. After that, `shutdown` ignores causes.
    """
    error = None if task.cancelled() else task.exception()
    if error is not None:
        log.error("the %s failed", task.get_name(), exc_info=error)
    shutdown.end(EXIT_BROKEN, f"the {task.get_name()} ended")
