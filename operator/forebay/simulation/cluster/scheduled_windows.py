"""The schedule windows of a manifest that begin within the simulated time, and the floor of each."""

from __future__ import annotations

from dataclasses import dataclass

from forebay.api.spec.schedule_spec import ScheduleFloor
from forebay.schedules.schedule_floors import PlannedCapacity, capacity_unknown, replicas_for
from forebay.schedules.timetable import fault_of, next_start_after
from forebay.world.world import ServiceView


@dataclass(frozen=True, slots=True)
class ScheduledWindow:
    """One window of a schedule; times are seconds since the simulation began."""

    begin: float
    end: float
    floor: ScheduleFloor

    schedule: str
    """The name of the schedule."""

    def replicas(self, capacity: PlannedCapacity | None) -> int | None:
        """Replicas that serve the floor, by the operator's own arithmetic; None if a rate cannot be converted."""
        return replicas_for(self.floor, capacity)

    @property
    def not_judged(self) -> str:
        """A sentence that says why the floor cannot be converted to replicas."""
        return f"spec.schedules[{self.schedule}].{capacity_unknown(self.floor)}; whether it was met is not judged"


def windows_of(view: ServiceView, epoch: float, seconds: float) -> tuple[ScheduledWindow, ...]:
    """The windows that begin within the simulation, in order. A schedule with errors has none."""
    windows = []
    for schedule in () if view.spec is None else view.spec.schedules or ():
        start = None if fault_of(schedule) else next_start_after(schedule, epoch)
        while start is not None and start - epoch < seconds:
            begin = start - epoch
            windows.append(ScheduledWindow(begin, begin + schedule.duration.seconds, schedule.floor, schedule.name))
            start = next_start_after(schedule, start)
    return tuple(sorted(windows, key=lambda window: window.begin))
