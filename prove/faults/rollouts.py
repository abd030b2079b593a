"""Replicas are replaced while the service goes on."""

from prove.fault import Edit, Fault

BALANCE = "operator/forebay/planner/reconcile/balance.py"
ROLLOUT = "operator/forebay/planner/reconcile/rollout.py"

FAULTS = (
    Fault(
        "rollouts.old-goes-before-new-serves",
        "needed capacity goes only after what replaces it serves",
        (Edit(BALANCE, "spared = leaving[: max(0, len(serving) - scene.desired)]", "spared = leaving"),),
        (
            "tests/planner/test_stories.py::test_a_rollout_at_maxreplicas_ends",
            "tests/planner/test_stories.py::test_a_node_drain_moves_every_replica_first",
            "tests/planner/reconcile/test_rollout.py::test_one_is_created_on_top_and_none_drained_before_it_serves",
        ),
    ),
    Fault(
        "rollouts.no-halt",
        "one failing replica of a new revision halts the rollout",
        (
            Edit(
                ROLLOUT,
                "        return Halt(faulty[0].revision, tuple(uids), faulty[0].message)\n",
                "        return None if uids else before\n",
            ),
        ),
        (
            "tests/planner/test_stories.py::test_a_failing_revision_halts_and_the_old_one_serves_and_grows",
            "tests/planner/reconcile/test_rollout.py::test_what_halts_a_rollout",
            "tests/planner/reconcile/test_rollout.py::test_while_halted_the_old_revision_replaces_what_it_loses_and_grows",
        ),
    ),
    Fault(
        "rollouts.cordons-ignored",
        "a cordoned node is a request that is fulfilled: its replicas move",
        (
            Edit(
                "operator/forebay/planner/observe/service_context.py",
                "return bool(self.cordoned) and not self.cordoned.isdisjoint(replica.nodes)",
                "return False",
            ),
        ),
        (
            "tests/planner/test_stories.py::test_a_node_drain_moves_every_replica_first",
            "tests/planner/test_planner.py::test_a_new_revision_is_surged_and_a_node_drain_too",
        ),
    ),
    Fault(
        "rollouts.a-lost-node-keeps-its-replicas",
        "replicas of a node that is gone are replaced",
        (
            Edit(
                "operator/forebay/planner/observe/nodes.py",
                "if now - since >= settings.node_lost_after_seconds",
                "if now - since < 0",
            ),
        ),
        ("tests/planner/test_stories.py::test_a_lost_node_is_replaced_within_its_lead_time",),
    ),
    Fault(
        "rollouts.a-terminating-name-is-taken",
        "a name is not used again while its object exists",
        (
            Edit(
                "operator/forebay/world/names.py",
                "if ordinal not in taken_ordinals and not any(",
                "if ordinal not in taken_ordinals or not any(",
            ),
            Edit(
                BALANCE,
                "taken = {replica.ordinal for replica in every if replica.revision == revision.hash}",
                "taken = {replica.ordinal for replica in every if replica in scene.live}",
            ),
        ),
        (
            "tests/planner/test_stories.py::test_names_that_are_still_terminating_are_not_used",
            "tests/planner/reconcile/test_balance.py::test_names_of_whatever_exists_are_left_out",
        ),
    ),
)
