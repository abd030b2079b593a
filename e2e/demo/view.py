"""The live view of the demo; every number comes from the API server or from the clients' records."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from e2e.demo.load import Figures
from e2e.harness.kubectl import Object

BARS = " ▁▂▃▄▅▆▇█"
LINE_EVERY_SECONDS = 5.0
SHOWN_EVENTS = 8


@dataclass(slots=True)
class View:
    """A live panel on a terminal, one line every few seconds elsewhere."""

    title: str
    console: Console
    clock: Callable[[], float] = time.monotonic
    replicas: deque[int] = field(default_factory=lambda: deque(maxlen=90))
    phase: str = ""
    _live: Live | None = None
    _last_line: float = float("-inf")
    _started: float = 0.0
    _told: set[str] = field(default_factory=set)
    """Events that have been printed."""

    def __enter__(self) -> View:
        self._started = self.clock()
        if self.console.is_terminal:
            self._live = Live(console=self.console, refresh_per_second=4)
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def say(self, text: str) -> None:
        """A line of its own, above the panel."""
        self.console.print(text, style="bold", soft_wrap=True)

    def show(self, service: Object, events: Sequence[Object], clients: Figures | None) -> None:
        """Draw the newest state; `events` are the service's Kubernetes Events, oldest first."""
        status = service.get("status", {})
        self.replicas.append(status.get("replicas", {}).get("ready", 0))
        told = [f"{event.get('reason', '')}: {event.get('note') or event.get('message', '')}" for event in events]
        if self._live is not None:
            self._live.update(self._panel(status, told[-SHOWN_EVENTS:], clients))
            return
        for text in (text for text in told if text not in self._told):
            self.console.print(f"         {text}", style="dim", soft_wrap=True)
        self._told.update(told)
        if self.clock() - self._last_line >= LINE_EVERY_SECONDS:
            self._last_line = self.clock()
            self.console.print(self._line(status, clients), soft_wrap=True)
        sys.stdout.flush()

    def _line(self, status: Object, clients: Figures | None) -> str:
        replicas, load = status.get("replicas", {}), status.get("load", {})
        parts = [
            f"{self.clock() - self._started:4.0f} s  {self.phase:8}",
            (
                f"replicas {replicas.get('ready', 0)} ready {replicas.get('loading', 0)} loading "
                f"{replicas.get('draining', 0)} draining"
            ),
            f"queue {_or_dash(load.get('queue'))}, KV {_or_dash(load.get('kvPercent'))} %",
        ]
        if clients:
            parts += [
                f"{_rate(clients)}, TTFT p95 {_milliseconds(clients.time_to_first_token_p95)}",
                f"streams {clients.open} open {clients.whole} whole {clients.cut} cut",
            ]
        return " | ".join(parts)

    def _panel(self, status: Object, told: Sequence[str], clients: Figures | None) -> Panel:
        top = max(self.replicas, default=0) or 1
        line = "".join(BARS[round(count / top * (len(BARS) - 1))] for count in self.replicas)
        decision = status.get("decision") or {}
        schedules = (f"{one['name']}: {one['state']}, {one['message']}" for one in status.get("schedules", ()))
        body = Group(
            _grid(status, clients),
            Text(f"ready replicas  {line}", style="cyan", no_wrap=True),
            Text(f"decision  {decision.get('rule', '')}: {decision.get('because', '')}", style="bold"),
            *(Text(f"schedule  {text}") for text in schedules),
            *(Text(f"  {text}", style="dim", no_wrap=True, overflow="ellipsis") for text in told),
        )
        return Panel(body, title=self.title, subtitle=f"{self.clock() - self._started:.0f} s  {self.phase}")


def _grid(status: Object, clients: Figures | None) -> Table:
    replicas, load = status.get("replicas", {}), status.get("load", {})
    table = Table.grid(padding=(0, 2))
    table.add_row(
        "replicas",
        f"[bold]{replicas.get('ready', 0)}[/] ready",
        f"{replicas.get('loading', 0)} loading",
        f"{replicas.get('draining', 0)} draining",
        f"{replicas.get('desired', 0)} desired",
    )
    table.add_row("engines", f"queue {_or_dash(load.get('queue'))}", f"KV {_or_dash(load.get('kvPercent'))} %")
    if clients:
        table.add_row(
            "streams",
            f"{clients.open} open",
            f"{clients.whole} whole",
            f"{clients.cut} cut",
            _rate(clients),
        )
        table.add_row(
            "latency",
            f"TTFT p95 {_milliseconds(clients.time_to_first_token_p95)}",
            f"ITL p50 {_milliseconds(clients.inter_token_latency_p50)}",
        )
    return table


def _rate(clients: Figures) -> str:
    rate = clients.requests_per_second
    return f"{clients.sent} sent" if rate is None else f"{rate:.1f} requests/s"


def _milliseconds(seconds: float | None) -> str:
    return "–" if seconds is None else f"{seconds * 1000:.0f} ms"


def _or_dash(value: object) -> str:
    return "–" if value is None else str(value)
