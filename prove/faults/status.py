"""Nothing is written that says nothing new, and what is told of a decision is what it was made from."""

from prove.fault import Fault
from prove.mutations import at, calling, element, entry, never, replaced, returns

FAULTS = (
    Fault(
        "status.written-at-every-tick",
        claim="a status, a condition's time and an Event are written for what is new, numbers of the load every 30 s",
        planted="every status is worth a write, conditions take the time of now, and no Event is remembered",
        changes=(
            at("should_write", returns("True")),
            at("conditions:_condition", entry("last_transition_time", "rfc3339(now)"), never("reason")),
            at("events_to_send", never("known")),
        ),
        guards=(
            "test_when_a_status_is_written",
            "test_telemetry_is_written_every_30_s_and_decisions_at_once",
            "test_a_condition_keeps_its_time_as_long_as_its_status",
            "test_events_of_a_service_are_sent_once_and_not_again_after_a_restart",
        ),
        quick=True,
    ),
    Fault(
        "status.children-rewritten",
        claim="a child that was changed by hand is put right, and what the API server and others add is left alone",
        planted="the Service's cluster IP counts as ours, and the budget's minAvailable does not",
        changes=(
            at("service_fields", entry("headless", 'spec.get("clusterIP")')),
            at("disruption_budget_fields", element("minAvailable")),
        ),
        guards=(
            "test_fields_of_the_api_server_and_other_owners_are_no_change",
            "test_a_manual_change_changes_the_fingerprint",
            "test_applying_the_same_again_changes_nothing",
        ),
    ),
    Fault(
        "status.marks-on-the-users-object",
        claim="no finalizer and no annotation is put on what the user wrote, and a status write wakes nobody",
        planted="a kopf handler that leaves marks, and a watch that goes by the resource version",
        changes=(
            at("build_registry", calling("event", "kopf.on.update")),
            at("_intent", returns('(metadata.get("resourceVersion"),)')),
            at("_asked_for", returns("(stored.metadata.resource_version,)")),
        ),
        guards=(
            "test_only_handlers_that_write_nothing_are_used",
            "test_changes_that_do_not_wake_the_loop",
            "test_a_changed_spec_wakes_and_a_changed_status_does_not",
        ),
    ),
    Fault(
        "status.explains-old-numbers",
        claim="what is told of a decision follows its signals, names what would raise it, and outlives the operator",
        planted="the first text stays, silent replicas answer, the past is dropped, a queue is told for one replica",
        changes=(
            at("status_of", replaced("decision_status", "before.decision or _")),
            at("signals_status", entry("answering", "load.replicas")),
            at("past_decisions", element("before")),
            at("_late_signals", replaced("known_capacity", "1.0")),
        ),
        guards=(
            "test_a_changed_signal_changes_the_text",
            "test_each_silent_replica_changes_the_text",
            "test_past_decisions_outlive_the_operator",
            "test_past_the_threshold_the_rule_asks_for_more",
        ),
    ),
)
