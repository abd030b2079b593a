"""Window state: whether what a schedule asks for is, or will be, ready when its window opens.

The same rules serve services, which need replicas, and WarmPools, which need placeholders. The start of a window is
judged once, by the times when pods became ready, so a late tick changes nothing. The caller determines the obstacles,
since they differ between replicas and placeholders.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from forebay.api.instants import rfc3339
from forebay.api.spec.schedule_spec import ScheduleState
from forebay.api.status import WindowStatus
from forebay.scaling.decision import seconds
from forebay.schedules.schedule_floors import MARGIN_SECONDS, Window, WindowFloor, local_time

NODE_SHARE: Final = 0.5
"""Share of the lead time within which a pod has to be scheduled; later it will not be ready in time."""
JUDGED: Final = (ScheduleState.MET, ScheduleState.MISSED)


@dataclass(frozen=True, slots=True)
class PendingPod:
    """A replica or a placeholder that has been created and is not ready yet."""

    name: str
    created_at: float


@dataclass(frozen=True, slots=True)
class WindowContext:
    """A window that is open or next, and the replicas or placeholders that exist for it."""

    window_floor: WindowFloor
    window: Window
    now: float
    before: WindowStatus | None
    """Last status of the same window."""
    ready_times: tuple[float, ...]
    """Times when the ready ones became ready, in ascending order."""
    pending: tuple[PendingPod, ...]
    """Those that are not ready yet."""
    verb: str
    """What ready ones do, in words, such as serve."""
    consumable: bool
    """Whether they are used up, as placeholders are: once all were ready, a missing one has served its purpose."""

    @property
    def missing(self) -> int:
        return max(0, self.window_floor.replicas - len(self.ready_times))

    @property
    def done_at(self) -> float | None:
        """Time when all consumable ones were ready, whatever happened to them since; None before, or for others."""
        if not self.consumable or self.before is None or self.before.ready_at is None:
            return None
        return datetime.fromisoformat(self.before.ready_at).timestamp()

    @property
    def counts(self) -> bool:
        return self.window_floor.counts(self.now)

    @property
    def ready_at(self) -> float | None:
        """Time when as many were ready as the floor asks for."""
        return self.ready_times[self.window_floor.replicas - 1] if not self.missing else None

    @property
    def expected_at(self) -> float | None:
        """Time when all will be ready if each takes the lead time; None when one has already taken longer."""
        if not self.missing:
            return self.now
        lead = self.window_floor.lead_seconds
        due = sorted(pod.created_at + lead for pod in self.pending)[: self.missing]
        if due and due[0] < self.now:
            return None
        return max(due) if len(due) == self.missing else self.now + lead


def not_in_time(case: WindowContext) -> str | None:
    """Why all will not be ready in time: the lead time is longer than the time left."""
    if not case.counts or not case.missing:
        return None
    expected = case.expected_at
    if expected is None:
        late = [pod for pod in case.pending if pod.created_at + case.window_floor.lead_seconds < case.now]
        return (
            f"{late[0].name} takes longer than the expected {seconds(case.window_floor.lead_seconds)}, and it is "
            f"unknown when it will {case.verb}"
        )
    was_at_risk = case.before is not None and case.before.state is ScheduleState.AT_RISK
    latest = case.window.start - (MARGIN_SECONDS if was_at_risk else 0.0)
    if expected <= latest:
        return None
    late_by = expected - case.window.start
    tail = f", {seconds(late_by)} after the start" if late_by > 0 else ""
    return f"all will be ready at about {local_time(expected, case.window_floor.schedule.time_zone)}{tail}"


def window_status_of(case: WindowContext, why: str) -> WindowStatus:
    """The status of the window. `why` is the obstacle, if there is one."""
    state, message = judge(case, why)
    window_floor = case.window_floor
    return WindowStatus(
        name=window_floor.schedule.name,
        state=state,
        message=f"{message}.",
        warm_from=rfc3339(window_floor.warm_from) if window_floor.opened is None else None,
        start=rfc3339(case.window.start),
        end=rfc3339(case.window.end),
        ready_at=ready_at(case),
    )


def judge(case: WindowContext, why: str) -> tuple[ScheduleState, str]:
    """The state and its message without the full stop. `why` is the obstacle, if there is one."""
    done_at = case.done_at
    if case.window_floor.opened is not None:
        return _opened(case, why if done_at is None else "")
    zone = case.window_floor.schedule.time_zone
    asked = f"{case.window_floor.asked} from {local_time(case.window.start, zone)}"
    if not case.counts:
        text = f"{asked}; creation starts at {local_time(case.window_floor.warm_from, zone)}"
        return (ScheduleState.AT_RISK, f"{text}, but {why}") if why else (ScheduleState.IDLE, text)
    text = f"{asked}; {len(case.ready_times)} {case.verb}"
    if done_at is not None:
        return ScheduleState.WARMING, f"{text}; all were ready at {local_time(done_at, zone)}"
    if why:
        return ScheduleState.AT_RISK, f"{text}; {why}"
    expected = case.expected_at
    if case.missing and expected is not None:
        text += f", all by about {local_time(expected, zone)}"
    return ScheduleState.WARMING, text


def ready_at(case: WindowContext) -> str | None:
    """Time when all were ready. Once known it stays: later replacements do not change it."""
    if case.before is not None and case.before.ready_at is not None:
        return case.before.ready_at
    at = case.ready_at if case.counts else None
    return None if at is None else rfc3339(at)


def _opened(case: WindowContext, why: str) -> tuple[ScheduleState, str]:
    zone = case.window_floor.schedule.time_zone
    text = f"{case.window_floor.asked} until {local_time(case.window.end, zone)}; {len(case.ready_times)} {case.verb}"
    rest = f"; {why}" if why and case.missing else ""
    if case.window_floor.since > case.window.start:
        text += "; the window was added after its start"
        return (ScheduleState.AT_RISK if case.missing else ScheduleState.MET), text + rest
    state = _at_the_start(case)
    if state is ScheduleState.MISSED and (all_ready_at := case.ready_at) is not None:
        late = seconds(max(0.0, all_ready_at - case.window.start))
        return state, f"{text}, all since {local_time(all_ready_at, zone)}, {late} after the start{rest}"
    return state, text + rest


def _at_the_start(case: WindowContext) -> ScheduleState:
    """Met or Missed. The state is set once and does not change later in the window."""
    if case.before is not None and case.before.state in JUDGED:
        return case.before.state
    if case.done_at is not None and case.done_at <= case.window.start:
        return ScheduleState.MET
    in_time = sum(at <= case.window.start for at in case.ready_times)
    return ScheduleState.MET if in_time >= case.window_floor.replicas else ScheduleState.MISSED
