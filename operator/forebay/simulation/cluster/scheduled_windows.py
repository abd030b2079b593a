"""The windows of a manifest's schedules within the time that is played, and what each of them asks for."""

from __future__ import annotations

from dataclasses import dataclass

from forebay.api.spec.schedule_spec import ScheduleFloor
from forebay.schedules.schedule_floors import PlannedCapacity, capacity_unknown, replicas_for
from forebay.schedules.timetable import fault_of, next_start_after
from forebay.world.world import ServiceView


@dataclass(frozen=True, slots=True)
class ScheduledWindow:
    """Seconds since the beginning."""

    begin: float
    end: float
    floor: ScheduleFloor

    schedule: str
    """Its name."""

    def replicas(self, one: PlannedCapacity | None) -> int | None:
        """That serve the floor, by the operator's own arithmetic; None for a rate that it cannot turn into replicas."""
        return replicas_for(self.floor, one)

    @property
    def not_judged(self) -> str:
        """Why nobody can say how many replicas the floor is, in a sentence."""
        return f"spec.schedules[{self.schedule}].{capacity_unknown(self.floor)}; whether it was met is not judged"


def windows_of(view: ServiceView, epoch: float, seconds: float) -> tuple[ScheduledWindow, ...]:
    """Those that begin after the beginning, in order; a schedule that cannot be read has none."""
    found = []
    for schedule in () if view.spec is None else view.spec.schedules or ():
        start = None if fault_of(schedule) else next_start_after(schedule, epoch)
        while start is not None and start - epoch < seconds:
            begin = start - epoch
            found.append(ScheduledWindow(begin, begin + schedule.duration.seconds, schedule.floor, schedule.name))
            start = next_start_after(schedule, start)
    return tuple(sorted(found, key=lambda window: window.begin))
