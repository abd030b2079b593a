"""`make demo`: a cluster, the operator, a manifest and real traffic; replicas go up and down, and no stream breaks.

Acts as a user would: kubectl, Services and the chart. Ends with 0 only if replicas were added under load, taken away
again, and no stream was cut.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from rich.console import Console

from e2e.demo.load import CALM_SECONDS, PEAK_SECONDS, ROOT, Load
from e2e.demo.stages import Stage, real_stage, simulated_stage
from e2e.demo.summary import Outcome, print_summary
from e2e.demo.view import View
from e2e.engines import has_condition
from e2e.harness.kubectl import Object
from e2e.harness.waiting import eventually

MANIFEST = ROOT / "examples" / "quickstart.yaml"
SERVICE = "chat"
READY_SECONDS = 120.0
SETTLE_SECONDS = 240.0
LOOK_SECONDS = 1.0


@dataclass(slots=True)
class Watch:
    """Reads the API server once a second, and keeps what the summary needs."""

    stage: Stage
    load: Load
    view: View
    ready: list[int] = field(default_factory=list)

    def until(self, over: Callable[[Object], bool], phase: str, within: float) -> list[int]:
        """Show the state until `over` or until the time is up; returns the ready replicas observed."""
        self.view.phase = phase
        seen: list[int] = []
        deadline = time.monotonic() + within
        while time.monotonic() < deadline:
            service = self.stage.service(SERVICE)
            seen.append(service.get("status", {}).get("replicas", {}).get("ready", 0))
            self.view.show(service, self.stage.events(SERVICE), self.load.recent())
            if over(service):
                break
            time.sleep(LOOK_SECONDS)
        return seen


def settled_at_the_minimum(service: Object) -> bool:
    replicas = service.get("status", {}).get("replicas", {})
    least = service["spec"]["scaling"]["minReplicas"]
    return bool(replicas.get("ready") == least and not replicas.get("draining") and not replicas.get("loading"))


def run(stage: Stage, console: Console) -> Outcome:
    console.print(f"\n[bold]$ kubectl apply -f {MANIFEST.relative_to(ROOT)}[/]")
    console.print(stage.kubectl("apply", "-f", str(MANIFEST), "-n", stage.namespace).strip())
    eventually(
        lambda: stage.service(SERVICE), has_condition("Ready", "True"), within=READY_SECONDS, what=f"{SERVICE} is Ready"
    )
    console.print("[bold]$ kubectl get infs[/]")
    console.print(stage.kubectl("get", "infs", "-n", stage.namespace).rstrip(), soft_wrap=True)
    load = stage.load(SERVICE)
    console.print(f"\n{load.description}\n", soft_wrap=True)
    with View(f"forebay: {stage.namespace}/{SERVICE}", console) as view:
        watch = Watch(stage, load, view)
        load.peak()
        peak = watch.until(_never, "load as recorded", PEAK_SECONDS)
        load.calm()
        calm = watch.until(_never, "calm", CALM_SECONDS)
        load.stop()
        watch.until(
            lambda service: load.total().open == 0 and settled_at_the_minimum(service), "draining", SETTLE_SECONDS
        )
    return Outcome(
        clients=load.total(),
        faults=load.faults(),
        peak_ready=max(peak),
        lowest_under_load=min(calm),
        final=stage.service(SERVICE),
        events=stage.events(SERVICE),
    )


def _never(_: Object) -> bool:
    return False


def main() -> int:
    console = Console(highlight=False)
    with real_stage() if os.geteuid() == 0 else simulated_stage(console) as stage:
        outcome = run(stage, console)
        print_summary(outcome, console)
    return 0 if outcome.kept_its_promises else 1


if __name__ == "__main__":
    sys.exit(main())
