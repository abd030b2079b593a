"""Starts of windows at every edge case of clocks and calendars."""

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from forebay.api.inference_service import ScheduleSpec
from forebay.schedules.timetable import fault_of, last_start_until, next_start_after, timetable
from tests.builders.schedules import a_schedule

NAMED = "2026-11-27T18:00"


def unix(text: str, zone: str = "UTC") -> float:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp()


def starts(schedule: ScheduleSpec, after: str, number: int) -> list[str]:
    """The next starts as wall-clock times with UTC offsets. A backward search must give the same starts."""
    zone, at, starts = schedule.time_zone, unix(after, schedule.time_zone), []
    for _ in range(number):
        coming = next_start_after(schedule, at)
        if coming is None:
            break
        assert last_start_until(schedule, coming) == coming
        assert last_start_until(schedule, coming - 0.5) != coming
        starts.append(datetime.fromtimestamp(coming, ZoneInfo(zone)).isoformat(timespec="minutes"))
        at = coming
    return starts


@pytest.mark.parametrize(
    ("schedule", "after", "expected"),
    [
        pytest.param(
            a_schedule("30 2 * * *"),
            "2026-03-28T12:00",
            ["2026-03-29T03:00+02:00", "2026-03-30T02:30+02:00"],
            id="Berlin skips 02:00 to 03:00: the first minute after the gap",
        ),
        pytest.param(
            a_schedule("0,30 2 * * *"),
            "2026-03-28T12:00",
            ["2026-03-29T03:00+02:00", "2026-03-30T02:00+02:00"],
            id="two starts in the gap are one",
        ),
        pytest.param(
            a_schedule("30 2 * * *"),
            "2026-10-24T12:00",
            ["2026-10-25T02:30+02:00", "2026-10-26T02:30+01:00"],
            id="Berlin repeats 02:00 to 03:00: once, at the first",
        ),
        pytest.param(
            a_schedule("30 * * * *"),
            "2026-10-25T01:00",
            ["2026-10-25T01:30+02:00", "2026-10-25T02:30+02:00", "2026-10-25T03:30+01:00"],
            id="an hourly one obeys the same rule",
        ),
        pytest.param(
            a_schedule("15 2 * * *", "America/New_York"),
            "2026-03-07T12:00",
            ["2026-03-08T03:00-04:00", "2026-03-09T02:15-04:00"],
            id="New York, gap",
        ),
        pytest.param(
            a_schedule("15 1 * * *", "America/New_York"),
            "2026-10-31T12:00",
            ["2026-11-01T01:15-04:00", "2026-11-02T01:15-05:00"],
            id="New York, fold",
        ),
        pytest.param(
            a_schedule("10 2 * * *", "Australia/Lord_Howe"),
            "2026-10-03T12:00",
            ["2026-10-04T02:30+11:00", "2026-10-05T02:10+11:00"],
            id="Lord Howe skips half an hour",
        ),
        pytest.param(
            a_schedule("45 1 * * *", "Australia/Lord_Howe"),
            "2026-04-04T12:00",
            ["2026-04-05T01:45+11:00", "2026-04-06T01:45+10:30"],
            id="Lord Howe repeats half an hour",
        ),
        pytest.param(
            a_schedule("0 9 * * MON-FRI", "Asia/Kolkata"),
            "2026-03-27T12:00",
            ["2026-03-30T09:00+05:30", "2026-03-31T09:00+05:30"],
            id="a half-hour zone, over a weekend",
        ),
        pytest.param(
            a_schedule("0 0 * * *", "Asia/Kathmandu"), "2026-03-27T12:00", ["2026-03-28T00:00+05:45"], id="a quarter"
        ),
        pytest.param(
            a_schedule("0 12 29 2 *"),
            "2026-01-01T00:00",
            ["2028-02-29T12:00+01:00", "2032-02-29T12:00+01:00"],
            id="leap days",
        ),
        pytest.param(
            a_schedule("0 6 L * *"),
            "2026-01-31T12:00",
            ["2026-02-28T06:00+01:00", "2026-03-31T06:00+02:00"],
            id="last days of months",
        ),
        pytest.param(
            a_schedule("0 8 13 * FRI"),
            "2026-11-11T00:00",
            ["2026-11-13T08:00+01:00", "2026-11-20T08:00+01:00"],
            id="either day when both are given, as in Debian's cron",
        ),
        pytest.param(
            a_schedule("0 8 * * *", except_dates=("2026-12-25", "2026-12-26")),
            "2026-12-24T09:00",
            ["2026-12-27T08:00+01:00"],
            id="days that are left out",
        ),
        pytest.param(
            a_schedule("30 23 * * *", except_dates=("2026-12-25",)),
            "2026-12-24T09:00",
            ["2026-12-24T23:30+01:00", "2026-12-26T23:30+01:00"],
            id="the date is that of the start",
        ),
        pytest.param(
            a_schedule("0 10 * * *", "Pacific/Apia"),
            "2011-12-29T12:00",
            ["2011-12-31T00:00+14:00", "2011-12-31T10:00+14:00"],
            id="Apia skips a whole day",
        ),
        pytest.param(
            a_schedule(at=(NAMED, "2026-10-25T02:30", "2026-03-29T02:30")),
            "2026-01-01T00:00",
            ["2026-03-29T03:00+02:00", "2026-10-25T02:30+02:00", "2026-11-27T18:00+01:00"],
            id="single times, by the same rule",
        ),
        pytest.param(
            a_schedule(at=(NAMED,), except_dates=("2026-11-27",)), "2026-01-01T00:00", [], id="none that is left"
        ),
    ],
)
def test_starts(schedule, after, expected):
    assert starts(schedule, after, max(1, len(expected))) == expected


