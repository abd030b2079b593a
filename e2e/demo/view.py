"""The live view of the demo; every number comes from the API server or from the clients' records."""

from __future__ import annotations

import sys
import time
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
BAR_EVERY_SECONDS = 8.0
SHOWN_BARS = 58
"""As many as a terminal of 80 columns holds beside their label: more than the whole demo takes."""
SHOWN_EVENTS = 6


def bars(values: Sequence[float]) -> str:
    """One bar a value, the largest one full."""
    top = max(values, default=0) or 1
    return "".join(BARS[round(value / top * (len(BARS) - 1))] for value in values)


@dataclass(slots=True)
class View:
    """A live panel on a terminal, one line every few seconds elsewhere."""

    title: str
    console: Console
    clock: Callable[[], float] = time.monotonic
    replicas: list[int] = field(default_factory=list)
    """Ready replicas, every `BAR_EVERY_SECONDS`."""
    rates: list[float] = field(default_factory=list)
    """Requests per second at the same times."""
    phase: str = ""
    _live: Live | None = None
    _last_line: float = float("-inf")
    _started: float = 0.0
    _told: set[str] = field(default_factory=set)

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
        self.console.print(Text(text, style="bold"), soft_wrap=True)

    def show(self, service: Object, events: Sequence[Object], clients: Figures) -> None:
        """Draw the newest state; `events` are the service's Kubernetes Events, oldest first."""
        status = service.get("status", {})
        if self.clock() - self._started >= len(self.replicas) * BAR_EVERY_SECONDS:
            self.replicas.append(status.get("replicas", {}).get("ready", 0))
            self.rates.append(clients.requests_per_second or 0.0)
        told = [f"{event.get('reason', '')}: {event.get('note') or event.get('message', '')}" for event in events]
        if self._live is not None:
            self._live.update(self._panel(status, told[-SHOWN_EVENTS:], clients))
            return
        for text in (text for text in told if text not in self._told):
            self.console.print(Text(f"         {text}"), soft_wrap=True)
        self._told.update(told)
        if self.clock() - self._last_line >= LINE_EVERY_SECONDS:
            self._last_line = self.clock()
            self.console.print(self._line(status, clients), soft_wrap=True)
        sys.stdout.flush()

    def _line(self, status: Object, clients: Figures) -> str:
        replicas = status.get("replicas", {})
        counts = [f"{replicas.get('ready', 0)} ready"]
        counts += [f"{replicas[state]} {state}" for state in ("loading", "draining") if replicas.get(state)]
        return " | ".join(
            (
                f"{self.clock() - self._started:4.0f} s  {self.phase:8}",
                f"{_rate(clients):14}",
                f"replicas {', '.join(counts):19}",
                f"queue {_or_dash(status.get('load', {}).get('queue')):>2}",
                f"TTFT p95 {_milliseconds(clients.time_to_first_token_p95):>7}",
                f"streams {clients.open} open {clients.whole} whole {clients.cut} cut",
            )
        )

    def _panel(self, status: Object, told: Sequence[str], clients: Figures) -> Panel:
        decision = status.get("decision") or {}
        reasons = Table.grid(padding=(0, 2))
        reasons.add_column(no_wrap=True)
        reasons.add_column()
        reasons.add_row("decision", Text(f"{decision.get('rule', '')}: {decision.get('because', '')}", style="bold"))
        for schedule in status.get("schedules", ()):
            reasons.add_row("schedule", Text(f"{schedule['name']} {schedule['state']}: {schedule['message']}"))
        body = Group(
            _counts(status, clients),
            "",
            self._history(),
            "",
            reasons,
            "",
            *(Text(text, style="dim", no_wrap=True, overflow="ellipsis") for text in told),
        )
        return Panel(body, title=self.title, subtitle=f"{self.clock() - self._started:.0f} s  {self.phase}")

    def _history(self) -> Table:
        table = Table.grid(padding=(0, 2))
        if any(self.rates):
            table.add_row("requests/s", Text(bars(self.rates[-SHOWN_BARS:]), style="green", no_wrap=True))
        table.add_row("ready replicas", Text(bars(self.replicas[-SHOWN_BARS:]), style="cyan", no_wrap=True))
        return table


def _counts(status: Object, clients: Figures) -> Table:
    replicas, load = status.get("replicas", {}), status.get("load", {})
    table = Table.grid(padding=(0, 2))
    table.add_row(
        "replicas",
        f"[bold]{replicas.get('ready', 0)}[/] ready",
        f"{replicas.get('loading', 0)} loading",
        f"{replicas.get('draining', 0)} draining",
        f"{replicas.get('desired', 0)} desired",
    )
    table.add_row("streams", _rate(clients), f"{clients.open} open", f"{clients.whole} whole", f"{clients.cut} cut")
    table.add_row(
        "engines",
        f"queue {_or_dash(load.get('queue'))}",
        f"KV {_or_dash(load.get('kvPercent'))} %",
        f"ITL p50 {_milliseconds(clients.inter_token_latency_p50)}",
        f"[bold]TTFT p95 {_milliseconds(clients.time_to_first_token_p95)}[/]",
    )
    return table


def _rate(clients: Figures) -> str:
    rate = clients.requests_per_second
    return f"{clients.sent} sent" if rate is None else f"{rate:.1f} requests/s"


def _milliseconds(seconds: float | None) -> str:
    return "–" if seconds is None else f"{seconds * 1000:.0f} ms"


def _or_dash(value: object) -> str:
    return "–" if value is None else str(value)
