"""A replica leaves without a cut stream: out of rotation, until nothing is in flight, then deleted."""

from prove.fault import Edit, Fault

DRAIN = "operator/forebay/planner/reconcile/drain.py"
BALANCE = "operator/forebay/planner/reconcile/balance.py"
ACTIONS = "operator/forebay/cluster/write/action_calls.py"
VIEWS = "operator/forebay/cluster/read/views.py"
SERVICE = "operator/forebay/workloads/objects/service.py"
ARGUMENTS = "operator/forebay/workloads/spec/engine_arguments.py"
TEMPLATE = "operator/forebay/workloads/objects/pod_template.py"

DELETED_AT_ONCE = Edit(
    DRAIN,
    "return (start(replica, reason, why) if replica.started else delete(replica, reason, why),)",
    "return (delete(replica, reason, why),)",
)

FAULTS = (
    Fault(
        "drain.deleted-at-once",
        "a replica that may have requests is drained before it is deleted",
        (DELETED_AT_ONCE,),
        (
            "tests/planner/reconcile/test_drain.py::test_removal",
            "tests/planner/test_planner.py::test_maxreplicas_lowered_drains_what_is_above_it_at_once",
        ),
    ),
    Fault(
        "drain.switched-off",
        "a scale-down under load cuts no stream",
        (
            DELETED_AT_ONCE,
            Edit(ARGUMENTS, 'f"--shutdown-timeout={drain_seconds(spec)}"', '"--shutdown-timeout=0"'),
            Edit(
                TEMPLATE, '"terminationGracePeriodSeconds": grace_seconds(spec)', '"terminationGracePeriodSeconds": 1'
            ),
            Edit(TEMPLATE, '            "lifecycle": {"preStop": {"sleep": {"seconds": PRE_STOP_SECONDS}}},\n', ""),
        ),
        ("e2e/cluster/test_drain_matters.py::test_a_scale_down_under_load_cuts_no_stream",),
    ),
    Fault(
        "drain.ends-with-requests-in-flight",
        "a drain ends when nothing is in flight, and not before",
        (Edit(DRAIN, "if replica.in_flight == 0 and sampled_at is not None and", "if sampled_at is not None and"),),
        ("tests/planner/reconcile/test_drain.py::test_the_end_of_a_drain",),
    ),
    Fault(
        "drain.believes-an-old-sample",
        "only a sample from after the start of the drain proves that nothing is in flight",
        (Edit(DRAIN, " and sampled_at >= started_at + settings.drain_grace_seconds:", ":"),),
        (
            "tests/planner/reconcile/test_drain.py::test_the_end_of_a_drain",
            "tests/planner/test_planner.py::test_a_drained_replica_is_deleted_once_a_later_sample_shows_it_empty",
        ),
    ),
    Fault(
        "drain.silence-is-emptiness",
        "a draining replica that tells nothing is given the whole of drainTimeout",
        (
            Edit(
                DRAIN,
                "if replica.in_flight == 0 and sampled_at is not None and sampled_at",
                "if not replica.in_flight and (sampled_at or now)",
            ),
        ),
        ("tests/planner/reconcile/test_drain.py::test_the_end_of_a_drain",),
    ),
    Fault(
        "drain.never-ends",
        "a drain ends with drainTimeout, whatever is still in flight",
        (Edit(DRAIN, "if now - started_at < drain_timeout_seconds:", "if replica.in_flight != 0:"),),
        ("tests/planner/reconcile/test_drain.py::test_the_end_of_a_drain",),
    ),
    Fault(
        "drain.label-kept",
        "a draining pod is out of rotation from the first moment",
        (Edit(ACTIONS, '"labels": {labels.SERVING: None},', '"labels": {},'),),
        ("tests/cluster/write/test_action_calls.py::test_a_drain_and_its_end_are_one_write_each",),
    ),
    Fault(
        "drain.draining-pods-selected",
        "the Service selects serving pods only",
        (
            Edit(
                SERVICE,
                '"selector": {**serving_selector(owner), RANK: "0"},',
                '"selector": {SERVICE_UID: owner.uid, RANK: "0"},',
            ),
        ),
        ("tests/workloads/objects/test_child_objects.py::test_the_service_selects_a_serving_pod_and_no_draining_one",),
    ),
    Fault(
        "drain.start-not-persisted",
        "the start of a drain is on the pod, so that the drain survives a restart of the operator",
        (
            Edit(
                ACTIONS,
                "{labels.DRAIN_STARTED: rfc3339(now), labels.DRAIN_REASON: reason}",
                "{labels.DRAIN_REASON: reason}",
            ),
        ),
        ("tests/cluster/write/test_action_calls.py::test_a_drain_and_its_end_are_one_write_each",),
    ),
    Fault(
        "drain.start-not-read",
        "an operator that has just started goes on with the drains of the one before",
        (
            Edit(
                VIEWS,
                "drain_started_at=unix_seconds(annotations.get(labels.DRAIN_STARTED)),",
                "drain_started_at=None,",
            ),
        ),
        ("tests/cluster/read/test_views.py::test_a_drain_is_read_from_annotations",),
    ),
    Fault(
        "drain.not-cancellable",
        "a drain is taken back when load returns",
        (
            Edit(
                BALANCE,
                "again = next((replica for replica in cancellable if _as_good(scene, replica, revision)), None)",
                "again = None",
            ),
        ),
        (
            "tests/planner/reconcile/test_balance.py::test_which_drains_are_taken_back",
            "tests/planner/test_planner.py::test_load_that_returns_takes_the_newest_drain_back_before_anything_is_created",
        ),
    ),
    Fault(
        "drain.cancelled-without-label",
        "a drain that is taken back puts the pod into rotation again",
        (Edit(ACTIONS, '    "labels": {labels.SERVING: "true"},\n', '    "labels": {},\n'),),
        ("tests/cluster/write/test_action_calls.py::test_a_drain_and_its_end_are_one_write_each",),
    ),
    Fault(
        "drain.the-busiest-goes",
        "among those that serve, the replica with the least in flight goes",
        (
            Edit(
                DRAIN,
                'float("inf") if replica.in_flight is None else replica.in_flight,',
                'float("inf") if replica.in_flight is None else -replica.in_flight,',
            ),
        ),
        (
            "tests/planner/reconcile/test_drain.py::test_who_leaves_first",
            "tests/planner/reconcile/test_balance.py::test_among_those_that_serve_the_least_busy_and_coldest_goes",
        ),
    ),
    Fault(
        "drain.several-at-a-time",
        "scaling down drains one replica at a time, or a tenth of many, and the next ones when those are gone",
        (
            Edit(
                "operator/forebay/scaling/rules/stabilizer.py",
                "    load_was_too_much,\n    draining_now,\n",
                "    load_was_too_much,\n",
            ),
            Edit(
                BALANCE,
                "chosen = [] if scene.having(ReplicaState.DRAINING) else serving[:batch]",
                "chosen = serving[:surplus]",
            ),
        ),
        ("tests/scaling/rules/test_stabilizer.py::test_what_holds_the_count",),
    ),
)
