"""A toy fleet comes up under the real planner: ready by every start, or AtRisk beforehand.

Each replica serves so many seconds after it was created as the example says; the planner does not know how many, and
counts with the 300 s of an unknown lead time. 100 schedules; FOREBAY_SCHEDULES=10000 draws more.
"""

import os
from dataclasses import dataclass, field, replace

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from forebay.api.inference_service import ScheduleState, ScheduleStatus
from forebay.planner.memory import State
from forebay.planner.planner import plan
from forebay.schedules.timetable import next_start_after
from forebay.world.plan import CreatePod, DeletePod, StartDrain
from forebay.world.world import PodView, ServiceView
from tests.builders.plans import actions, desired, only
from tests.builders.schedules import Line, a_schedule, lines, moments
from tests.builders.world import a_node, a_pod, a_service, a_world, signals_of

SCHEDULES = int(os.environ.get("FOREBAY_SCHEDULES", "100"))
LEAD = 300.0
TICK = 5.0


@dataclass
class Fleet:
    """Nodes of one GPU each place a pod at once, or never."""

    service: ServiceView
    gpus: int
    loading_seconds: float
    pods: dict[str, PodView] = field(default_factory=dict)
    state: State = field(default_factory=lambda: State.empty(0.0))
    statuses: list[tuple[float, ScheduleStatus]] = field(default_factory=list)

    def tick(self, now: float) -> float:
        """One tick and its effects; returns the seconds until the next tick."""
        self.pods = {name: self._aged(pod, now) for name, pod in self.pods.items()}
        pods = tuple(self.pods.values())
        world = a_world(self.service, pods=pods, nodes=(a_node(gpus=self.gpus),), signals=signals_of(pods, at=now))
        made, self.state = plan(world, self.state, now)
        assert only(made).error is None
        for action in actions(made):
            if isinstance(action, CreatePod):
                placed = sum(pod.node is not None for pod in self.pods.values()) < self.gpus
                self.pods[action.name] = a_pod(
                    self.service,
                    action.ordinal,
                    name=action.name,
                    uid=f"{action.name}-{now}",
                    ready=False,
                    created_at=now,
                    node="node-0" if placed else None,
                )
            elif isinstance(action, StartDrain | DeletePod):
                self.pods.pop(action.name, None)
        (schedule,) = only(made).status.schedules
        self.statuses.append((now, schedule))
        self.desired = desired(made)
        return TICK if any(not pod.ready for pod in self.pods.values()) else min(made.wake_in_seconds or 300.0, 300.0)

    def _aged(self, pod: PodView, now: float) -> PodView:
        ready_at = pod.created_at + self.loading_seconds
        if pod.ready or pod.node is None or now < ready_at:
            return pod
        return replace(pod, ready=True, ready_since=ready_at, phase="Running")

    def ready_by(self, at: float) -> int:
        return sum(pod.ready_since is not None and pod.ready_since <= at for pod in self.pods.values())


@given(
    moment=moments(),
    line=lines(),
    floor=st.integers(1, 5),
    gpus=st.sampled_from((8, 8, 8, 3)),
    loading_seconds=st.sampled_from((20.0, 240.0, LEAD, 480.0)),
    known_seconds=st.sampled_from((60.0, 331.0, 1000.0, 5000.0)),
    duration=st.sampled_from((1, 30, 90)),
)
@settings(max_examples=SCHEDULES, deadline=None)
def test_ready_by_the_start_or_at_risk_in_time(
    moment: tuple[str, float],
    line: Line,
    floor: int,
    gpus: int,
    loading_seconds: float,
    known_seconds: float,
    duration: int,
):
    zone, edge = moment
    schedule = a_schedule(line.text(), zone, replicas=floor, duration=f"{duration}m")
    start = next_start_after(schedule, edge - 3 * 3600)
    assert start is not None
    began, end = start - known_seconds, start + duration * 60
    assume(next_start_after(schedule, began - duration * 60) == start)  # a window before it has a story of its own
    service = a_service(schedules=(schedule,), max_replicas=6, created_at=began)
    fleet = Fleet(service, gpus, loading_seconds)
    fleet.pods = {pod.name: pod for pod in [a_pod(service, 0, created_at=began - 3600)]}
    now = began
    while now < end:
        waits = fleet.tick(now)
        if now >= start:
            assert fleet.desired >= floor, "the floor holds while the window is open"
        now = start if now < start < now + waits else now + waits

    before = [schedule for at, schedule in fleet.statuses if at < start and schedule.start == fleet_start(fleet, start)]
    at_start = next(schedule for at, schedule in fleet.statuses if at >= start)
    in_time = sum(pod.ready_since is not None and pod.ready_since <= start for pod in fleet.pods.values()) >= floor
    assert at_start.state is (ScheduleState.MET if in_time else ScheduleState.MISSED)
    assert in_time or any(schedule.state is ScheduleState.AT_RISK for schedule in before)
    could = loading_seconds <= LEAD and floor <= gpus and known_seconds > LEAD + 30
    if could:
        assert in_time
        assert all(schedule.state is not ScheduleState.AT_RISK for schedule in before), "no false alarm"


def fleet_start(fleet: Fleet, start: float) -> str | None:
    """The start as status writes it."""
    return next(schedule.start for at, schedule in fleet.statuses if at >= start)
