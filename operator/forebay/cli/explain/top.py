"""`forebay top`: one line per service, refreshed every few seconds."""

import asyncio
from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from forebay.api.inference_service import ScheduleState, ScheduleStatus
from forebay.api.learned_status import LearnedStatus
from forebay.cli.cluster_connection import cluster_reader
from forebay.cli.service_reading import ServiceReading, read_services
from forebay.cluster.client.kube_api import ApiError

READY = "Ready"
_BY_URGENCY = (
    ScheduleState.AT_RISK,
    ScheduleState.MISSED,
    ScheduleState.WARMING,
    ScheduleState.MET,
    ScheduleState.IDLE,
)
WIDTH_OF_A_PIPE = 240
"""Columns without a terminal: wide enough to keep a service on one line."""


def top(
    namespace: str | None, kubeconfig: Path | None, context: str | None, *, once: bool, interval_seconds: float
) -> int:
    """Show the table once, or until interrupted, and return the exit code."""
    try:
        asyncio.run(_show(namespace, kubeconfig, context, once=once, interval_seconds=interval_seconds))
    except KeyboardInterrupt:
        return 130
    return 0


async def _show(
    namespace: str | None, kubeconfig: Path | None, context: str | None, *, once: bool, interval_seconds: float
) -> None:
    console = Console()
    if not console.is_terminal:
        console = Console(width=WIDTH_OF_A_PIPE)
    async with cluster_reader(kubeconfig, context) as reader:
        services = await read_services(reader.api, namespace)
        if once:
            console.print(table(services))
            return
        with Live(table(services), console=console, auto_refresh=False, screen=False) as live:
            while True:
                await asyncio.sleep(interval_seconds)
                try:
                    services = await read_services(reader.api, namespace)
                    live.update(table(services), refresh=True)
                except ApiError as error:
                    live.update(table(services, note=f"The last read failed and is retried: {error}"), refresh=True)


def table(services: Iterable[ServiceReading], note: str = "") -> Table:
    """The table of services. An unknown number is shown as `?`: missing is not zero."""
    result = Table(box=None, pad_edge=False, caption=note or None, caption_justify="left")
    for title, justify in (("NAMESPACE", "left"), ("SERVICE", "left"), ("READY", "left")):
        result.add_column(title, justify=justify, no_wrap=True)  # type: ignore[arg-type]
    for title in ("WANTED", "SERVING", "LOADING", "DRAINING", "QUEUE", "KV%", "TPM", "LEAD"):
        result.add_column(title, justify="right", no_wrap=True)
    result.add_column("SCHEDULE", no_wrap=True)
    result.add_column("RULE", no_wrap=True)
    result.add_column("BECAUSE", overflow="fold")
    for service in services:
        result.add_row(*_row(service))
    return result


def _row(service: ServiceReading) -> list[str | Text]:
    status = service.status
    if status is None:
        return [service.namespace, service.name, "?", *["?"] * 7, "", "", "", "no operator has written a status yet"]
    ready = next((condition for condition in status.conditions if condition.type == READY), None)
    state = "?" if ready is None else ready.status if ready.status == "True" else ready.reason
    replicas, load, decision = status.replicas, status.load, status.decision
    return [
        service.namespace,
        service.name,
        Text(state, style="green" if state == "True" else "yellow"),
        str(replicas.desired),
        str(replicas.ready),
        str(replicas.loading),
        str(replicas.draining),
        _known(load.queue),
        _known(load.kv_percent),
        _known(None if status.capacity is None else status.capacity.tokens_per_minute),
        _lead(status.learned),
        _schedule(status.schedules),
        decision.rule if decision else "",
        decision.because if decision else (ready.message if ready else ""),
    ]


def _lead(learned: LearnedStatus | None) -> str:
    """The learned p95 of a start on a ready node; empty before any start was measured."""
    starts = None if learned is None or learned.lead_time is None else learned.lead_time.ready_node
    return f"{starts.p95_seconds}s" if starts is not None and starts.seconds else ""


def _schedule(schedules: Sequence[ScheduleStatus]) -> str:
    """The most urgent schedule with its state: one at risk first, an idle one last."""
    if not schedules:
        return ""
    first = min(schedules, key=lambda schedule: (_BY_URGENCY.index(schedule.state), schedule.name))
    return f"{first.name} {first.state.value}"


def _known(number: int | None) -> str:
    return "?" if number is None else str(number)
