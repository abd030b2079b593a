"""Schedules are ready by their start, and open when they should."""

from prove.fault import Fault
from prove.mutations import at, returns

FAULTS = (
    Fault(
        "schedules.wrong-minutes",
        claim="a schedule's floor counts a lead time before its start, whatever the clocks do",
        planted="it counts from the start on, and times that the clocks skip or repeat are taken as they come",
        changes=(
            at("StartPace.warming_seconds", returns("0.0")),
            at("timetable:moment", returns("wall.replace(tzinfo=zone, fold=1).timestamp()")),
        ),
        guards=(
            "test_when_the_floor_counts",
            "test_starts",
            "test_the_floor_counts_in_exactly_those_minutes",
            "test_replicas_are_ordered_a_lead_time_ahead",
        ),
    ),
    Fault(
        "schedules.nobody-is-told",
        claim="a schedule that lacks GPUs says so before its start, and a start that was missed stays missed",
        planted="neither nodes nor the ceiling of GPUs are asked, and every start was met",
        changes=(
            at("schedule_status:ceiling_too_low", returns("None")),
            at("schedule_status:nodes_too_full", returns("None")),
            at("_at_the_start", returns("ScheduleState.MET")),
        ),
        guards=("test_at_risk_before_the_peak", "test_missed_stays_and_says_how_late"),
    ),
)
