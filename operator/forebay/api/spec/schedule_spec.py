"""Schedules: windows of time for which capacity is there from the first minute, whatever the load was before.

A window is a start and a duration, never two crons: an end that is missed, or that falls into a change of the clocks,
cannot keep a window open. Times are local to the schedule's zone, as people mean them.
"""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from forebay.api.duration import Duration, between
from forebay.api.schema.base_model import Model
from forebay.api.schema.bounded_types import Count, Number, Unique, VolumeName, text
from forebay.api.schema.validation_rules import Obeys, Rule
from forebay.api.spec.scaling_spec import MOST_REPLICAS

MOST_SCHEDULES = 16
MOST_TIMES = 32
MOST_DATES = 64


def _field(value: str, others: str = "") -> str:
    """One field of a cron line: values, ranges and steps of them, separated by commas."""
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
_DATE = (
    "20[0-9]{2}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|1[0-9]|2[0-8]))"
    "|20([02468][048]|[13579][26])-02-29"
)
_ZONE = r"[A-Za-z][A-Za-z0-9_+-]{0,31}(/[A-Za-z0-9_+-]{1,32}){0,2}"

Cron = Annotated[
    str,
    Field(max_length=128),
    Obeys(
        text(
            _CRON,
            "is not a cron line; write minute, hour, day of month, month and day of week, such as 0 8 * * MON-FRI",
        )
    ),
]
LocalTime = Annotated[
    str,
    Field(max_length=16),
    Obeys(
        text(
            f"({_DATE})T([01][0-9]|2[0-3]):[0-5][0-9]",
            "is not a local time; write date and time to the minute without an offset, such as 2026-11-27T18:00",
        )
    ),
]
LocalDate = Annotated[
    str,
    Field(max_length=10),
    Obeys(text(_DATE, "is not a date; write year, month and day, such as 2026-12-25")),
]
ZoneName = Annotated[
    str,
    Field(max_length=98),
    Obeys(text(_ZONE, "is not the name of a time zone; use one of the IANA database, such as Europe/Berlin")),
]


_A_RATE = Rule[float](
    cel="double(self) >= 0.001",
    message="a rate below 0.001 asks for nothing; use 0.001 or more",
    holds=lambda value: value >= 0.001,
)
"""No bound of the schema: the API server compares a whole number with the whole part of a bound, and 0 would pass."""


class ScheduleFloor(Model):
    """The least that is there while a window is open, in one of three units."""

    rules = (
        Rule["ScheduleFloor"](
            cel="[has(self.replicas), has(self.requestsPerSecond), has(self.tokensPerMinute)]"
            ".filter(given, given).size() == 1",
            message="a floor is given in one unit; keep one of replicas, requestsPerSecond and tokensPerMinute",
            holds=lambda floor: [floor.replicas, floor.requests_per_second, floor.tokens_per_minute].count(None) == 2,
        ),
    )

    replicas: Annotated[Count, Field(ge=1, le=MOST_REPLICAS)] | None = None
    """Replicas, at most scaling.maxReplicas. Warm replicas (warmPool.replicas) come on top."""
    requests_per_second: Annotated[Number, Field(ge=0, le=1_000_000), Obeys(_A_RATE)] | None = None
    """Requests per second of the mix in spec.traffic; as many replicas as carry them within the promises."""
    tokens_per_minute: Annotated[Count, Field(ge=1, le=1_000_000_000_000)] | None = None
    """Tokens per minute, prompts and answers together, of the mix in spec.traffic."""


class WindowSpec(Model):
    """Windows of time by the wall clock of a zone: when they open, and for how long."""

    rules = (
        Rule["WindowSpec"](
            cel="has(self.start) != (has(self.at) && self.at.size() > 0)",
            message="windows begin by start or by at; keep start for those that repeat, or at for single ones",
            holds=lambda schedule: (schedule.start is not None) != bool(schedule.at),
        ),
    )

    name: VolumeName
    """Tells the schedules of one object apart."""
    start: Cron | None = None
    """When windows open, as a cron line of five fields in local time: minute, hour, day of month, month, day of week.
    As in Debian's cron, a day matches both day fields when one of them begins with `*`, else either of them. `L`, `LW`
    (days of month), `5L` and `MON#1` (days of week) are understood."""
    at: Annotated[tuple[LocalTime, ...], Field(max_length=MOST_TIMES), Unique()] = ()
    """When single windows open, in local time, instead of start."""
    time_zone: ZoneName = "UTC"
    """Zone of the IANA database whose wall clock start, at and exceptDates go by. A start that the clocks skip opens at
    the first minute after the gap; one that they repeat opens once, at its first occurrence."""
    duration: Annotated[Duration, between("1m", "744h")]
    """How long each window stays open, in elapsed time."""
    except_dates: Annotated[tuple[LocalDate, ...], Field(max_length=MOST_DATES), Unique()] = ()
    """Local dates on which no window opens. One that was opened the day before stays open."""


class ScheduleSpec(WindowSpec):
    """A floor for windows of time, warmed so that all of it is ready when a window opens."""

    floor: ScheduleFloor
    """The least that is there from the first minute of a window to its end. Open windows that overlap do not add up:
    the largest floor counts."""


class ScheduleState(StrEnum):
    """Idle: nothing to do yet. Warming: replicas are on their way. Met: all were ready at the start. AtRisk: they will
    not be in time. Missed: they were not."""

    IDLE = "Idle"
    WARMING = "Warming"
    MET = "Met"
    AT_RISK = "AtRisk"
    MISSED = "Missed"
