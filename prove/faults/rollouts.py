"""Replicas are replaced while the service goes on."""

from prove.fault import Fault
from prove.mutations import at, replaced, returns

FAULTS = (
    Fault(
        "rollouts.old-goes-before-new-serves",
        claim="needed capacity goes only after what replaces it serves",
        planted="every replica that has to leave may go",
        changes=(at("_replaced", replaced("max", "None")),),
        guards=(
            "test_a_rollout_at_maxreplicas_ends",
            "test_a_node_drain_moves_every_replica_first",
            "test_one_is_created_on_top_and_none_drained_before_it_serves",
        ),
    ),
    Fault(
        "rollouts.no-halt",
        claim="one failing replica of a new revision halts the rollout",
        planted="no rollout is halted",
        changes=(at("halt_of", returns("None")),),
        guards=(
            "test_a_failing_revision_halts_and_the_old_one_serves_and_grows",
            "test_what_halts_a_rollout",
            "test_while_halted_the_old_revision_replaces_what_it_loses_and_grows",
        ),
    ),
    Fault(
        "rollouts.nodes-ignored",
        claim="replicas leave a cordoned node, and those of a node that is gone are replaced",
        planted="no replica has to leave, and no node is lost",
        changes=(at("ServiceContext.must_leave", returns("False")), at("lost_nodes", returns("frozenset()"))),
        guards=(
            "test_a_node_drain_moves_every_replica_first",
            "test_a_new_revision_is_surged_and_a_node_drain_too",
            "test_a_lost_node_is_replaced_within_its_lead_time",
        ),
    ),
)
