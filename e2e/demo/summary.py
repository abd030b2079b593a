"""The demo's results in numbers, and whether its promises were kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from e2e.demo.load import Figures
from e2e.harness.kubectl import Object

SHOWN_FAULTS = 5


@dataclass(frozen=True, slots=True)
class Outcome:
    clients: Figures
    faults: Sequence[str]
    peak_ready: int
    """Most replicas Ready at once during the peak."""
    lowest_under_load: int
    """Fewest replicas Ready during the low traffic."""
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
        return self.peak_ready > self.least

    @property
    def scaled_down(self) -> bool:
        return self.ready < self.peak_ready

    @property
    def none_cut(self) -> bool:
        """A stream that is still open at the end counts as incomplete."""
        return self.clients.whole == self.clients.sent > 0

    @property
    def kept_its_promises(self) -> bool:
        return self.scaled_up and self.scaled_down and self.none_cut


def print_summary(outcome: Outcome, console: Console) -> None:
    clients = outcome.clients
    table = Table(title="What was seen", title_justify="left", show_header=False)
    table.add_row("replicas", f"{outcome.least} → {outcome.peak_ready} → {outcome.ready}")
    table.add_row("while requests still came", f"down to {outcome.lowest_under_load}")
    table.add_row("streams", f"{clients.sent} sent, {clients.whole} whole, {clients.cut} cut, {clients.open} open")
    if clients.tokens is not None:
        table.add_row("tokens", f"{clients.tokens} received and counted")
    if clients.time_to_first_token_p50 is not None and clients.time_to_first_token_p95 is not None:
        first, late = clients.time_to_first_token_p50, clients.time_to_first_token_p95
        table.add_row("TTFT", f"p50 {first:.2f} s, p95 {late:.2f} s")
    if clients.inter_token_latency_p50 is not None:
        table.add_row("ITL, mean of a stream", f"p50 {clients.inter_token_latency_p50 * 1000:.0f} ms")
    console.print(table)
    console.print("[bold]What the operator said[/] (kubectl get events)")
    for event in outcome.events:
        console.print(f"  {event.get('reason')}: {event.get('note') or event.get('message')}", soft_wrap=True)
    for fault in outcome.faults[:SHOWN_FAULTS]:
        console.print(f"[red]cut:[/] {fault}")
    for promise, kept in (
        ("replicas were added under load", outcome.scaled_up),
        ("replicas were taken away again", outcome.scaled_down),
        ("no stream was cut", outcome.none_cut),
    ):
        console.print(f"[{'green' if kept else 'red'}]{'yes' if kept else 'NO '}[/]  {promise}")
