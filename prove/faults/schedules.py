"""Schedules are ready by their start, and open when they should."""

from prove.fault import Edit, Fault

CALENDAR = "operator/forebay/schedules/timetable.py"
FLOORS = "operator/forebay/schedules/schedule_floors.py"
STANDING = "operator/forebay/schedules/window_state.py"
TOLD = "operator/forebay/planner/report/schedule_status.py"

FAULTS = (
    Fault(
        "schedules.lead-time-ignored",
        "a schedule's floor counts a lead time before its start",
        (
            Edit(
                FLOORS,
                "    warm_from = coming.start - pace.warming_seconds(new) if coming else inf\n",
                "    warm_from = coming.start if coming else inf\n",
            ),
        ),
        (
            "tests/schedules/test_schedule_floors.py::test_when_the_floor_counts",
            "tests/schedules/test_schedule_minutes.py::test_the_floor_counts_in_exactly_those_minutes",
            "tests/planner/report/test_schedule_status.py::test_replicas_are_ordered_a_lead_time_ahead",
        ),
    ),
    Fault(
        "schedules.fold-fires-twice",
        "a start in the repeated hour opens one window, at its first occurrence",
        (
            Edit(
                CALENDAR,
                "    moments = (moment(wall, zone) for wall in _later(schedule, local))\n",
                "    walls = _later(schedule, local - timedelta(hours=2))\n"
                "    again = (lambda wall: max(moment(wall, zone), wall.replace(tzinfo=zone, fold=1).timestamp()))\n"
                "    moments = (found for wall in walls for found in (moment(wall, zone), again(wall)))\n",
            ),
        ),
        (
            "tests/schedules/test_timetable.py::test_starts",
            "tests/schedules/test_schedule_minutes.py::test_the_floor_counts_in_exactly_those_minutes",
        ),
    ),
    Fault(
        "schedules.gap-swallows-a-start",
        "a start that the clocks skip opens at the first minute after the gap",
        (
            Edit(
                CALENDAR,
                "    while _skipped(local := wall.replace(tzinfo=zone)):\n        wall += _MINUTE\n",
                "    local = wall.replace(tzinfo=zone)\n",
            ),
        ),
        (
            "tests/schedules/test_timetable.py::test_starts",
            "tests/schedules/test_schedule_minutes.py::test_the_floor_counts_in_exactly_those_minutes",
        ),
    ),
    Fault(
        "schedules.nodes-not-asked",
        "a schedule that lacks GPUs says so an hour before it is warmed",
        (Edit(TOLD, "    ceiling_too_low,\n    nodes_too_full,\n", ""),),
        ("tests/planner/report/test_schedule_status.py::test_at_risk_before_the_peak",),
    ),
    Fault(
        "schedules.late-is-met",
        "a start that did not find its replicas ready stays missed",
        (
            Edit(
                STANDING,
                "    in_time = sum(at <= case.window.start for at in case.ready_times)\n",
                "    in_time = len(case.ready_times)\n",
            ),
            Edit(
                STANDING,
                "case.before.state in JUDGED:",
                "case.before.state is ScheduleState.MET:",
            ),
        ),
        ("tests/planner/report/test_schedule_status.py::test_missed_stays_and_says_how_late",),
    ),
)
