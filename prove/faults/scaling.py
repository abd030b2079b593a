"""Up at once and in bounded steps, down only on proof."""

from prove.fault import Edit, Fault

DESIRED = "operator/forebay/scaling/desired.py"
GUARDS = "operator/forebay/scaling/guards.py"
STABILIZER = "operator/forebay/scaling/stabilizer.py"

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
            "tests/scaling/test_stabilizer.py::test_what_holds_the_count",
            "tests/scaling/test_desired.py::test_a_restart_takes_the_newest_pod_for_the_last_rise",
        ),
    ),
    Fault(
        "scaling.unbounded-step",
        "a guard answers with one bounded step",
        (Edit(GUARDS, "LARGEST_STEP: Final = 1.5", "LARGEST_STEP: Final = 99.0"),),
        (
            "tests/scaling/test_guards.py::test_queue_depth",
            "tests/scaling/test_desired.py::test_a_guard_raises_in_one_jump_and_is_remembered",
        ),
    ),
    Fault(
        "scaling.one-blind-guard",
        "each guard alone is enough: a full cache scales up with an empty queue",
        (
            Edit(
                GUARDS,
                "GUARDS: Final[tuple[Guard, ...]] = (queue_depth, kv_cache, *LATENCY_GUARDS)",
                "GUARDS: Final[tuple[Guard, ...]] = (queue_depth, *LATENCY_GUARDS)",
            ),
        ),
        ("tests/scaling/test_guards.py::test_guards_are_ored_and_each_says_its_numbers",),
    ),
    Fault(
        "scaling.down-against-the-queue",
        "a replica goes only if the queue of the whole window would have fitted on those that stay",
        (Edit(STABILIZER, "    queue_would_grow,\n", ""),),
        ("tests/scaling/test_stabilizer.py::test_what_holds_the_count",),
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
            "tests/planner/test_balance.py::test_recommend_replaces_what_is_lost_and_does_not_follow_the_load",
        ),
    ),
)
