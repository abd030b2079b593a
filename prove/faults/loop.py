"""The loop outlives faults and outages, and the process ends in one of two ways."""

from prove.fault import Fault
from prove.mutations import always, at, replaced, returns, without

FAULTS = (
    Fault(
        "loop.a-fault-ends-the-loop",
        claim="no exception ends the loop, and an API server that does not answer is no reason to restart",
        planted="the loop catches errors of the network alone, and no error comes from the world outside",
        changes=(
            at("Loop._attempt_tick", replaced("Exception", "OSError")),
            at("loop_health:external_cause", returns("None")),
        ),
        guards=(
            "test_a_lasting_error_keeps_the_loop_running_and_fails_healthz",
            "test_a_long_outage_leaves_the_process_alive",
        ),
    ),
    Fault(
        "loop.a-dead-loop-is-green",
        claim="the health check turns red when planning has stopped",
        planted="a write has always just been made",
        changes=(at("LoopHealth._write_age_seconds", returns("0.0")),),
        guards=(
            "test_healthz_depends_on_the_age_of_the_last_successful_tick",
            "test_a_lasting_error_keeps_the_loop_running_and_fails_healthz",
        ),
        quick=True,
    ),
    Fault(
        "loop.the-wrong-end",
        claim="a graceful stop lets the tick finish before the lease goes, and a lost lease ends everything at once",
        planted="no stop waits for the tick, and a lost lease counts as a graceful stop",
        changes=(at("_run_parts", always("graceful"), without("STOP_SECONDS")),),
        guards=(
            "test_a_graceful_stop_finishes_the_tick_before_it_releases_the_lease",
            "test_a_lost_lease_ends_the_process_without_further_writes",
        ),
    ),
    Fault(
        "loop.a-change-is-slept-through",
        claim="a service keeps its plan only while none of its objects has changed and nothing of it is due",
        planted="a service at rest stays at rest, whatever changes and whatever is due",
        changes=(at("_holds", returns("True")),),
        guards=(
            "test_a_change_ends_the_rest_of_the_service_it_concerns",
            "test_a_rest_ends_when_something_of_the_service_is_due",
        ),
    ),
    Fault(
        "loop.samples-are-put-off",
        claim="the new samples of a large fleet are read within a few ticks, those of the longest rest first",
        planted="a service that was put off once is put off again",
        changes=(at("services_at_rest", replaced("sorted", "sorted(sampled, reverse=True)")),),
        guards=("test_new_samples_of_a_whole_fleet_are_read_in_several_ticks_the_longest_rest_first",),
    ),
)
