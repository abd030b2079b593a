"""A wrong clock changes no decision: elapsed time is monotonic, and stamps are compared with their own clock."""

from prove.fault import Fault
from prove.mutations import at, begins, returns

FAULTS = (
    Fault(
        "clocks.wall-clock-elapsed-time",
        claim="a local clock that is wrong or jumps changes no decision, under load and during a drain",
        planted="the time of plans and samples is the local wall clock",
        changes=(at("ServerClock.now", returns("self._wall()")),),
        guards=(
            "test_a_local_clock_that_jumps_changes_no_decision",
            "test_an_operator_that_starts_with_a_wrong_clock_decides_as_with_a_right_one",
            "test_a_jump_of_the_local_clock_does_not_reach_now_even_without_an_answer",
        ),
    ),
    Fault(
        "clocks.dates-are-ignored",
        claim="the time of a plan is that of the API server, from the first plan on and after its clock was set",
        planted="no answer teaches the clock anything",
        changes=(at("ServerClock._learn", begins("return")),),
        guards=(
            "test_an_operator_that_starts_with_a_wrong_clock_decides_as_with_a_right_one",
            "test_the_first_plan_already_follows_the_servers_clock",
            "test_a_set_server_clock_is_doubted_without_a_plan_and_then_begins_an_empty_memory",
        ),
    ),
    Fault(
        "clocks.old-stamps-are-believed",
        claim="an API server's clock that is set costs no stream and no replica, since stamps keep their age",
        planted="stamps from before the clock was set are compared with the time after it",
        changes=(at("with_present_stamps", returns("world")),),
        guards=(
            "test_a_servers_clock_that_is_set_costs_no_stream_and_no_replica",
            "test_every_stamp_of_a_pod_and_a_node_from_before_the_step_moves_with_the_clock",
        ),
    ),
)
