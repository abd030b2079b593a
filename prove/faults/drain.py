"""A replica leaves without a cut stream: out of rotation, until nothing is in flight, then deleted."""

from prove.fault import Fault
from prove.mutations import always, at, delegates, entry, returns, value

DELETED_AT_ONCE = at("drain:start", delegates("delete"))

FAULTS = (
    Fault(
        "drain.deleted-at-once",
        claim="a replica that may have requests is drained before it is deleted",
        planted="the start of a drain deletes the pods",
        changes=(DELETED_AT_ONCE,),
        guards=("test_removal", "test_maxreplicas_lowered_drains_what_is_above_it_at_once"),
        quick=True,
    ),
    Fault(
        "drain.switched-off",
        claim="a scale-down under load cuts no stream",
        planted="there is no drain, no preStop hook and no grace period, and an engine ends at once",
        changes=(
            DELETED_AT_ONCE,
            at("drain_seconds", returns("0")),
            at("grace_seconds", returns("1")),
            at("_container", entry("lifecycle", None)),
        ),
        guards=("test_a_scale_down_under_load_cuts_no_stream",),
    ),
    Fault(
        "drain.ends-too-early",
        claim="a drain ends when a sample from after its start shows that nothing is in flight, and not before",
        planted="any sample ends a drain, however old it is and whatever it shows",
        changes=(at("finish", always("in_flight", nth=1), always("drain_grace_seconds")),),
        guards=("test_the_end_of_a_drain", "test_a_drained_replica_is_deleted_once_a_later_sample_shows_it_empty"),
    ),
    Fault(
        "drain.never-ends",
        claim="a drain ends with drainTimeout, whatever is still in flight",
        planted="drainTimeout is never over",
        changes=(at("finish", always("drain_timeout_seconds")),),
        guards=("test_the_end_of_a_drain",),
    ),
    Fault(
        "drain.not-on-the-pod",
        claim="a draining pod is out of rotation from the first moment, and its drain survives a restart",
        planted="a drain changes nothing on the pod, and the Service does not ask for the serving label",
        changes=(
            at("_draining", entry("SERVING", None), entry("DRAIN_STARTED", None)),
            at("serving_selector", entry("SERVING", None)),
            at("pod_view", entry("drain_started_at", "None")),
        ),
        guards=(
            "test_a_drain_and_its_end_are_one_write_each",
            "test_the_service_selects_a_serving_pod_and_no_draining_one",
            "test_a_drain_is_read_from_annotations",
        ),
    ),
    Fault(
        "drain.not-cancellable",
        claim="a drain is taken back when load returns, and the pod serves again",
        planted="no draining replica is good enough, and one that is taken back gets no serving label",
        changes=(at("_may_serve_instead", returns("False")), at("_SERVING", entry("SERVING", "None"))),
        guards=(
            "test_which_drains_are_cancelled",
            "test_load_that_returns_takes_the_newest_drain_back_before_anything_is_created",
            "test_a_drain_and_its_end_are_one_write_each",
        ),
    ),
    Fault(
        "drain.notice-ignored",
        claim="a spot or maintenance notice replaces all replicas of its node at once, and drains there end with it",
        planted="no taint is a notice, and no node has an end",
        changes=(at("NODE_NOTICE_TAINTS", value("frozenset()")), at("earliest_end", returns("None"))),
        guards=(
            "test_taints_of_nodes_that_are_about_to_end",
            "test_all_replicas_of_the_node_are_replaced_at_once_and_none_is_missed",
            "test_a_drain_that_the_notice_began_ends_with_the_notice",
            "test_a_drain_that_ran_before_the_notice_ends_with_it",
            "test_a_service_whose_spec_cannot_be_used_ends_its_drains_with_the_notice",
        ),
    ),
)
