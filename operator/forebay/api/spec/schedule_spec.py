"""Schedules: windows of time whose capacity is ready at the start, whatever the load was before.

A window is a start and a duration instead of two cron lines: a missed end, or one that a change of the clocks skips,
would keep the window open. Times are local to the schedule's zone.
"""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from forebay.api.duration import Duration, between
from forebay.api.schema.base_model import Model
from forebay.api.schema.bounded_types import Count, Number, Unique, VolumeName, text
from forebay.api.schema.validation_rules import CheckedBy, Rule
from forebay.api.spec.scaling_spec import MOST_REPLICAS

MOST_SCHEDULES = 16
MOST_TIMES = 32
MOST_DATES = 64


def _field(value: str, others: str = "") -> str:
    """A pattern for one field of a cron line: values, ranges and steps, separated by commas."""
    term = rf"(\*|({value})(-({value}))?)(/[1-9][0-9]?)?{others}"
    return f"({term})(,({term}))*"


_MONTHS = "(?i:JAN|FEB|MAR|APR|MAY|JUN|JUL|AUG|SEP|OCT|NOV|DEC)"
_DAYS = "(?i:SUN|MON|TUE|WED|THU|FRI|SAT)"
_CRON = " +".join(
    (
        _field("[0-5]?[0-9]"),
        _field("[01]?[0-9]|2[0-3]"),
        _field("0?[1-9]|[12][0-9]|3[01]", "|L|LW"),
        _field(f"0?[1-9]|1[0-2]|{_MONTHS}"),
        _field(f"[0-7]|{_DAYS}", f"|[0-7]L|([0-7]|{_DAYS})#[1-5]"),
    )
)
DATE = (
    "20[0-9]{2}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|1[0-9]|2[0-8]))"
    "|20([02468][048]|[13579][26])-02-29"
)
_ZONE = r"[A-Za-z][A-Za-z0-9_+-]{0,31}(/[A-Za-z0-9_+-]{1,32}){0,2}"

Cron = Annotated[
    str,
    Field(max_length=128),
    CheckedBy(
        text(
            _CRON,
            "is not a cron line; write minute, hour, day of month, month and day of week, such as 0 8 * * MON-FRI",
        )
    ),
]
LocalTime = Annotated[
    str,
    Field(max_length=16),
    CheckedBy(
        text(
            f"({DATE})T([01][0-9]|2[0-3]):[0-5][0-9]",
            "is not a local time; write date and time to the minute without an offset, such as 2026-11-27T18:00",
        )
    ),
]
LocalDate = Annotated[
    str,
    Field(max_length=10),
    CheckedBy(text(DATE, "is not a date; write year, month and day, such as 2026-12-25")),
]
ZoneName = Annotated[
    str,
    Field(max_length=98),
    CheckedBy(text(_ZONE, "is not the name of a time zone; use one of the IANA database, such as Europe/Berlin")),
]


_MINIMUM_RATE = Rule[float](
    cel="double(self) >= 0.001",
    message="a rate below 0.001 is too small; use 0.001 or more",
    holds=lambda value: value >= 0.001,
)
"""A rule instead of a schema bound: the API server compares a whole number with the whole part of a bound, so 0 would
pass."""


class ScheduleFloor(Model):
    """The smallest capacity while a window is open, in one of three units."""

    rules = (
        Rule["ScheduleFloor"](
            cel="[has(self.replicas), has(self.requestsPerSecond), has(self.tokensPerMinute)]"
            ".filter(given, given).size() == 1",
            message="a floor needs exactly one unit; set one of replicas, requestsPerSecond and tokensPerMinute",
            holds=lambda floor: [floor.replicas, floor.requests_per_second, floor.tokens_per_minute].count(None) == 2,
        ),
    )

    replicas: Annotated[Count, Field(ge=1, le=MOST_REPLICAS)] | None = None
    """Replicas, at most scaling.maxReplicas. Warm replicas (warmPool.replicas) come on top."""
    requests_per_second: Annotated[Number, Field(ge=0, le=1_000_000), CheckedBy(_MINIMUM_RATE)] | None = None
    """Requests per second with the lengths in spec.traffic. The floor is as many replicas as serve them within the
    SLO."""
    tokens_per_minute: Annotated[Count, Field(ge=1, le=1_000_000_000_000)] | None = None
    """Tokens per minute of prompts and outputs together, with the lengths in spec.traffic."""


class WindowSpec(Model):
    """When windows open, by the wall clock of a time zone, and for how long."""

    rules = (
        Rule["WindowSpec"](
            cel="has(self.start) != (has(self.at) && self.at.size() > 0)",
            message="a schedule needs exactly one of start and at; set start for repeating windows, at for single ones",
            holds=lambda schedule: (schedule.start is not None) != bool(schedule.at),
        ),
    )

    name: VolumeName
    """Name of the schedule, unique within the object."""
    start: Cron | None = None
    """When windows open, as a cron line of five fields in local time: minute, hour, day of month, month, day of week.
    As in Debian's cron, a day must match both day fields if one of them begins with `*`, else either of them. `L` and
    `LW` (days of month), `5L` and `MON#1` (days of week) are supported."""
    at: Annotated[tuple[LocalTime, ...], Field(max_length=MOST_TIMES), Unique()] = ()
    """When single windows open, in local time. It replaces start."""
    time_zone: ZoneName = "UTC"
    """Time zone of the IANA database for start, at and exceptDates. A start that the clocks skip opens at the first
    minute after the gap; a start that they repeat opens once, at its first occurrence."""
    duration: Annotated[Duration, between("1m", "744h")]
    """How long each window stays open, in elapsed time."""
    except_dates: Annotated[tuple[LocalDate, ...], Field(max_length=MOST_DATES), Unique()] = ()
    """Local dates on which no window opens. A window that opened the day before stays open."""


class ScheduleSpec(WindowSpec):
    """A floor for windows of time. All of it is ready when a window opens."""

    floor: ScheduleFloor
    """The smallest capacity from the first minute of a window to its end. The floors of overlapping windows do not add
    up: the largest one counts."""


class ScheduleState(StrEnum):
    """Idle: nothing to do yet. Warming: replicas are starting. Met: all were ready at the start. AtRisk: they will not
    be ready in time. Missed: they were not ready in time."""

    IDLE = "Idle"
    WARMING = "Warming"
    MET = "Met"
    AT_RISK = "AtRisk"
    MISSED = "Missed"
