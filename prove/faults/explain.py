"""What is told of a decision is what it was made from, now and afterwards."""

from prove.fault import Edit, Fault

STATUS = "operator/forebay/planner/report/service_status.py"
RECORD = "operator/forebay/planner/report/decision_record.py"
THRESHOLDS = "operator/forebay/scaling/rules/thresholds.py"
TESTS = "tests/cli/explain/test_explain_decision.py"

FAULTS = (
    Fault(
        "explain.old-numbers",
        "a changed signal changes what is told, though the number stays",
        (
            Edit(
                STATUS,
                "decision=decision_status(outcome),",
                "decision=before.decision or decision_status(outcome),",
            ),
        ),
        (f"{TESTS}::test_a_changed_signal_changes_the_text",),
    ),
    Fault(
        "explain.silence-not-told",
        "a replica that does not answer changes what is told",
        (Edit(RECORD, "answering=load.known,", "answering=load.replicas,"),),
        (f"{TESTS}::test_each_silent_replica_changes_the_text",),
    ),
    Fault(
        "explain.past-forgotten",
        "past decisions outlive the operator that made them",
        (
            Edit(
                STATUS, "decisions=decisions(before.decisions, outcome, now),", "decisions=decisions((), outcome, now),"
            ),
        ),
        (f"{TESTS}::test_past_decisions_outlive_the_operator",),
    ),
    Fault(
        "explain.queue-turning-point",
        "what would raise the number is the value at which the rule asks for more",
        (
            Edit(
                THRESHOLDS,
                "most = floor(limits.queue_depth * load.known_capacity)",
                "most = floor(limits.queue_depth)",
            ),
        ),
        ("tests/scaling/rules/test_thresholds.py::test_past_the_threshold_the_rule_asks_for_more",),
    ),
)
