"""How much one planner may do, whatever it believes, and that placeholders are in nobody's way."""

from prove.fault import Fault
from prove.mutations import always, at, body, entry, never, returns

FAULTS = (
    Fault(
        "blast-radius.implausible-world-believed",
        claim="an implausible world is not acted on, and neither a plan that is held nor a dry run makes a call",
        planted="every world is plausible, a plan that is held is carried out, and a dry run acts",
        changes=(
            at("implausible", never("limit_seconds")),
            at("Applier.apply", never("held")),
            at("Loop._tick", always("held")),
            at("Applier._carry_out", never("_dry_run")),
        ),
        guards=(
            "test_an_implausible_world_is_held_back",
            "test_no_services_where_there_were_many_is_held_back",
            "test_a_plan_that_is_held_does_nothing",
            "test_a_held_plan_writes_nothing_and_says_why_once",
            "test_a_dry_run_calls_nothing",
        ),
        quick=True,
    ),
    Fault(
        "blast-radius.no-limits",
        claim="drains per ten minutes, creations per minute and GPUs are bounded over all services",
        planted="every step is granted",
        changes=(at("Budget.grant", returns("True")),),
        guards=(
            "test_drains_per_ten_minutes_are_bounded_over_all_services",
            "test_creations_per_minute_are_bounded_and_services_without_any_replica_come_first",
            "test_the_gpu_ceiling_counts_every_pod_there_is",
        ),
        quick=True,
    ),
    Fault(
        "blast-radius.quotas-ignored",
        claim="a creation that a ResourceQuota would refuse is not attempted, of replicas or of placeholders",
        planted="a quota leaves space for everything",
        changes=(at("NamespaceQuotas.block", returns("None")),),
        guards=(
            "test_creations_within_a_quota",
            "test_creations_never_exceed_a_quota",
            "test_a_quota_never_has_to_refuse",
            "test_a_quota_holds_replicas_back_without_a_single_refusal_until_it_is_raised",
            "test_placeholders_get_what_replicas_leave",
        ),
    ),
    Fault(
        "blast-radius.quota-shared-twice",
        claim="what one creation of a tick takes of a ResourceQuota is gone for the next, whichever service it is for",
        planted="nothing that a tick plans is charged",
        changes=(at("QuotaBudget._charge", returns("None")),),
        guards=(
            "test_creations_within_a_quota",
            "test_services_share_a_quota_and_one_without_replicas_comes_first",
            "test_creations_never_exceed_a_quota",
        ),
    ),
    Fault(
        "blast-radius.quota-scopes-ignored",
        claim="a ResourceQuota with scopes counts the pods that all of them match, and no others",
        planted="every quota counts every pod",
        changes=(at("pod_charge:applies", returns("True")),),
        guards=(
            "test_scopes",
            "test_creations_within_a_quota",
            "test_placeholders_of_another_quota_stay",
        ),
    ),
    Fault(
        "blast-radius.lost-replicas-charged",
        claim="lost replicas are charged to no limit, and pods of dead nodes hold no ceiling",
        planted="lost replicas are charged to the drain limit, and pods of lost nodes to the ceiling of GPUs",
        changes=(at("drain:delete_lost", entry("charged", "True")), at("gpus_under_ceiling", always("lost_nodes"))),
        guards=(
            "test_lost_replicas_are_charged_to_no_limit",
            "test_a_terminating_pod_of_a_lost_node_holds_no_ceiling",
            "test_a_dead_node_does_not_fill_the_ceiling_of_gpus",
        ),
    ),
    Fault(
        "blast-radius.one-fault-holds-all",
        claim="a fault in planning one service, or a call that is refused, holds that service alone",
        planted="both are raised",
        changes=(at("isolation:failed", body("raise error")), at("OutcomeRecord.note", body("raise error"))),
        guards=(
            "test_an_error_in_one_service_affects_that_service_alone",
            "test_a_failed_call_affects_only_its_own_service",
        ),
    ),
    Fault(
        "blast-radius.placeholders-count-as-replicas",
        claim="a placeholder is no replica in any rule, and fills no ceiling of GPUs that a replica needs",
        planted="placeholders are among the pods of a service, and count against the ceiling",
        changes=(at("fleet_context_of", never("place")), at("gpus_under_ceiling", always("place"))),
        guards=(
            "test_an_existing_placeholder_is_neither_recreated_nor_counted_as_a_replica",
            "test_placeholders_do_not_change_actions_on_replicas",
            "test_a_placeholder_is_preempted_in_one_step_and_returns",
            "test_a_replica_takes_the_place_of_one_under_the_ceiling",
        ),
    ),
)
