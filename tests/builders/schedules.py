"""Schedules for tests, and a reference model that finds open windows minute by minute, without any search."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo

from hypothesis import strategies as st

from forebay.api.duration import Duration
from forebay.api.inference_service import ScheduleFloor, ScheduleSpec

MINUTE = 60
AROUND_MINUTES = 24 * 60
"""Time before and after an edge that is compared with the reference model."""
LONGEST_MINUTES = 36 * 60
"""The longest window that is drawn."""
ZONES = (
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "Asia/Kolkata",
    "Asia/Kathmandu",
    "Africa/Cairo",
    "Africa/Casablanca",
    "America/Havana",
    "America/Santiago",
    "Antarctica/Troll",
    "Europe/Dublin",
    "Pacific/Apia",
    "UTC",
)
CALM = (
    datetime(2024, 2, 29, 12, tzinfo=UTC),
    datetime(2026, 12, 31, 23, tzinfo=UTC),
    datetime(2027, 2, 28, tzinfo=UTC),
)
"""Edges of the calendar without a change of the clocks."""


def a_schedule(
    start: str | None = "0 8 * * *",
    zone: str = "Europe/Berlin",
    *,
    name: str = "morning",
    at: tuple[str, ...] = (),
    duration: str = "4h",
    replicas: int | None = None,
    requests_per_second: float | None = None,
    tokens_per_minute: int | None = None,
    except_dates: tuple[str, ...] = (),
) -> ScheduleSpec:
    """A schedule of three replicas unless a floor is given; with `at` it has no cron line."""
    if requests_per_second is None and tokens_per_minute is None and replicas is None:
        replicas = 3
    return ScheduleSpec(
        name=name,
        start=None if at else start,
        at=at,
        time_zone=zone,
        duration=Duration(duration),
        floor=ScheduleFloor(
            replicas=replicas, requests_per_second=requests_per_second, tokens_per_minute=tokens_per_minute
        ),
        except_dates=except_dates,
    )


@cache
def edges(zone: str) -> tuple[float, ...]:
    """Moments of special interest: every change of the clocks in some years, and ends of months."""
    moments, clock = [], ZoneInfo(zone)
    years = ((2011, 2012),) if zone == "Pacific/Apia" else ((2024, 2031),)
    for first, last in years:
        at, end = datetime(first, 1, 1, tzinfo=UTC), datetime(last, 1, 1, tzinfo=UTC)
        while at < end:
            if at.astimezone(clock).utcoffset() != (at + timedelta(hours=1)).astimezone(clock).utcoffset():
                moments.append(at.timestamp())
            at += timedelta(hours=1)
    return (*moments, *(calm.timestamp() for calm in CALM))


@dataclass(frozen=True)
class Days:
    """The minutes around an edge, with the wall-clock times that each minute shows first or skips."""

    begin: float
    walls: tuple[tuple[datetime, ...], ...]

    @property
    def first(self) -> int:
        """Index of the first compared minute. Earlier minutes are there only because windows open in them."""
        return LONGEST_MINUTES


@cache
def days_around(zone: str, edge: float) -> Days:
    clock = ZoneInfo(zone)
    begin = edge - (AROUND_MINUTES + LONGEST_MINUTES) * MINUTE
    walls: list[tuple[datetime, ...]] = []
    before = datetime.fromtimestamp(begin - MINUTE, clock).replace(tzinfo=None)
    for index in range(2 * AROUND_MINUTES + 2 * LONGEST_MINUTES):
        local = datetime.fromtimestamp(begin + index * MINUTE, clock)
        shown = local.replace(tzinfo=None)
        minutes = round((shown - before).total_seconds() / MINUTE)
        skipped = tuple(before + timedelta(minutes=step) for step in range(1, minutes))
        walls.append(skipped if local.fold else (*skipped, shown))
        before = shown
    return Days(begin, tuple(walls))


@dataclass(frozen=True)
class Line:
    """A cron line as sets of numbers; None stands for all values."""

    minutes: frozenset[int]
    hours: frozenset[int] | None
    days: frozenset[int] | None = None
    months: frozenset[int] | None = None
    weekdays: frozenset[int] | None = None
    """Days of the week; 0 is Sunday."""

    def text(self) -> str:
        fields = (self.minutes, self.hours, self.days, self.months, self.weekdays)
        return " ".join("*" if field is None else ",".join(map(str, sorted(field))) for field in fields)

    def names(self, wall: datetime) -> bool:
        if wall.minute not in self.minutes or (self.hours is not None and wall.hour not in self.hours):
            return False
        if self.months is not None and wall.month not in self.months:
            return False
        day = self.days is None or wall.day in self.days
        weekday = self.weekdays is None or wall.isoweekday() % 7 in self.weekdays
        either = self.days is not None and self.weekdays is not None
        return (day or weekday) if either else (day and weekday)


def held_minutes(days: Days, line: Line, duration: int, lead: int, excepted: Sequence[str]) -> list[bool]:
    """For each minute whether the floor counts: a window is open, or opens within `lead` minutes."""
    starts = [
        index
        for index, walls in enumerate(days.walls)
        if any(line.names(wall) and wall.date().isoformat() not in excepted for wall in walls)
    ]
    held = []
    for index in range(len(days.walls)):
        passed = bisect_right(starts, index)
        is_open = passed > 0 and index - starts[passed - 1] < duration
        position = bisect_left(starts, index)
        held.append(is_open or (position < len(starts) and starts[position] - index <= lead))
    return held


def some(values: Sequence[int], most: int = 3) -> st.SearchStrategy[frozenset[int]]:
    return st.frozensets(st.sampled_from(values), min_size=1, max_size=most)


def lines() -> st.SearchStrategy[Line]:
    """A random schedule. Most start in the hours in which clocks change."""
    return st.builds(
        Line,
        minutes=some((0, 1, 15, 29, 30, 45, 59)),
        hours=st.one_of(st.none(), some((0, 1, 2, 3, 4)), some(range(24))),
        days=st.one_of(st.none(), st.none(), some((1, 25, 28, 29, 30, 31))),
        weekdays=st.one_of(st.none(), st.none(), some(range(7))),
    )


@st.composite
def moments(draw: st.DrawFn) -> tuple[str, float]:
    """A zone and an edge in it."""
    zone = draw(st.sampled_from(ZONES))
    return zone, draw(st.sampled_from(edges(zone)))
