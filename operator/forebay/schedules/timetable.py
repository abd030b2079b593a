"""Timetable: when a schedule's windows open, in unix seconds.

cronsim finds the wall-clock times that a cron line names, without a time zone. This module converts them to moments of
the zone by one rule for every line. A time that the clocks skip becomes the first minute after the gap; a time that
they repeat counts once, at its first occurrence. (With a zone, cronsim goes by elapsed time where a line begins with
`*`, so an hourly start would come twice in the repeated hour.) A later wall-clock time never becomes an earlier moment;
the searches depend on that.

The zones are those of the IANA database of the process. This module reads no clock.
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
    """The last start and the next start of one schedule. They are searched again only when the next start passes."""

    schedule: S
    since: float
    """Time since which this version of the schedule is known. Windows that opened earlier could not be prepared."""
    last_start: float | None = None
    next_start: float | None = None
    fault: str = ""
    """Why the schedule has no starts, in words; empty for a valid schedule."""

    def covers(self, schedule: S, now: float) -> bool:
        """Whether the schedule is unchanged and both starts are still the last and the next one."""
        return (
            (self.schedule is schedule or self.schedule == schedule)
            and (self.last_start is None or self.last_start <= now)
            and (self.next_start is None or now < self.next_start)
        )


def timetable(schedule: S, before: Timetable[S] | None, now: float, since: float) -> Timetable[S]:
    """The timetable at `now`. `since` is used when `before` is None or belongs to another schedule."""
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
    """A fault that the schema cannot detect, as a sentence that says how to correct it; empty when there is none."""
    try:
        ZoneInfo(schedule.time_zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return (
            f'timeZone: "{schedule.time_zone}" is not in the IANA database of this operator; use a name from it, such '
            "as Europe/Berlin"
        )
    if schedule.start is None:
        return ""
    try:
        next(CronSim(schedule.start, datetime(2000, 1, 1)))  # noqa: DTZ001 - a wall clock without a zone
    except (CronSimError, StopIteration):
        return f'start: "{schedule.start}" never occurs; correct its ranges and days'
    return ""


def next_start_after(schedule: WindowSpec, at: float) -> float | None:
    """The first start later than `at`; None when there is none in the next 50 years."""
    zone = ZoneInfo(schedule.time_zone)
    local = datetime.fromtimestamp(at // 1, zone).replace(tzinfo=None)
    moments = (moment(wall, zone) for wall in _later(schedule, local))
    return next((start for start in moments if start > at), None)


def last_start_until(schedule: WindowSpec, at: float) -> float | None:
    """The last start at or before `at`; None when there was none."""
    zone = ZoneInfo(schedule.time_zone)
    local = datetime.fromtimestamp(at // 1, zone)
    wall = local.replace(tzinfo=None)
    if local.fold:
        # This is the second occurrence of a repeated hour: the wall clock already showed times later than `wall`.
        wall += (local.replace(fold=0).utcoffset() or timedelta()) - (local.utcoffset() or timedelta())
    moments = (moment(earlier, zone) for earlier in _earlier(schedule, wall + _SECOND))
    return next((start for start in moments if start <= at), None)


def moment(wall: datetime, zone: ZoneInfo) -> float:
    """When the clocks of a zone first show `wall`; the first minute after the gap when they skip it."""
    while _skipped(local := wall.replace(tzinfo=zone)):
        wall += _MINUTE
    return local.timestamp()


def _skipped(local: datetime) -> bool:
    return local.astimezone(UTC).astimezone(local.tzinfo).replace(tzinfo=None) != local.replace(tzinfo=None)


def _later(schedule: WindowSpec, wall: datetime) -> Iterator[datetime]:
    """Wall-clock times of starts after `wall`, in order."""
    excepted = _excepted(schedule)
    if schedule.start is None:
        yield from (time_ for time_ in _single(schedule) if time_ > wall and time_.date() not in excepted)
        return
    start: datetime | None = wall
    while start is not None:
        start = next(CronSim(schedule.start, start), None)
        if start is not None and start.date() in excepted:
            start = datetime.combine(start.date(), time(23, 59, 59))
        elif start is not None:
            yield start


def _earlier(schedule: WindowSpec, wall: datetime) -> Iterator[datetime]:
    """Wall-clock times of starts before `wall`, the latest first."""
    excepted = _excepted(schedule)
    if schedule.start is None:
        yield from (t for t in reversed(_single(schedule)) if t < wall and t.date() not in excepted)
        return
    start: datetime | None = wall
    while start is not None:
        start = next(CronSim(schedule.start, start, reverse=True), None)
        if start is not None and start.date() in excepted:
            start = datetime.combine(start.date(), time())
        elif start is not None:
            yield start


def _single(schedule: WindowSpec) -> list[datetime]:
    return sorted(datetime.fromisoformat(text) for text in schedule.at)


def _excepted(schedule: WindowSpec) -> frozenset[date]:
    return frozenset(date.fromisoformat(text) for text in schedule.except_dates)