@pytest.mark.parametrize(
    ("schedule", "says"),
    [
        pytest.param(a_schedule("0 8 30 2 *"), 'start: "0 8 30 2 *" ', id="30 February"),
        pytest.param(a_schedule("0 8 * * 5-1"), 'start: "0 8 * * 5-1" ', id="a range backwards"),
        pytest.param(a_schedule(zone="Europe/Berlitz"), 'timeZone: "Europe/Berlitz" ', id="no such zone"),
        pytest.param(a_schedule(zone="Europe"), 'timeZone: "Europe" ', id="half a zone"),
    ],
)
def test_faults_that_the_schema_cannot_detect(schedule, says):
    assert fault_of(schedule).startswith(says)
    starts = timetable(schedule, None, unix("2026-01-01T00:00"), since=0.0)
    assert (starts.last_start, starts.next_start, starts.fault) == (None, None, fault_of(schedule))


def test_every_zone_of_the_tests_is_installed():
    assert fault_of(a_schedule(zone="Antarctica/Troll")) == ""


def test_a_timetable_is_searched_once_per_edge():
    schedule = a_schedule("0 8 * * *", "UTC")
    eight = unix("2026-06-01T08:00")
    first = timetable(schedule, None, eight - 60, since=eight - 60)
    assert timetable(schedule, first, eight - 0.1, since=0.0) is first
    second = timetable(schedule, first, eight, since=0.0)
    assert (second.last_start, second.next_start, second.since) == (eight, eight + 86400, first.since)
    assert timetable(schedule, second, eight + 86399, since=0.0) is second


def test_after_a_long_sleep_the_starts_between_are_passed_over():
    schedule = a_schedule("0 8 * * *", "UTC")
    eight = unix("2026-06-01T08:00")
    first = timetable(schedule, None, eight - 60, since=0.0)
    later = timetable(schedule, first, eight + 3 * 86400 + 5, since=0.0)
    assert (later.last_start, later.next_start) == (eight + 3 * 86400, eight + 4 * 86400)


def test_a_schedule_that_is_changed_is_known_only_since_then():
    eight = unix("2026-06-01T08:00")
    first = timetable(a_schedule("0 8 * * *", "UTC"), None, eight, since=1.0)
    assert timetable(a_schedule("0 9 * * *", "UTC"), first, eight + 5, since=2.0).since == 2.0
