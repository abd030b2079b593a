"""To zero by the idle clock alone, and back when somebody asks."""

from prove.fault import Edit, Fault

DESIRED = "operator/forebay/scaling/desired.py"
IDLENESS = "operator/forebay/scaling/load/idleness.py"
LAST_REPLICA = "operator/forebay/scaling/rules/last_replica.py"
STAGING = "operator/forebay/planner/observe/fleet_context.py"
WAKE_CALL = "operator/forebay/planner/decide/wake_request.py"

FAULTS = (
    Fault(
        "zero.clock-from-creation",
        "the idle clock counts from the later of the last request and Ready, never from creation",
        (
            Edit(IDLENESS, "since = max(began, load.active_at, load.ready_since)", "since = load.ready_since"),
            Edit(STAGING, "ready_since=replica.ready_since,", "ready_since=replica.created_at,"),
        ),
        ("tests/planner/test_zero.py::test_the_clock_begins_with_ready_however_long_the_pod_waited_for_its_node",),
    ),
    Fault(
        "zero.silence-is-idleness",
        "a service goes to zero only after its metrics were fresh for the whole of scaleToZeroAfter",
        (
            Edit(IDLENESS, "if not load.complete:", "if load.replicas < 0:"),
            Edit(IDLENESS, "if load.active_at is None:", "if load.replicas < 0:"),
            Edit(IDLENESS, "    assert load.active_at is not None\n", ""),
            Edit(IDLENESS, "max(began, load.active_at, load", "max(began, load.active_at or 0.0, load"),
        ),
        (
            "tests/planner/test_zero.py::test_silence_never_leads_to_zero",
            "tests/scaling/rules/test_last_replica.py::test_down_by_one_to_zero_by_the_clock_alone_and_never_without_metrics",
        ),
    ),
    Fault(
        "zero.many-to-none",
        "there is no way from several replicas to none in one step",
        (
            Edit(DESIRED, "if situation.desired <= 1:", "if situation.desired <= 99:"),
            Edit(LAST_REPLICA, "replacement_under_way, others_serve, asked", "replacement_under_way, asked"),
        ),
        (
            "tests/planner/test_zero.py::test_load_goes_down_to_one_by_its_rules_and_to_zero_by_the_clock",
            "tests/scaling/rules/test_last_replica.py::test_down_by_one_to_zero_by_the_clock_alone_and_never_without_metrics",
        ),
    ),
    Fault(
        "zero.short-requests-unseen",
        "a request that came and went between two samples sets the idle clock back",
        (
            Edit(
                "operator/forebay/scaling/load/pod_history.py",
                "return later.in_flight > 0 or _request_counters(earlier) != _request_counters(later)",
                "return later.in_flight > 0",
            ),
        ),
        ("tests/scaling/load/test_idleness.py::test_when_a_pod_was_last_asked",),
    ),
    Fault(
        "zero.a-call-answered-for-ever",
        "a call that has been answered wakes nothing again",
        (
            Edit(WAKE_CALL, "return text == zero.answered_wake or (", "return (since is None) or ("),
            Edit(WAKE_CALL, "asked_at < since - CLOCK_SKEW_SECONDS", "asked_at < 0"),
        ),
        (
            "tests/planner/test_zero.py::test_which_calls_wake",
            "tests/planner/test_zero.py::test_a_call_wakes_it_and_it_stays_from_ready_for_as_long_as_it_may_idle",
        ),
    ),
)
