"""Calendar: when a schedule's windows open, in unix seconds.

cronsim finds the wall-clock times that a cron line names, on a clock without a zone; what the zone makes of them is
decided here, by one rule for every line: a time that the clocks skip opens at the first minute after the gap, a time
that they repeat opens once, at its first occurrence. (cronsim itself goes by elapsed time where a line begins with `*`,
so that an hourly start would come twice in the repeated hour.) Both map later wall-clock times to no earlier moments,
which is what the searches rest on.

The zones are those of the IANA database that the process has; no clock is asked.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Final, Generic, TypeVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from forebay.api.spec.schedule_spec import WindowSpec

_MINUTE: Final = timedelta(minutes=1)
_SECOND: Final = timedelta(seconds=1)

S = TypeVar("S", bound=WindowSpec)


@dataclass(frozen=True, slots=True)
class Timetable(Generic[S]):
    """The starts of one schedule on both sides of a moment. Searched anew only when that moment passes a start."""

    schedule: S
    since: float
    """From when on the schedule has been known as it is; what began before that could not be warmed."""
    last_start: float | None = None
    next_start: float | None = None
    fault: str = ""
    """Why there are no starts, in words; empty for a schedule that can be read."""

    def covers(self, schedule: S, now: float) -> bool:
        """Whether both starts still are the neighbours of `now`."""
        return (
            (self.schedule is schedule or self.schedule == schedule)
            and (self.last_start is None or self.last_start <= now)
            and (self.next_start is None or now < self.next_start)
        )


def timetable(schedule: S, before: Timetable[S] | None, now: float, since: float) -> Timetable[S]:
    """The timetable around `now`; `since` counts when `before` is of another schedule, or there is none."""
    if before is not None and before.covers(schedule, now):
        return before
    known = since if before is None or before.schedule != schedule else before.since
    if fault := fault_of(schedule):
        return Timetable(schedule, known, fault=fault)
    if before is not None and before.schedule == schedule and before.next_start is not None:
        passed, coming = before.next_start, next_start_after(schedule, before.next_start)
        if passed <= now and (coming is None or now < coming):
            return Timetable(schedule, known, passed, coming)
    return Timetable(schedule, known, last_start_until(schedule, now), next_start_after(schedule, now))


def fault_of(schedule: WindowSpec) -> str:
    """What the schema could not refuse, as a sentence with the way out; empty when all is well."""
    try:
        ZoneInfo(schedule.time_zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return (
            f'timeZone: "{schedule.time_zone}" is not in the IANA database of this operator; write it as there, such '
            "as Europe/Berlin"
        )
    if schedule.start is None:
        return ""
    try:
        next(CronSim(schedule.start, datetime(2000, 1, 1)))  # noqa: DTZ001 - a wall clock without a zone
    except (CronSimError, StopIteration):
        return f'start: "{schedule.start}" names no time that ever comes; correct its ranges and days'
    return ""


def next_start_after(schedule: WindowSpec, at: float) -> float | None:
    """The first start later than `at`; None when there is none in the next 50 years."""
    zone = ZoneInfo(schedule.time_zone)
    local = datetime.fromtimestamp(at // 1, zone).replace(tzinfo=None)
    moments = (moment(wall, zone) for wall in _later(schedule, local))
    return next((found for found in moments if found > at), None)


def last_start_until(schedule: WindowSpec, at: float) -> float | None:
    """The last start at or before `at`; None when there was none."""
    zone = ZoneInfo(schedule.time_zone)
    local = datetime.fromtimestamp(at // 1, zone)
    wall = local.replace(tzinfo=None)
    if local.fold:
        # The wall clock has been here before: later times than it shows have been first seen already.
        wall += (local.replace(fold=0).utcoffset() or timedelta()) - (local.utcoffset() or timedelta())
    moments = (moment(found, zone) for found in _earlier(schedule, wall + _SECOND))
    return next((found for found in moments if found <= at), None)


def moment(wall: datetime, zone: ZoneInfo) -> float:
    """When the clocks of a zone show `wall` for the first time; the first minute after the gap when they skip it."""
    while _skipped(found := wall.replace(tzinfo=zone)):
        wall += _MINUTE
    return found.timestamp()


def _skipped(local: datetime) -> bool:
    return local.astimezone(UTC).astimezone(local.tzinfo).replace(tzinfo=None) != local.replace(tzinfo=None)


def _later(schedule: WindowSpec, wall: datetime) -> Iterator[datetime]:
    """Wall-clock times of starts after `wall`, in order."""
    excepted = _excepted(schedule)
    if schedule.start is None:
        yield from (time_ for time_ in _single(schedule) if time_ > wall and time_.date() not in excepted)
        return
    found: datetime | None = wall
    while found is not None:
        found = next(CronSim(schedule.start, found), None)
        if found is not None and found.date() in excepted:
            found = datetime.combine(found.date(), time(23, 59, 59))
        elif found is not None:
            yield found


def _earlier(schedule: WindowSpec, wall: datetime) -> Iterator[datetime]:
    """Wall-clock times of starts before `wall`, the latest first."""
    excepted = _excepted(schedule)
    if schedule.start is None:
        yield from (t for t in reversed(_single(schedule)) if t < wall and t.date() not in excepted)
        return
    found: datetime | None = wall
    while found is not None:
        found = next(CronSim(schedule.start, found, reverse=True), None)
        if found is not None and found.date() in excepted:
            found = datetime.combine(found.date(), time())
        elif found is not None:
            yield found


def _single(schedule: WindowSpec) -> list[datetime]:
    return sorted(datetime.fromisoformat(text) for text in schedule.at)


def _excepted(schedule: WindowSpec) -> frozenset[date]:
    return frozenset(date.fromisoformat(text) for text in schedule.except_dates)
