"""The demo's results in numbers, and whether its promises were kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from e2e.demo.load import Figures
from e2e.demo.view import bars
from e2e.harness.kubectl import Object

SHOWN_FAULTS = 5
DECISIONS = ("Scaled", "Schedule")
"""Reasons of the Events that the summary repeats begin so; warnings are always among them."""
WINDOW_FIRST_TOKEN_SECONDS = 2.0
"""Within this time 95 of 100 first tokens must come while the window is open: the manifest's own SLO."""
FIRST_TOKEN_SECONDS = 5.0
"""The same for all requests of the demo."""


@dataclass(frozen=True, slots=True)
class Outcome:
    clients: Figures
    in_window: Figures
    """The requests that were sent while the window was open."""
    faults: Sequence[str]
    window: Object
    """Last status of the schedule with its window."""
    before_window: int
    """Most replicas Ready at once before the window was scheduled."""
    peak_ready: int
    """Most replicas Ready at once during the window."""
    lowest_under_load: int
    """Fewest replicas Ready during the low traffic."""
    replicas: Sequence[int]
    """Ready replicas, at even times from the first request to the end."""
    rates: Sequence[float]
    """Requests per second at the same times."""
    final: Object
    events: Sequence[Object]

    @property
    def least(self) -> int:
        return int(self.final["spec"]["scaling"]["minReplicas"])

    @property
    def ready(self) -> int:
        return int(self.final["status"]["replicas"]["ready"])

    @property
    def scaled_up(self) -> bool:
        """Load alone added replicas, before any schedule asked for them."""
        return self.before_window > self.least

    @property
    def scaled_down(self) -> bool:
        return self.ready < self.peak_ready

    @property
    def none_cut(self) -> bool:
        """A stream that is still open at the end counts as incomplete."""
        return self.clients.whole == self.clients.sent > 0

    @property
    def warm_at_its_start(self) -> bool:
        return self.window.get("state") == "Met"

    @property
    def warm_for_seconds(self) -> float | None:
        """How long before the start the last replica of the window served; None while it does not serve."""
        if not self.window.get("readyAt"):
            return None
        start, ready_at = (datetime.fromisoformat(self.window[name]) for name in ("start", "readyAt"))
        return (start - ready_at).total_seconds()

    @property
    def first_tokens_in_time(self) -> bool | None:
        """None where the clients measure no first tokens."""
        window, all_over = self.in_window.time_to_first_token_p95, self.clients.time_to_first_token_p95
        if window is None or all_over is None:
            return None
        return window <= WINDOW_FIRST_TOKEN_SECONDS and all_over <= FIRST_TOKEN_SECONDS

    @property
    def promises(self) -> dict[str, bool]:
        """What the demo has to show, and whether it did."""
        kept = {
            "replicas were added under load, before any schedule asked for them": self.scaled_up,
            "the window's replicas served when it opened": self.warm_at_its_start,
            "replicas were taken away again": self.scaled_down,
            "no stream was cut": self.none_cut,
        }
        if self.first_tokens_in_time is not None:
            limits = f"{WINDOW_FIRST_TOKEN_SECONDS:g} s in the window and {FIRST_TOKEN_SECONDS:g} s over all"
            kept[f"TTFT p95 stayed within {limits}"] = self.first_tokens_in_time
        return kept

    @property
    def kept_its_promises(self) -> bool:
        return all(self.promises.values())


def print_summary(outcome: Outcome, console: Console) -> None:
    console.print(_table(outcome))
    console.print("\n[bold]What the operator decided[/] (kubectl get events)")
    for event in outcome.events:
        if event.get("type") == "Warning" or str(event.get("reason")).startswith(DECISIONS):
            told = Text.assemble((f"{event['reason']}: ", "bold"), event.get("note") or event.get("message", ""))
            console.print(Padding(told, (0, 0, 0, 2)))
    console.print()
    for fault in outcome.faults[:SHOWN_FAULTS]:
        console.print(f"[red]cut:[/] {fault}")
    for promise, kept in outcome.promises.items():
        console.print(f"[{'green' if kept else 'red'}]{'yes' if kept else 'NO '}[/]  {promise}")


def _table(outcome: Outcome) -> Table:
    clients = outcome.clients
    table = Table(title="What was seen", title_justify="left", show_header=False)
    if any(outcome.rates):
        table.add_row("requests a second", f"[green]{bars(outcome.rates)}[/]  up to {max(outcome.rates):.1f}")
    counts = f"{outcome.least} → {outcome.before_window} by load → {outcome.peak_ready} → {outcome.ready}"
    table.add_row("replicas ready", f"[cyan]{bars(outcome.replicas)}[/]  {counts}")
    if (early := outcome.warm_for_seconds) is not None:
        when = f"{early:.0f} s before" if early >= 0 else f"{-early:.0f} s after"
        table.add_row("scheduled window", f"{outcome.window['replicas']} replicas, serving {when} its start")
    table.add_row("replicas drained", f"while requests still came, down to {outcome.lowest_under_load}")
    table.add_row("streams", f"{clients.sent} sent, {clients.whole} whole, {clients.cut} cut, {clients.open} open")
    if clients.tokens is not None:
        table.add_row("tokens", f"{clients.tokens} received and counted")
    for name, part in (("TTFT in the window", outcome.in_window), ("TTFT over all", clients)):
        if part.time_to_first_token_p50 is not None and part.time_to_first_token_p95 is not None:
            table.add_row(name, f"p50 {part.time_to_first_token_p50:.2f} s, p95 {part.time_to_first_token_p95:.2f} s")
    if clients.inter_token_latency_p50 is not None:
        table.add_row("ITL, mean of a stream", f"p50 {clients.inter_token_latency_p50 * 1000:.0f} ms")
    return table
