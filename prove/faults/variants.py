"""Other shapes are used when the first cannot be had, counted by what they carry, and left without loss."""

from prove.fault import Edit, Fault

VARIANTS = "operator/forebay/planner/observe/variant_order.py"
RETURNING = "operator/forebay/planner/reconcile/variant_failback.py"
TESTS = "tests/planner/observe/test_variant_order.py"

FAULTS = (
    Fault(
        "variants.never-used",
        "replicas that cannot be had make way for ones of the next variant",
        (
            Edit(
                VARIANTS, "return self.several and not replica.half_placed", "return False and not replica.half_placed"
            ),
        ),
        (f"{TESTS}::test_what_stays_unschedulable_is_replaced_by_the_next_variant",),
    ),
    Fault(
        "variants.half-a-group-is-no-shortage",
        "a shape of which only a part finds its nodes could not be had, as one that finds none",
        (
            Edit(
                VARIANTS,
                "    if replica.state is not ReplicaState.BLOCKED:\n",
                "    if replica.state is not ReplicaState.BLOCKED or replica.half_placed:\n",
            ),
        ),
        (
            "tests/planner/test_variant_groups.py::test_a_pair_that_finds_only_one_of_its_nodes_leads_to_a_variant_of_one",
        ),
    ),
    Fault(
        "variants.capacity-ignored",
        "each replica is counted by its own capacity",
        (
            Edit(
                "operator/forebay/planner/observe/replica_shares.py",
                "return min(MOST, max(LEAST, round(theirs / mine * STEPS) / STEPS))",
                "return 1.0",
            ),
        ),
        (f"{TESTS}::test_each_replica_is_counted_by_its_own_capacity",),
    ),
    Fault(
        "variants.the-way-down-counts-heads",
        "a step down asks what the replicas that are left carry, not how many they are",
        (
            Edit(
                "operator/forebay/scaling/rules/stabilizer.py",
                "    capacity = weights.capacity_of(replicas)\n",
                "    capacity = replicas\n",
            ),
        ),
        ("tests/scaling/test_replica_weights.py::test_scaling_down_asks_for_the_capacity_of_the_replicas_left",),
    ),
    Fault(
        "variants.return-without-hold",
        "a shape that could not be had is not tried again before its hold is over",
        (Edit(VARIANTS, "return shortage.seen_at + min(longest,", "return shortage.seen_at + 0 * min(longest,"),),
        (
            f"{TESTS}::test_replicas_return_one_by_one_when_nothing_needed_is_drained_and_after_the_hold",
            f"{TESTS}::test_a_return_that_finds_no_room_costs_nothing_and_is_tried_less_and_less_often",
        ),
    ),
    Fault(
        "variants.a-restart-forgets-the-hold",
        "an operator that has just started leaves replicas where they are",
        (Edit(VARIANTS, "elif earlier is None and _used_instead(", "elif earlier and _used_instead("),),
        (f"{TESTS}::test_an_operator_that_has_just_started_leaves_replicas_where_they_are",),
    ),
    Fault(
        "variants.the-next-return-does-not-wait",
        "replicas return one at a time: the next is tried when what the last one replaced has gone",
        (Edit(RETURNING, " and len(rest.live) == len(scene.live)", ""),),
        (f"{TESTS}::test_replicas_return_one_by_one_when_nothing_needed_is_drained_and_after_the_hold",),
    ),
    Fault(
        "variants.return-drains-what-is-needed",
        "a replica of a variant drains once one of the preferred shape serves, and not before",
        (
            Edit(
                RETURNING,
                "return _quiet(scene, rest) and len(rest.staying) > needed",
                "return _quiet(scene, rest) and needed > 0",
            ),
        ),
        (f"{TESTS}::test_replicas_return_one_by_one_when_nothing_needed_is_drained_and_after_the_hold",),
    ),
)
