"""Schedule floors: their size, the time from which they count, and their sentences."""

from math import inf

import pytest

from forebay.scaling.limits import Limits
from forebay.schedules.schedule_floors import (
    MARGIN_SECONDS,
    PlannedCapacity,
    StartPace,
    WindowFloor,
    local_time,
    replicas_for,
    schedule_floor,
    schedule_floor_of,
)
from forebay.schedules.timetable import timetable
from tests.builders.schedules import a_schedule
from tests.schedules.test_timetable import unix

EIGHT = unix("2026-03-30T08:00", "Europe/Berlin")
LEAD = 300.0
ONE = PlannedCapacity(tokens_per_minute=1_000_000, tokens_per_request=1000)
"""A capacity of 16.67 requests per second."""


def window_floor(
    now: float, *, max_replicas: int = 9, replica_capacity: PlannedCapacity | None = None, **fields
) -> WindowFloor:
    pace = StartPace(lambda k: LEAD + 10 * k)
    starts = timetable(a_schedule(**fields), None, now, since=0.0)
    return schedule_floor_of(starts, replica_capacity, pace, Limits(max_replicas=max_replicas), now)


@pytest.mark.parametrize(
    ("seconds_from_start", "expected"),
    [
        pytest.param(-351, None, id="not yet: k = 2 of 3, since minReplicas is there"),
        pytest.param(-350, 3, id="as long before as two replicas take, and the margin"),
        pytest.param(-1, 3, id="before the start"),
        pytest.param(0, 3, id="at the start"),
        pytest.param(4 * 3600 - 1, 3, id="to the last second"),
        pytest.param(4 * 3600, None, id="released at the end"),
    ],
)
def test_when_the_floor_counts(seconds_from_start, expected):
    now = EIGHT + seconds_from_start
    floor = schedule_floor(window_floor(now), now)
    assert (floor and floor.replicas) == expected


@pytest.mark.parametrize(
    ("hours", "end"),
    [
        pytest.param("2026-03-28T22:00", "2026-03-29T07:00", id="8 hours over the gap end at 7"),
        pytest.param("2026-10-24T22:00", "2026-10-25T05:00", id="8 hours over the fold end at 5"),
        pytest.param("2026-06-24T22:00", "2026-06-25T06:00", id="8 hours across midnight"),
    ],
)
def test_a_duration_is_elapsed_time(hours, end):
    start = unix(hours, "Europe/Berlin")
    opened = window_floor(start + 60, start="0 22 * * *", duration="8h").opened
    assert opened is not None
    assert (opened.start, opened.end) == (start, unix(end, "Europe/Berlin"))


@pytest.mark.parametrize(
    ("floor", "expected"),
    [
        pytest.param({"replicas": 4}, 4, id="replicas as they are"),
        pytest.param({"tokens_per_minute": 3_000_000}, 3, id="exactly three"),
        pytest.param({"tokens_per_minute": 3_000_001}, 4, id="a token more"),
        pytest.param({"requests_per_second": 50.0}, 3, id="50 × 60 × 1000 tokens a minute"),
        pytest.param({"requests_per_second": 0.001}, 1, id="one at least"),
    ],
)
def test_a_rate_in_replicas(floor, expected):
    assert replicas_for(a_schedule(**floor).floor, ONE) == expected


def test_an_unknown_capacity_is_not_guessed():
    floor = window_floor(EIGHT, tokens_per_minute=9)
    assert (floor.replicas, schedule_floor(floor, EIGHT)) == (0, None)
    assert "floor.tokensPerMinute" in floor.fault
    assert "spec.traffic" in floor.fault


def test_the_lead_time_is_that_of_all_replicas_that_may_have_to_come():
    assert window_floor(EIGHT - 9999, replicas=7).lead_seconds == LEAD + 60
    assert window_floor(EIGHT - 9999, replicas=7, max_replicas=4).lead_seconds == LEAD + 30
    assert window_floor(EIGHT - 9999, replicas=1).lead_seconds == LEAD + 10


def test_more_pods_than_can_be_created_in_a_minute_begin_earlier():
    pace = StartPace(lambda _: LEAD, creates_per_minute=4, pods_per_replica=2)
    assert [pace.warming_seconds(k) - LEAD - MARGIN_SECONDS for k in (1, 2, 3, 4, 5)] == [0, 0, 60, 60, 120]


def test_warming_that_has_begun_is_not_undone_by_a_shorter_lead_time():
    starts = timetable(a_schedule(), None, EIGHT - 500, since=0.0)
    again = schedule_floor_of(
        starts, None, StartPace(lambda _: 10.0), Limits(max_replicas=9), EIGHT - 500, warmed_from=EIGHT - 600
    )
    assert again.warm_from == EIGHT - 600
    assert again.counts(EIGHT - 500)


def test_single_times_end():
    floor = window_floor(EIGHT, at=("2026-03-30T08:00",), duration="1h")
    assert floor.opened is not None
    assert (floor.coming, floor.warm_from, floor.released_at) == (None, inf, None)
    over = window_floor(EIGHT + 3600, at=("2026-03-30T08:00",), duration="1h")
    assert (over.window, over.released_at) == (None, EIGHT + 3600)


def test_the_sentences_name_window_zone_and_local_time():
    before, during = EIGHT - 100, EIGHT + 100
    early, kept = schedule_floor(window_floor(before), before), schedule_floor(window_floor(during), during)
    assert early is not None
    assert kept is not None
    assert (early.rule, kept.rule) == ("schedule_floor", "schedule_floor")
    for part in ('schedule "morning"', "3 replicas by Mon 2026-03-30 08:00 Europe/Berlin (UTC+02:00)", "320 s"):
        assert part in early.because
    for part in ('schedule "morning"', "3 replicas until Mon 2026-03-30 12:00 Europe/Berlin (UTC+02:00)"):
        assert part in kept.because


def test_the_offset_tells_repeated_hours_apart():
    first = unix("2026-10-25T02:30", "Europe/Berlin")
    assert [local_time(at, "Europe/Berlin") for at in (first, first + 3600)] == [
        "Sun 2026-10-25 02:30 Europe/Berlin (UTC+02:00)",
        "Sun 2026-10-25 02:30 Europe/Berlin (UTC+01:00)",
    ]
