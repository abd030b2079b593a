"""Up at once and in bounded steps, down only on proof."""

from prove.fault import Edit, Fault

DESIRED = "operator/forebay/scaling/desired.py"
GUARDS = "operator/forebay/scaling/rules/guards.py"
STABILIZER = "operator/forebay/scaling/rules/stabilizer.py"

FAULTS = (
    Fault(
        "scaling.loading-pods-not-counted",
        "replicas that load are capacity on its way, so guards wait for them",
        (Edit(DESIRED, "if fleet.loading and coming > 0:", "if fleet.loading < 0:"),),
        (
            "tests/scaling/test_desired.py::test_guards_while_replicas_are_on_their_way",
            "tests/scaling/test_desired.py::test_what_a_guard_waits_for_is_in_the_record",
        ),
    ),
    Fault(
        "scaling.stuck-replicas-multiply",
        "while nothing starts, one more replica is tried, and not one more at every step of a guard",
        (
            Edit(
                DESIRED,
                "return min(self.stuck, fleet.blocked - fleet.alike + min(fleet.alike, 1))",
                "return min(self.stuck, fleet.blocked)",
            ),
        ),
        (
            "tests/scaling/test_desired.py::test_guards_while_replicas_are_on_their_way",
            (
                "tests/simulation/test_scenarios.py::TestPodsThatNeverStart::"
                "test_nothing_that_serves_is_given_up_and_orders_stay_bounded"
            ),
        ),
    ),
    Fault(
        "scaling.no-cooldown-upwards",
        "guards add replicas once per scaleUpCooldown",
        (
            Edit(
                DESIRED,
                "if situation.now - situation.jumped_at < limits.scale_up_cooldown_seconds:",
                "if limits.scale_up_cooldown_seconds < 0:",
            ),
        ),
        ("tests/scaling/test_desired.py::test_one_jump_per_cooldown",),
    ),
    Fault(
        "scaling.no-cooldown-downwards",
        "nothing is scaled down before scaleDownCooldown is over",
        (Edit(STABILIZER, "    recently_raised,\n    not_watched_in_full,\n", ""),),
        (
            "tests/scaling/rules/test_stabilizer.py::test_what_holds_the_count",
            "tests/scaling/test_desired.py::test_a_restart_takes_the_newest_pod_for_the_last_rise",
        ),
    ),
    Fault(
        "scaling.unbounded-step",
        "a guard answers with one bounded step",
        (Edit(GUARDS, "LARGEST_STEP: Final = 1.5", "LARGEST_STEP: Final = 99.0"),),
        (
            "tests/scaling/rules/test_guards.py::test_queue_depth",
            "tests/scaling/test_desired.py::test_a_guard_raises_in_one_jump_and_is_remembered",
        ),
    ),
    Fault(
        "scaling.one-blind-guard",
        "each guard alone is enough: a full cache scales up with an empty queue",
        (
            Edit(
                GUARDS,
                "GUARDS: Final[tuple[Guard, ...]] = (queue_depth, kv_cache, *LATENCY_GUARDS, ",
                "GUARDS: Final[tuple[Guard, ...]] = (queue_depth, *LATENCY_GUARDS, ",
            ),
        ),
        ("tests/scaling/rules/test_guards.py::test_guards_are_ored_and_each_says_its_numbers",),
    ),
    Fault(
        "scaling.down-against-the-queue",
        "a replica goes only if the queue of the whole window would have fitted on those that stay",
        (Edit(STABILIZER, "    queue_would_grow,\n", ""),),
        ("tests/scaling/rules/test_stabilizer.py::test_what_holds_the_count",),
    ),
    Fault(
        "scaling.feed-forward-ignored",
        "replicas follow the work that arrives, before anything waits",
        (Edit(DESIRED, "guard_rules, arrival_rules, stabilizer_rules", "guard_rules, stabilizer_rules"),),
        (
            "tests/scaling/test_desired.py::test_the_count_follows_the_work_that_arrives",
            "tests/scaling/test_desired.py::test_from_zero_with_no_arrivals_and_a_queue_of_10",
        ),
    ),
    Fault(
        "scaling.down-against-the-work",
        "a replica goes only if the work of the whole window fits on those that stay, with a margin",
        (Edit(STABILIZER, "    work_would_not_fit,\n", ""),),
        (
            "tests/scaling/rules/test_stabilizer.py::test_what_holds_the_count",
            "tests/scaling/rules/test_stabilizer.py::test_a_large_fleet_goes_by_batches",
        ),
    ),
    Fault(
        "scaling.unknown-arrivals-are-none",
        "an engine that does not say how many requests it finished has unknown arrivals, not none",
        (
            Edit(
                "operator/forebay/scaling/load/arrivals.py",
                "    if sample.finished_requests is None:\n        return None\n    total = sample.finished_requests +",
                "    total = (sample.finished_requests or 0.0) +",
            ),
        ),
        ("tests/scaling/load/test_arrivals.py::test_requests_that_arrive_at_a_pod",),
    ),
    Fault(
        "scaling.surge-waits-for-the-minute",
        "a rate far above what chance makes of the last minute decides before the minute is over",
        (
            Edit(
                "operator/forebay/scaling/load/arrivals.py",
                "return recent_mean if significant and lasting else mean",
                "return mean",
            ),
        ),
        ("tests/scaling/load/test_arrivals.py::test_a_surge_counts_before_the_minute_is_over",),
    ),
    Fault(
        "scaling.a-burst-of-seconds-is-a-surge",
        "requests that come all at once order no fleet, since they are over before a replica could serve",
        (
            Edit(
                "operator/forebay/scaling/load/arrivals.py",
                "return recent_mean if significant and lasting else mean",
                "return recent_mean if significant else mean",
            ),
        ),
        ("tests/scaling/load/test_arrivals.py::test_a_burst_of_a_few_seconds_is_no_surge",),
    ),
    Fault(
        "scaling.lead-time-ignored",
        "what may be added to the load while a replica loads is ordered now, and waiting work is due by then",
        (
            Edit("operator/forebay/scaling/rules/feed_forward.py", "growth = max(0.0, outlook.growth)", "growth = 0.0"),
            Edit(
                "operator/forebay/scaling/rules/backlog.py",
                "max(SHORTEST_SECONDS, outlook.lead_seconds)",
                "SHORTEST_SECONDS",
            ),
        ),
        (
            "tests/scaling/rules/test_feed_forward.py::test_feed_forward",
            "tests/scaling/rules/test_feed_forward.py::test_waiting_work_is_to_be_done_within_the_lead_time",
        ),
    ),
    Fault(
        "scaling.load-decides-in-recommend",
        "in mode Recommend load only advises",
        (
            Edit(
                DESIRED,
                "applied = bound.replicas if mode is ScalingMode.AUTO else _advised_only(situation)",
                "applied = bound.replicas",
            ),
        ),
        (
            "tests/scaling/test_desired.py::test_load_only_advises",
            "tests/planner/reconcile/test_balance.py::test_recommend_replaces_what_is_lost_and_does_not_follow_the_load",
        ),
    ),
)
