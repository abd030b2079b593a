"""Replicas of several pods are one thing, and other shapes are used when the first cannot be had."""

from prove.fault import Fault
from prove.mutations import always, at, entry, never, replaced, returns

FAULTS = (
    Fault(
        "variants.half-a-group-is-ready",
        claim="a group is scheduled when all its pods exist, serves when all are ready, and clients reach rank 0 alone",
        planted="the first pod speaks for all, gates are lifted one by one, and the Service selects every rank",
        changes=(
            at("serving", always("wanted"), replaced("all", "pods[0].ready")),
            at("gate_lifts", never("shape")),
            at("service_body", entry("RANK", None)),
        ),
        guards=(
            "test_half_a_group_is_no_capacity",
            "test_half_a_group_stays_behind_its_gate_and_is_completed",
            "test_only_rank_0_has_clients_and_probes",
        ),
    ),
    Fault(
        "variants.half-a-group-is-kept",
        claim="a group that lost a rank fails as a whole, and one that holds GPUs for some ranks only is given back",
        planted="neither is seen",
        changes=(at("rank_lost", returns("None")), at("holds_half", returns("False"))),
        guards=(
            "test_a_rank_that_was_started_again_after_the_replica_served_fails_the_whole",
            "test_with_room_for_one_rank_the_half_is_given_back_again_and_again_and_never_counts",
        ),
    ),
    Fault(
        "variants.never-used",
        claim="replicas that cannot be had make way for the next variant, and each counts by its own capacity",
        planted="no replica makes way, and every one counts as one",
        changes=(
            at("VariantOrder.has_alternative", returns("False")),
            at("_weight", returns("1.0")),
            at("ReplicaWeights.capacity_of", returns("float(replicas)")),
        ),
        guards=(
            "test_an_unschedulable_replica_is_replaced_by_the_next_variant",
            "test_each_replica_is_counted_by_its_own_capacity",
            "test_scaling_down_asks_for_the_capacity_of_the_replicas_left",
        ),
    ),
    Fault(
        "variants.return-without-hold",
        claim="replicas return after a hold, a restart begins one, and none drains before its replacement serves",
        planted="a hold is over at once, an operator that starts knows none, and a return waits for nothing",
        changes=(
            at("variant_order:retry_at", returns("shortage.seen_at")),
            at("variant_order_of", never("earlier", nth=2)),
            at("may_begin", always("live")),
            at("may_finish", always("needed")),
        ),
        guards=(
            "test_replicas_return_one_by_one_when_nothing_needed_is_drained_and_after_the_hold",
            "test_a_return_that_finds_no_room_costs_nothing_and_is_tried_less_and_less_often",
            "test_an_operator_that_has_just_started_leaves_replicas_where_they_are",
        ),
    ),
    Fault(
        "variants.quota-not-asked-again",
        claim="a shape for which a ResourceQuota left no space is used as soon as it leaves some",
        planted="the shape waits for the end of its hold",
        changes=(at("variant_order_of", never("by_quota")),),
        guards=("test_when_no_shape_fits_the_first_that_fits_later_is_used_at_once",),
    ),
)
