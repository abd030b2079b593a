"""The windows of a manifest's schedules within the time that is played, and what each of them asks for."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from forebay.api.schedule_spec import ScheduleFloor
from forebay.planner.world import ServiceView
from forebay.scaling.timetable import fault_of, next_start_after


@dataclass(frozen=True, slots=True)
class ScheduledWindow:
    """Seconds since the beginning."""

    begin: float
    end: float
    floor: ScheduleFloor

    def replicas(self, requests_per_second: float, tokens: float) -> int:
        """That serve the floor, when one of them carries so many requests of so many tokens."""
        if self.floor.replicas is not None:
            return self.floor.replicas
        asked = self.floor.requests_per_second
        if asked is None:
            asked = (self.floor.tokens_per_minute or 0.0) / 60 / tokens
        return max(1, ceil(asked / requests_per_second - 1e-9))


def windows_of(view: ServiceView, epoch: float, seconds: float) -> tuple[ScheduledWindow, ...]:
    """Those that begin after the beginning, in order; a schedule that cannot be read has none."""
    found = []
    for schedule in () if view.spec is None else view.spec.schedules or ():
        start = None if fault_of(schedule) else next_start_after(schedule, epoch)
        while start is not None and start - epoch < seconds:
            begin = start - epoch
            found.append(ScheduledWindow(begin, begin + schedule.duration.seconds, schedule.floor))
            start = next_start_after(schedule, start)
    return tuple(sorted(found, key=lambda window: window.begin))
