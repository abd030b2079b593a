"""Missing is not zero: what was not reported is never a number, and never a reason to scale down."""

from prove.fault import Fault
from prove.mutations import always, at, body, entry, never, replaced, returns, value

OUTAGE = "test_a_metrics_outage_at_load_lowers_nothing"

FAULTS = (
    Fault(
        "signals.silence-counts-as-zero",
        claim="a serving replica that does not answer is unknown, not idle",
        planted="the load counts silent replicas as known, and status shows 0 for a load that nobody knows",
        changes=(
            at("load_of", entry("known", "len(serving)"), entry("silent", "()")),
            at("load_status", always("known")),
        ),
        guards=(
            "test_a_ready_pod_without_a_sample_is_unknown_and_not_idle",
            "test_any_replica_without_metrics_holds_the_count",
            "test_unknown_load_is_absent_from_the_status",
            OUTAGE,
        ),
    ),
    Fault(
        "signals.unknown-load-lowers",
        claim="nothing is scaled down while the load is unknown, or was not watched for the whole of scaleDownCooldown",
        planted="the stabilizer asks neither, and the watched window goes on through silence",
        changes=(
            at("metrics_unknown", returns("None")),
            at("update_load_window", never("silent")),
            at("not_watched_in_full", returns("None")),
        ),
        guards=(
            "test_reasons_to_keep_the_replica_count",
            "test_any_replica_without_metrics_holds_the_count",
            "test_an_operator_that_restarts_drains_nothing_before_it_has_watched",
        ),
    ),
    Fault(
        "signals.stale-is-fresh",
        claim="a sample that has grown old says nothing about now, and what Prometheus repeats is as old as its scrape",
        planted="every sample is fresh, and the operator's clock dates what Prometheus gives",
        changes=(
            at("freshness", returns("Freshness.FRESH")),
            at(
                "PrometheusSource._publish",
                replaced("sample", '_ and __import__("dataclasses").replace(_, taken_at=self._clock.now())'),
            ),
        ),
        guards=(
            "test_freshness",
            "test_old_samples_are_not_added_up",
            "test_a_repeated_value_keeps_its_age",
            OUTAGE,
        ),
    ),
    Fault(
        "signals.a-failed-scrape-is-an-idle-pod",
        claim="a scrape that fails leaves the last good sample to age, and a pod that is gone leaves nothing",
        planted="a scrape that fails gives a sample of an idle engine, and no pod is forgotten",
        changes=(
            at("Scraper._scrape", entry("sample", "EngineSample(self._clock.now(), 0.0, 0.0, 0.0)", nth=2)),
            at("Scraper._forget_all_but", body("pass")),
        ),
        guards=(
            "test_a_failed_scrape_gives_no_sample_and_a_reason",
            "test_the_last_good_sample_stays_and_ages",
            "test_a_deleted_pod_is_forgotten",
        ),
    ),
    Fault(
        "signals.a-missing-gauge-is-zero",
        claim="a gauge that decides is unknown when it is NaN, or absent from an engine that has worked",
        planted="NaN is a value to parser and planner, and a gauge that is absent is 0",
        changes=(
            at("_PodReadings._gauge", always("isfinite")),
            at("_PodReadings._refuse_unless_idle", body("pass")),
            at("is_sound", returns("True")),
        ),
        guards=(
            "test_an_invalid_gauge_is_not_zero",
            "test_a_missing_gauge_of_a_working_engine_is_not_zero",
            "test_an_unusable_response_gives_no_sample_and_a_reason",
            "test_metrics",
        ),
    ),
    Fault(
        "signals.any-page-is-an-idle-engine",
        claim="an answer that is not an engine's, or that was cut, is refused as a whole",
        planted="no answer is refused for its prefix or its last line",
        changes=(at("sample_of", always("startswith")), at("TextReader.read", always("endswith"))),
        guards=(
            "test_another_server_is_not_an_idle_engine",
            "test_a_malformed_response_is_refused",
            "test_a_response_truncated_inside_a_line_is_refused",
            "test_a_truncated_response_is_refused",
        ),
        quick=True,
    ),
    Fault(
        "signals.broken-engines-are-believed",
        claim="numbers that no engine can reach order no fleet, and an engine that makes no step does not serve",
        planted="no count is too large, and no replica is stalled",
        changes=(at("leaps", returns("False")), at("stalled", returns("None"))),
        guards=(
            "test_an_implausible_counter_is_rejected_until_it_lasts",
            "test_numbers_that_no_engine_can_reach_order_no_fleet",
            "test_pages_that_all_stand_still_are_the_metrics_and_nothing_is_touched",
            "test_one_that_stands_still_is_replaced_and_its_streams_end_well",
        ),
    ),
    Fault(
        "signals.a-part-is-the-whole",
        claim="pods that count no requests make a sum partial: it is extrapolated or held",
        planted="the flow of the pods that count is the flow of all, and no rate is held",
        changes=(
            at("ArrivalFlow.extended", returns("self")),
            at("_arrivals_unknown", returns("False")),
        ),
        guards=("test_a_lie_changes_neither_the_count_nor_the_latency",),
    ),
    Fault(
        "signals.any-counter-is-believed",
        claim="counters that fall without a restart, or rise faster than an engine works, give no rates for a minute",
        planted="any counters may follow any others",
        changes=(at("why_implausible", returns('""')),),
        guards=(
            "test_counters_that_fall_without_a_restart_give_no_rates_for_a_minute",
            "test_two_processes_behind_one_port_give_no_rates",
            "test_a_counter_is_bounded_by_what_an_engine_can_do",
        ),
    ),
    Fault(
        "signals.suspects-drain-first",
        claim="a stalled replica serves until its replacement does, and one that stalls as well gets more time",
        planted="stalled replicas drain at once, and earlier stalls are forgotten",
        changes=(at("replaced", returns("replaceable(context)")), at("stalls_of", returns("()"))),
        guards=(
            "test_it_serves_until_its_replacement_does",
            "test_each_replacement_that_stalls_too_doubles_the_wait",
            "test_a_replacement_that_stalls_too_gets_more_time",
        ),
    ),
    Fault(
        "signals.guards-wait-for-ever",
        claim="guards do not wait for ever for a queue that seems to shrink, nor for replicas that crash and return",
        planted="one low look is a recovery, it never has to end, and returning replicas count as loading",
        changes=(
            at("STEADY_SECONDS", value("0.0")),
            at("update_queue_recovery", entry("overdue", "False"), entry("most_serving", "serving")),
            at("_returns", returns("False")),
        ),
        guards=(
            "test_one_low_look_a_minute_does_not_keep_guards_from_acting",
            "test_replicas_that_crash_again_and_again_do_not_hold_back_the_others",
        ),
    ),
    Fault(
        "signals.a-dead-worker-goes-unnoticed",
        claim="the pods of a scrape worker that has died keep their samples, say so, and are read again",
        planted="the operator says nothing, and waits for a worker that has ended as for one that lives",
        changes=(
            at("ScrapeWorkers._mourn", returns("None")),
            at("WorkerProcess.run", replaced("pause", "self._stopping.wait()")),
        ),
        guards=(
            "test_a_worker_that_dies_is_replaced_and_its_pods_keep_their_samples_meanwhile",
            "test_a_worker_that_ends_again_and_again_is_started_ever_less_often",
        ),
    ),
)
