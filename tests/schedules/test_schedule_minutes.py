"""The floor of a schedule counts in exactly the right minutes, compared with a model that walks through all of them.

100 schedules; FOREBAY_SCHEDULES=10000 draws more.
"""

import os
from datetime import UTC, datetime

from hypothesis import given, settings
from hypothesis import strategies as st

from forebay.scaling.limits import Limits
from forebay.schedules.schedule_floors import MARGIN_SECONDS, StartPace, schedule_floor_of
from forebay.schedules.timetable import timetable
from tests.builders.schedules import (
    AROUND_MINUTES,
    MINUTE,
    Line,
    a_schedule,
    days_around,
    held_minutes,
    lines,
    moments,
)

SCHEDULES = int(os.environ.get("FOREBAY_SCHEDULES", "100"))
MINUTES = (1, 30, 60, 90, 120, 480, 1440, 36 * 60)


@given(
    moment=moments(),
    line=lines(),
    duration=st.sampled_from(MINUTES),
    lead=st.sampled_from((1, 6, 45, 120)),
    excepted=st.sets(st.integers(-1, 1), max_size=1),
)
@settings(max_examples=SCHEDULES, deadline=None)
def test_the_floor_counts_in_exactly_those_minutes(
    moment: tuple[str, float], line: Line, duration: int, lead: int, excepted: set[int]
):
    zone, edge = moment
    days = days_around(zone, edge)
    dates = tuple(datetime.fromtimestamp(edge + day * 86400, UTC).date().isoformat() for day in excepted)
    schedule = a_schedule(line.text(), zone, duration=f"{duration}m", except_dates=dates)
    expected = held_minutes(days, line, duration, lead, dates)
    pace = StartPace(lambda _: lead * MINUTE - MARGIN_SECONDS)
    known, wrong = None, []
    for index in range(days.first, days.first + 2 * AROUND_MINUTES):
        now = days.begin + index * MINUTE
        known = timetable(schedule, known, now, since=now)
        if schedule_floor_of(known, None, pace, Limits(max_replicas=9), now).counts(now) != expected[index]:
            wrong.append(index - days.first)
    assert wrong == [], f"{line.text()} in {zone}"
