"""minReplicas and maxReplicas hold at every moment, and so do the modes."""

from prove.fault import Fault
from prove.mutations import always, at, element, never, replaced, returns

FAULTS = (
    Fault(
        "bounds.maxreplicas-not-enforced",
        claim="replicas never exceed maxReplicas, plus maxSurge while some are replaced, whatever a rule proposes",
        planted="no proposal is cut, creation knows no limit, and what is above a lowered maxReplicas stays",
        changes=(
            at("max_replicas", returns("proposal")),
            at("grow", replaced("max", "None", nth=2)),
            at("_above_the_limit", returns("[]")),
        ),
        guards=(
            "test_maxreplicas_cuts_and_says_what_was_asked",
            "test_desired_is_always_within_bounds",
            "test_bounds_hold_at_every_tick_and_the_cluster_settles",
            "test_maxreplicas_lowered_drains_what_is_above_it_at_once",
        ),
    ),
    Fault(
        "bounds.places-not-counted",
        claim="a replica that is stuck holds its place under maxReplicas until it is deleted",
        planted="it does not count",
        changes=(at("replicas:LIVE", element("BLOCKED")),),
        guards=("test_a_stuck_replica_is_tried_once_more_and_then_left_to_wait_for_a_node",),
    ),
    Fault(
        "bounds.minreplicas-ignored",
        claim="no decision is below minReplicas and the warm replicas on top",
        planted="the floor is one replica",
        changes=(at("min_replicas", replaced("min_replicas", "min(1, _)", nth=1)),),
        guards=(
            "test_floors",
            "test_down_by_one_after_a_quiet_window_and_never_below_the_floor",
            "test_desired_is_always_within_bounds",
        ),
    ),
    Fault(
        "bounds.modes-ignored",
        claim="mode Paused creates and deletes nothing, and in mode Recommend load only advises",
        planted="the planner does not look for Paused, and load decides in every mode",
        changes=(
            at("reconcile:_steps", never("PAUSED")),
            at("_actions", never("PAUSED")),
            at("desired:decide", always("AUTO")),
        ),
        guards=(
            "test_paused_does_nothing",
            "test_load_only_advises",
            "test_recommend_replaces_what_is_lost_and_does_not_follow_the_load",
        ),
    ),
    Fault(
        "bounds.actions-out-of-order",
        claim="what goes is done before what comes, since a plan lists actions in one order and that order is kept",
        planted="a plan lists actions as they come, and the last one listed is carried out first",
        changes=(
            at("in_order", returns("tuple(actions)")),
            at("Applier._apply_in_order", replaced("actions", "_[::-1]")),
        ),
        guards=(
            "test_dependencies_come_first_and_removals_before_creations",
            "test_a_plan_lists_its_actions_in_their_one_order",
            "test_actions_are_carried_out_as_the_plan_lists_them",
        ),
    ),
)
