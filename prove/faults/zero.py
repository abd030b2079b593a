"""To zero by the idle clock alone, and back when somebody asks."""

from prove.fault import Fault
from prove.mutations import always, at, entry, never, replaced, returns, without

FAULTS = (
    Fault(
        "zero.clock-from-creation",
        claim="the idle clock counts from the later of the last request and Ready, never from creation",
        planted="it counts from a time before the replica was ready",
        changes=(
            at("update_idleness", replaced("max", "load.ready_since")),
            at("observed_service:_load", entry("ready_since", "0.0")),
        ),
        guards=("test_the_clock_begins_with_ready_however_long_the_pod_waited_for_its_node",),
    ),
    Fault(
        "zero.silence-is-idleness",
        claim="a service goes to zero only after metrics showed for all of scaleToZeroAfter that nothing was asked",
        planted="silence counts as idle, and so do requests that came and went between two samples",
        changes=(
            at("_not_idle", always("complete"), never("active_at")),
            at("update_idleness", without("active_at", nth=1), replaced("active_at", "(_ or 0.0)")),
            at("_had_requests", returns("later.in_flight > 0")),
        ),
        guards=(
            "test_missing_metrics_never_lead_to_zero",
            "test_down_by_one_to_zero_by_the_clock_alone_and_never_without_metrics",
            "test_time_of_the_last_request_of_a_pod",
        ),
    ),
    Fault(
        "zero.many-to-none",
        claim="the way to zero leads over one replica, and a call that was answered wakes nothing again",
        planted="the idle clock may end every replica at once, and no call counts as answered",
        changes=(
            at("stabilizer_rules", always("desired", nth=3)),
            at("others_serve", returns("None")),
            at("_was_answered", returns("False")),
        ),
        guards=(
            "test_load_goes_down_to_one_by_its_rules_and_to_zero_by_the_clock",
            "test_down_by_one_to_zero_by_the_clock_alone_and_never_without_metrics",
            "test_which_wake_requests_wake",
        ),
        quick=True,
    ),
)
