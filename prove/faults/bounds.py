"""minReplicas and maxReplicas hold at every moment."""

from prove.fault import Edit, Fault

FLOORS = "operator/forebay/scaling/rules/floors.py"
BALANCE = "operator/forebay/planner/reconcile/balance.py"
AT_EVERY_TICK = "tests/planner/test_properties.py::test_whatever_happens_bounds_hold_at_every_tick_and_it_comes_to_rest"
UNBOUNDED_DECISION = Edit(FLOORS, "if proposal.replicas <= limits.max_replicas:", "if proposal.replicas >= 0:")

FAULTS = (
    Fault(
        "bounds.maxreplicas-not-enforced",
        "no decision is above maxReplicas, whatever a rule proposes",
        (UNBOUNDED_DECISION,),
        (
            "tests/scaling/test_desired.py::test_maxreplicas_cuts_and_says_what_was_asked",
            "tests/planner/test_properties.py::test_desired_is_always_within_bounds",
        ),
    ),
    Fault(
        "bounds.minreplicas-ignored",
        "no decision is below minReplicas and the warm replicas on top",
        (Edit(FLOORS, "Proposal(limits.min_replicas, ", "Proposal(min(1, limits.min_replicas), "),),
        (
            "tests/scaling/test_desired.py::test_floors",
            "tests/scaling/test_desired.py::test_down_by_one_after_a_quiet_window_and_never_below_the_floor",
            "tests/planner/test_properties.py::test_desired_is_always_within_bounds",
        ),
    ),
    Fault(
        "bounds.created-above-the-limit",
        "replicas that take requests or come up never exceed maxReplicas, plus maxSurge while some are replaced",
        (UNBOUNDED_DECISION, Edit(BALANCE, "for revision in missing[: max(0, room)]:", "for revision in missing:")),
        (AT_EVERY_TICK,),
    ),
    Fault(
        "bounds.lost-replicas-not-counted",
        "a replica on a lost node holds its place under maxReplicas until it is deleted",
        (Edit(BALANCE, "- len(rest.live) - still_there", "- len(rest.live)"),),
        ("tests/planner/reconcile/test_blast_radius.py::test_a_mistaken_loss_of_nodes_is_bounded_like_drains",),
    ),
    Fault(
        "bounds.stuck-replicas-not-counted",
        "a replica that is stuck on its way still holds its place under maxReplicas",
        (
            Edit(
                "operator/forebay/planner/observe/service_context.py",
                "return self.having(*LIVE)",
                "return self.having(LIVE[0], LIVE[2])",
            ),
        ),
        (
            "tests/planner/reconcile/test_balance.py::test_a_stuck_replica_is_tried_once_more_and_then_left_to_wait_for_a_node",
        ),
    ),
    Fault(
        "bounds.lowered-maxreplicas-waits",
        "what is above a lowered maxReplicas drains at once",
        (
            Edit(
                BALANCE,
                "for remove in (_making_way, _superseded, _above_the_limit, _surplus, _replaced, _returned):",
                "for remove in (_making_way, _superseded, _surplus, _replaced, _returned):",
            ),
        ),
        ("tests/planner/test_planner.py::test_maxreplicas_lowered_drains_what_is_above_it_at_once",),
    ),
    Fault(
        "bounds.orphans-beyond-need-serve-on",
        "orphans beyond what is wanted are adopted as draining",
        (Edit(BALANCE, "needed = not draining and len(live) + len(adopted) < scene.desired", "needed = not draining"),),
        (
            "tests/planner/reconcile/test_balance.py::test_orphans_of_a_known_revision_are_adopted_as_far_as_they_are_needed",
            "tests/planner/test_stories.py::test_eight_orphans_with_room_for_two",
        ),
    ),
    Fault(
        "bounds.paused-acts",
        "mode Paused creates and deletes nothing",
        (
            Edit("operator/forebay/planner/planner.py", "        return (), Balance()\n", "        pass\n"),
            Edit(
                "operator/forebay/planner/planner.py",
                "    if scene.spec.scaling.mode is ScalingMode.PAUSED:\n        return ()\n",
                "",
            ),
        ),
        ("tests/planner/test_planner.py::test_paused_does_nothing",),
    ),
)
