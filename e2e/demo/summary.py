"""What the demo showed, in figures, and whether it kept its promises."""

from __future__ import annotations

from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from e2e.harness.kubectl import Object
from e2e.traffic import StreamRecord, percentile


@dataclass(frozen=True, slots=True)
class Outcome:
    records: list[StreamRecord]
    peak_ready: int
    """Most replicas Ready at once while the load lasted."""
    lowest_under_load: int
    """Fewest replicas Ready once the load had fallen, requests still arriving."""
    final: Object
    events: list[Object]

    @property
    def cut(self) -> list[StreamRecord]:
        return [record for record in self.records if not record.whole]

    @property
    def least(self) -> int:
        least: int = self.final["spec"]["scaling"]["minReplicas"]
        return least

    @property
    def scaled_up(self) -> bool:
        return self.peak_ready > self.least

    @property
    def scaled_down(self) -> bool:
        return int(self.final["status"]["replicas"]["ready"]) < self.peak_ready

    @property
    def kept_its_promises(self) -> bool:
        return self.scaled_up and self.scaled_down and not self.cut and bool(self.records)


def print_summary(outcome: Outcome, console: Console) -> None:
    firsts = [ttft for record in outcome.records if (ttft := record.time_to_first_token) is not None]
    latencies = [itl for record in outcome.records if (itl := record.inter_token_latency) is not None]
    table = Table(title="What was seen", title_justify="left", show_header=False)
    ready = outcome.final["status"]["replicas"]["ready"]
    table.add_row("replicas", f"{outcome.least} → {outcome.peak_ready} → {ready}")
    table.add_row("while requests still came", f"down to {outcome.lowest_under_load} before the load ended")
    table.add_row(
        "streams",
        f"{len(outcome.records)} sent, {len(outcome.records) - len(outcome.cut)} whole, {len(outcome.cut)} cut",
    )
    table.add_row("tokens", f"{sum(record.tokens for record in outcome.records)} received and counted")
    if firsts and latencies:
        table.add_row("TTFT", f"p50 {percentile(firsts, 0.5):.2f} s, p95 {percentile(firsts, 0.95):.2f} s")
        table.add_row("ITL, mean of a stream", f"p50 {percentile(latencies, 0.5) * 1000:.0f} ms")
    console.print(table)
    console.print("[bold]What the operator said[/] (kubectl get events)")
    for event in outcome.events:
        console.print(f"  {event.get('reason')}: {event.get('note') or event.get('message')}", soft_wrap=True)
    for record in outcome.cut[:5]:
        console.print(f"[red]cut:[/] {record.fault}")
    for promise, kept in (
        ("replicas were added under load", outcome.scaled_up),
        ("replicas were taken away again", outcome.scaled_down),
        ("no stream was cut", not outcome.cut),
    ):
        console.print(f"[{'green' if kept else 'red'}]{'yes' if kept else 'NO '}[/]  {promise}")
