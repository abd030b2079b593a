"""`make demo`: a cluster, the operator from its chart, a manifest, real traffic; up, down, and every stream whole.

Acts as a user would: kubectl, Services and the chart. Ends with 0 only if replicas were added under load, taken away
again, and no stream was cut.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console

from e2e.demo.summary import Outcome, print_summary
from e2e.demo.view import View, client_figures
from e2e.engines import has_condition
from e2e.harness.choice import cluster_for_tests
from e2e.harness.kubectl import Object
from e2e.harness.state import NODES_MODE
from e2e.harness.waiting import eventually
from e2e.installation import Installation, install
from e2e.traffic import Arrival, Traffic, azure_arrivals

ROOT = Path(__file__).parents[2]
MANIFEST = ROOT / "examples" / "quickstart.yaml"
TRACE = ROOT / "examples" / "traces" / "azure-2023-conv-first-15-minutes.csv"
SERVICE = "chat"
PEAK_FROM_SECONDS, PEAK_SECONDS = 60.0, 150.0
"""Two and a half minutes of the trace at its own pace."""
CALM_SECONDS, CALM_ONE_IN = 100.0, 6
"""Then one request in six of the next minutes, so that replicas are drained while they serve."""
SETTLE_SECONDS = 240.0


def trace_arrivals() -> list[Arrival]:
    """The demo's traffic: the trace as recorded, then thinned."""
    peak_end = PEAK_FROM_SECONDS + PEAK_SECONDS
    peak = list(azure_arrivals(TRACE, from_seconds=PEAK_FROM_SECONDS, to_seconds=peak_end))
    calm = list(azure_arrivals(TRACE, from_seconds=peak_end, to_seconds=peak_end + CALM_SECONDS))[::CALM_ONE_IN]
    later = [
        Arrival(arrival.at_seconds + PEAK_SECONDS, arrival.prompt_tokens, arrival.output_tokens) for arrival in calm
    ]
    return peak + later


@dataclass(slots=True)
class Watch:
    """Polls the API server while something goes on, and keeps what the summary needs."""

    forebay: Installation
    view: View
    traffic: Traffic | None = None
    most_ready: int = 0
    after_peak: list[int] = field(default_factory=list)
    calm: bool = False

    def until(self, over: Callable[[Object], bool], phase: str, within: float) -> bool:
        """Show the state once a second until `over`; False when the time ran out."""
        self.view.phase = phase
        deadline = time.monotonic() + within
        while time.monotonic() < deadline:
            service = self.forebay.get(SERVICE)
            ready = service.get("status", {}).get("replicas", {}).get("ready", 0)
            self.most_ready = max(self.most_ready, ready)
            if self.calm:
                self.after_peak.append(ready)
            clients = client_figures(self.traffic.records, time.monotonic()) if self.traffic else None
            self.view.show(service, self.forebay.events(SERVICE), clients)
            if over(service):
                return True
            time.sleep(1)
        return False


def settled_at_the_minimum(service: Object) -> bool:
    replicas = service.get("status", {}).get("replicas", {})
    least = service["spec"]["scaling"]["minReplicas"]
    return replicas.get("ready") == least and not replicas.get("draining") and not replicas.get("loading")


def run(forebay: Installation, console: Console) -> Outcome:
    console.print(f"\n[bold]$ kubectl apply -f {MANIFEST.relative_to(ROOT)}[/]")
    console.print(forebay.kubectl("apply", "-f", str(MANIFEST), "-n", forebay.namespace).strip())
    eventually(lambda: forebay.get(SERVICE), has_condition("Ready", "True"), within=120, what=f"{SERVICE} is Ready")
    console.print(forebay.kubectl("get", "infs", "-n", forebay.namespace).rstrip())
    arrivals = trace_arrivals()
    traffic = Traffic(forebay.url(SERVICE), SERVICE)
    peak = sum(arrival.at_seconds < PEAK_SECONDS for arrival in arrivals)
    console.print(
        f"\n{len(arrivals)} requests of an hour of Azure's chat traffic (2023): {peak} in {PEAK_SECONDS:.0f} s "
        f"as recorded, then one in {CALM_ONE_IN} for {CALM_SECONDS:.0f} s\n"
    )
    with View(f"forebay: {forebay.namespace}/{SERVICE}", console) as view:
        watch = Watch(forebay, view, traffic)
        began = time.monotonic()
        traffic.replay(arrivals)
        watch.until(lambda _: time.monotonic() - began > PEAK_SECONDS, "load as recorded", PEAK_SECONDS + 5)
        peak_ready = watch.most_ready
        watch.calm = True
        watch.until(lambda _: time.monotonic() - began > PEAK_SECONDS + CALM_SECONDS, "calm", CALM_SECONDS + 5)
        lowest_under_load = min(watch.after_peak, default=peak_ready)
        watch.until(lambda s: traffic.open == 0 and settled_at_the_minimum(s), "draining", SETTLE_SECONDS)
    records = traffic.join(60)
    return Outcome(
        records=records,
        peak_ready=peak_ready,
        lowest_under_load=lowest_under_load,
        final=forebay.get(SERVICE),
        events=forebay.events(SERVICE),
    )


def main() -> int:
    console = Console(highlight=False)
    if os.geteuid() != 0:
        console.print("Real nodes need root; run `sudo make demo`.")
        return 2
    with cluster_for_tests(ROOT / ".cluster" / NODES_MODE) as cluster:
        install(cluster)
        cluster.kubectl("create", "namespace", "demo")
        outcome = run(Installation(cluster, "demo"), console)
        print_summary(outcome, console)
    return 0 if outcome.kept_its_promises else 1


if __name__ == "__main__":
    sys.exit(main())
