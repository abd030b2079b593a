"""`make demo`: a cluster, the operator, a manifest and real traffic; replicas come before the requests that need them.

The traffic rises, and the arrivals rule adds replicas before a queue forms. A window is scheduled a minute ahead, and
its replicas serve when it opens. Then it is calm, and replicas are drained. Acts as a user would: kubectl, Services and
the chart. Ends with 0 only if all of that was seen, first tokens came in time, and no stream was cut.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from rich.console import Console

from e2e.demo.load import ROOT, Load, Phase
from e2e.demo.stages import Stage, real_stage, simulated_stage
from e2e.demo.summary import Outcome, print_summary
from e2e.demo.view import View
from e2e.engines import has_condition
from e2e.harness.kubectl import Object
from e2e.harness.waiting import eventually
from e2e.manifests import minute_after

MANIFEST = ROOT / "examples" / "demo.yaml"
SERVICE = "chat"
READY_SECONDS = 120.0
SETTLE_SECONDS = 240.0
LOOK_SECONDS = 1.0

RAMP_SECONDS = 160.0
"""At least; a window opens at a full minute."""
RISE_SECONDS = 95.0
ANNOUNCED_SECONDS = 50.0
"""How long before its start the window is scheduled. With the replica that load has added by then, three have started,
so the lead time is known."""
WINDOW = Phase("window", 80.0, 1.5, 1.5)
WINDOW_REPLICAS = 6
CALM = Phase("calm", 90.0, 0.15, 0.15)
"""Replicas are drained while these few requests still come."""


def ramp_until(opens_at: datetime) -> Phase:
    return Phase("ramp", opens_at.timestamp() - time.time(), 0.35, 0.95, rise_seconds=RISE_SECONDS)


def schedule_of(opens_at: datetime) -> Object:
    """The patch that a user applies: so many replicas from this minute on."""
    window = {"name": "launch", "at": [opens_at.strftime("%Y-%m-%dT%H:%M")], "duration": f"{WINDOW.seconds:.0f}s"}
    return {"spec": {"schedules": [window | {"floor": {"replicas": WINDOW_REPLICAS}}]}}


@dataclass(slots=True)
class Watch:
    """Reads the API server once a second, and keeps what the summary needs."""

    stage: Stage
    load: Load
    view: View
    window: Object = field(default_factory=dict)
    """Status of the schedule, as last seen while its window was ahead or open."""

    def until(self, over: Callable[[Object], bool], phase: str, within: float) -> list[int]:
        """Show the state until `over` or until the time is up; returns the ready replicas observed."""
        self.view.phase = phase
        seen: list[int] = []
        deadline = time.monotonic() + within
        while time.monotonic() < deadline:
            service = self.stage.service(SERVICE)
            status = service.get("status", {})
            seen.append(status.get("replicas", {}).get("ready", 0))
            self.window = next((one for one in status.get("schedules", ()) if one.get("start")), self.window)
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
    faster = f"{WINDOW.first_pace:g} times as fast"
    console.print(f"\n{load.source}.", soft_wrap=True)
    console.print(f"It rises almost to the recording's pace; a window then plays it {faster}.\n", soft_wrap=True)
    with View(f"forebay: {stage.namespace}/{SERVICE}", console) as view:
        watch = Watch(stage, load, view)
        ramp = play_the_ramp(watch)
        load.play(WINDOW)
        window = watch.until(_never, WINDOW.name, WINDOW.seconds)
        load.play(CALM)
        calm = watch.until(_never, CALM.name, CALM.seconds)
        load.stop()
        watch.until(
            lambda service: load.total().open == 0 and settled_at_the_minimum(service), "draining", SETTLE_SECONDS
        )
    return Outcome(
        clients=load.total(),
        in_window=load.of(WINDOW),
        faults=load.faults(),
        window=watch.window,
        before_window=max(ramp),
        peak_ready=max(window),
        lowest_under_load=min(calm),
        replicas=view.replicas,
        rates=view.rates,
        final=stage.service(SERVICE),
        events=stage.events(SERVICE),
    )


def play_the_ramp(watch: Watch) -> list[int]:
    """Rising traffic until the window opens; returns the ready replicas observed before it was scheduled."""
    stage, opens_at = watch.stage, minute_after(RAMP_SECONDS)
    ramp = ramp_until(opens_at)
    watch.load.play(ramp)
    seen = watch.until(_never, ramp.name, ramp.seconds - ANNOUNCED_SECONDS)
    patch = json.dumps(schedule_of(opens_at))
    watch.view.say(f"$ kubectl patch infs {SERVICE} --type=merge -p '{patch}'")
    stage.kubectl("patch", "infs", SERVICE, "-n", stage.namespace, "--type=merge", "-p", patch)
    watch.until(_never, ramp.name, opens_at.timestamp() - time.time())
    return seen


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
