"""Replicas of several pods are one thing."""

from prove.fault import Edit, Fault

REPLICAS = "operator/forebay/planner/observe/replicas.py"
GROUPS = "operator/forebay/planner/reconcile/rank_groups.py"
TESTS = "tests/planner/reconcile/test_rank_groups.py"

FAULTS = (
    Fault(
        "groups.half-a-group-is-ready",
        "a replica of several pods serves when all of them are ready, and not before",
        (
            Edit(
                REPLICAS,
                "if len(pods) >= wanted and all(pod.ready for pod in pods) else None",
                "if pods[0].ready else None",
            ),
        ),
        (f"{TESTS}::test_half_a_group_is_no_capacity",),
    ),
    Fault(
        "groups.gates-lifted-one-by-one",
        "no pod of a group reaches the scheduler before all of them exist",
        (Edit(GROUPS, " or revision is None or len(replica.pods) < revision.shape.pods:", " or revision is None:"),),
        (f"{TESTS}::test_half_a_group_stays_behind_its_gate_and_is_completed",),
    ),
    Fault(
        "groups.a-lost-rank-goes-unnoticed",
        "a rank that was started again after the replica served fails the whole replica",
        (Edit(REPLICAS, "    incomplete,\n    rank_lost,\n", "    incomplete,\n"),),
        (f"{TESTS}::test_a_rank_that_was_started_again_after_the_replica_served_fails_the_whole",),
    ),
    Fault(
        "groups.half-a-group-is-kept",
        "a group that holds GPUs for some ranks only is given back",
        (
            Edit(
                "operator/forebay/planner/reconcile/terminations.py",
                "if not groups.may_give_back(scene, replica) if groups.holds_half(replica) else scene.now < due_at:",
                "if scene.now < due_at:",
            ),
        ),
        (f"{TESTS}::test_with_room_for_one_rank_the_half_is_given_back_again_and_again_and_never_counts",),
    ),
    Fault(
        "groups.every-rank-has-clients",
        "the Service leads to rank 0 alone",
        (
            Edit(
                "operator/forebay/workloads/objects/service.py",
                '"selector": {**serving_selector(owner), RANK: "0"},',
                '"selector": serving_selector(owner),',
            ),
        ),
        ("tests/workloads/objects/test_ranks.py::test_only_rank_0_has_clients_and_probes",),
    ),
)
