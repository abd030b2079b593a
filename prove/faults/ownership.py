"""Objects that are not ours by controller uid are never touched, and a stale decision is harmless."""

from prove.fault import Fault
from prove.mutations import always, at, entry, never

FAULTS = (
    Fault(
        "ownership.foreign-objects-are-touched",
        claim="an object that is not ours by controller uid is left alone, and no name is used while it is taken",
        planted="labels decide whose a pod is, nobody asks who controls a child, and every name is free",
        changes=(
            at("fleet_context_of", always("owner_uid", nth=1)),
            at("_observed_pods", always("owner_uid", nth=1)),
            at("Actor._must_be_ours", never("controller_uid")),
            at("Actor._apply_child", never("controller_uid")),
            at("free_ordinals", always("taken_ordinals"), never("taken_names")),
        ),
        guards=(
            "test_pods_of_somebody_else_are_not_touched_and_their_names_not_taken",
            "test_only_our_own_pods_are_touched_and_no_name_is_used_twice",
            "test_a_pod_of_another_owner_is_left_alone_and_reported",
            "test_a_service_of_another_owner_is_not_taken_over",
            "test_names_that_are_still_terminating_are_not_used",
        ),
    ),
    Fault(
        "ownership.owners-ignored",
        claim="children name the service as their controller, and orphans are adopted as far as they are needed",
        planted="children have no owner reference, and every orphan is needed",
        changes=(
            at("child_metadata", entry("ownerReferences", None)),
            at("_adopt", always("desired")),
        ),
        guards=(
            "test_the_controller_is_the_service",
            "test_orphans_of_a_known_revision_are_adopted_as_far_as_they_are_needed",
            "test_eight_orphans_with_room_for_two",
        ),
    ),
    Fault(
        "ownership.a-stale-decision-is-carried-out",
        claim="a pod that changed since it was looked at is not deleted, drained or adopted",
        planted="calls name no version of the pod, and deletions have no preconditions",
        changes=(
            at("KubernetesClient.delete", entry("preconditions", None)),
            at("Actor._delete_pod", entry("resource_version", "None")),
            at("Actor._change_pod", entry("resourceVersion", None)),
        ),
        guards=(
            "test_each_write_sends_the_right_request",
            "test_a_stale_pod_version_is_a_race_and_changes_nothing",
            "test_a_delete_requires_the_uid_that_was_read",
        ),
    ),
)
