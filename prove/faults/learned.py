"""Capacity is ordered as early as this service's own starts and growth ask for, after a restart, too."""

from prove.fault import Edit, Fault

LEARNED = "operator/forebay/planner/observe/learned.py"
LEAD_TIME = "operator/forebay/scaling/learning/lead_time.py"
STORIES = "tests/planner/test_learning.py"

OUTLOOK = "operator/forebay/planner/decide/planned_inputs.py"

FAULTS = (
    Fault(
        "learned.lead-time-ignored",
        "what is ordered for waiting work depends on how long this service's replicas take to start",
        (Edit(OUTLOOK, "lead_seconds=prospect.lead_seconds,", ""),),
        (f"{STORIES}::test_waiting_work_is_weighed_by_the_lead_time_that_was_learned",),
    ),
    Fault(
        "learned.few-starts-are-the-rule",
        "what is ordered for a schedule leaves room for a start that is slower than the few that were seen",
        (
            Edit(
                "operator/forebay/scaling/learning/lead_time.py",
                "lambda durations: _prediction_bound(durations, quantile)",
                "lambda durations: _nearest_rank(durations, quantile)",
            ),
        ),
        (
            "tests/scaling/learning/test_lead_time.py::test_what_was_promised_of_the_next_start_holds_however_few_were_seen",
        ),
    ),
    Fault(
        "learned.growth-ignored",
        "the headroom covers what this service's load grows by within a lead time",
        (Edit(OUTLOOK, "growth=learned.growth.fraction", "growth=0.0"),),
        (f"{STORIES}::test_growth_and_lengths_are_learned_decide_and_outlive_the_operator",),
    ),
    Fault(
        "learned.lost-on-restart",
        "an operator that starts goes on with what the one before has learned",
        (
            Edit(
                LEARNED,
                "    if stored is None:\n        return fresh\n",
                "    return fresh\n",
            ),
        ),
        (
            f"{STORIES}::test_an_operator_that_starts_goes_on_with_what_was_learned",
            "tests/planner/observe/test_learned.py::test_what_was_learned_comes_back_from_the_status",
        ),
    ),
    Fault(
        "learned.living-pods-not-asked",
        "what the status has lost is rebuilt from the pods that live",
        (
            Edit(
                LEARNED,
                "start.created_at >= watching_since or start.seconds <= patience_seconds",
                "start.created_at >= watching_since",
            ),
        ),
        (
            f"{STORIES}::test_pods_that_live_tell_what_the_status_does_not",
            f"{STORIES}::test_a_corrupt_status_is_told_of_once_and_set_right_by_the_pods",
        ),
    ),
    Fault(
        "learned.one-replica-stands-for-all",
        "the more replicas are ordered together, the longer before they are",
        (Edit(LEAD_TIME, "quantile = CONFIDENCE ** (1 / number)", "quantile = CONFIDENCE"),),
        ("tests/scaling/learning/test_lead_time.py::test_ten_replicas_need_a_longer_lead_than_one",),
    ),
    Fault(
        "learned.silence-is-growth",
        "the load is not compared across a silence, so the end of an outage is no growth",
        (
            Edit(
                "operator/forebay/scaling/learning/growth.py",
                "if newest is not None and at - newest[0] < 1.5 * SPACING_SECONDS else None",
                "if newest is not None else None",
            ),
        ),
        ("tests/scaling/learning/test_growth.py::test_the_end_of_missing_metrics_is_no_growth",),
    ),
)
