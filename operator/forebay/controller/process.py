"""The operator process: what it is made of, how its parts start, and in which order they end."""

import asyncio
import logging
import time
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from typing import Any

from forebay import __version__
from forebay.cluster.client.access import Access, AccessError
from forebay.cluster.client.kubernetes_client import connect
from forebay.controller.assembly import Operator, assemble
from forebay.controller.loop_health import Pulse
from forebay.controller.operator_metrics import Metrics
from forebay.controller.options import OperatorOptions, PortOptions
from forebay.runtime.http_endpoints import health_app, listen, metrics_app
from forebay.runtime.log_format import configure
from forebay.runtime.shutdown import EXIT_ACCESS, EXIT_BROKEN, STOP_SECONDS, Cause, Shutdown

log = logging.getLogger(__name__)


class PortTakenError(Exception):
    """A port of ours is somebody else's; the message names the flag."""


def run(options: OperatorOptions) -> int:
    """Run the operator until it is told to stop or must; the exit code."""
    configure(options.log_level, options.log_format)
    try:
        return asyncio.run(_serve(options))
    except (AccessError, PortTakenError) as error:
        log.error("%s", error)
        return EXIT_ACCESS


async def _serve(options: OperatorOptions) -> int:
    ending = Shutdown()
    ending.listen_to_signals()
    access = Access(str(options.kubeconfig) if options.kubeconfig else None, options.context)
    pulse = Pulse(options.pace.health_limit_seconds, started_at=time.monotonic())
    metrics = Metrics(pulse, time.monotonic)
    async with AsyncExitStack() as stack:
        await _open_ports(stack, options.ports, pulse, metrics)
        api = await stack.enter_async_context(await connect(access, on_call=metrics.count_call))
        operator = await assemble(options, access, api, pulse, metrics, ending)
        log.info("forebay %s started", __version__, extra={"dry_run": options.dry_run})
        cause = await _run_parts(operator, ending)
    log.info("stopped: %s", cause.reason, extra={"exit_code": cause.code})
    return cause.code


async def _open_ports(stack: AsyncExitStack, ports: PortOptions, pulse: Pulse, metrics: Metrics) -> None:
    """Raises PortTakenError."""
    for flag, port, app in (
        ("--health-port", ports.health, health_app(pulse, time.monotonic)),
        ("--metrics-port", ports.metrics, metrics_app(metrics.registry)),
    ):
        if not port:
            continue
        try:
            server = await listen(app, ports.address, port)
        except OSError as error:
            raise PortTakenError(f"{flag} {port} cannot be listened on: {error.strerror}; choose another.") from error
        stack.push_async_callback(server.close)


async def _run_parts(operator: Operator, ending: Shutdown) -> Cause:
    """Start every part, wait for a cause to end, and end them: the loop first, the lease after its last write."""

    def start(name: str, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work, name=name)
        task.add_done_callback(lambda done: _report(done, ending))
        return task

    observing = start("observer", operator.observer.run())
    scraping = start("scraper", operator.scrape())
    looping = start("loop", operator.loop.run())
    operator.service_watch.start()
    operator.leader.start()
    cause = await ending.decided()
    operator.service_watch.stop()
    if cause.graceful:
        operator.wake.stop()
        await asyncio.wait({looping}, timeout=STOP_SECONDS)
        await asyncio.to_thread(operator.leader.stop)
    looping.cancel()
    operator.scraper.stop()
    await asyncio.wait({scraping}, timeout=1.0)
    for task in (scraping, observing):
        task.cancel()
    await asyncio.gather(looping, scraping, observing, return_exceptions=True)
    operator.service_watch.join(1.0)
    return cause


def _report(task: asyncio.Task[None], ending: Shutdown) -> None:
    """No part may end by itself: what is left would look alive and do half the work.

    A part that is cancelled before the end was decided has ended by itself, too; afterwards `ending` takes no cause.
    """
    error = None if task.cancelled() else task.exception()
    if error is not None:
        log.error("the %s broke", task.get_name(), exc_info=error)
    ending.end(EXIT_BROKEN, f"the {task.get_name()} ended")
