"""Placeholders hold places, and are never taken for what serves."""

from prove.fault import Edit, Fault

HELD = "tests/planner/reconcile/test_placeholders.py"

FAULTS = (
    Fault(
        "placeholders.counted-as-replicas",
        "a placeholder is no replica, in no rule of scaling, rollouts or drains",
        (Edit("operator/forebay/planner/observe/fleet_context.py", "if pod.place is not None:", "if False:"),),
        (
            f"{HELD}::test_one_that_is_there_is_neither_made_again_nor_taken_for_a_replica",
            f"{HELD}::test_replicas_fare_as_if_there_were_none",
            f"{HELD}::test_it_comes_gives_way_in_one_step_and_comes_back",
        ),
    ),
    Fault(
        "placeholders.fill-the-ceiling",
        "the ceiling of GPUs serves replicas first, as if no placeholder were there",
        (Edit("operator/forebay/planner/reconcile/blast_radius.py", "if pod.place is None and (", "if (True) and ("),),
        (f"{HELD}::test_a_replica_takes_the_place_of_one_under_the_ceiling",),
    ),
    Fault(
        "placeholders.serve",
        "no Service, budget or endpoint list has a placeholder in it",
        (
            Edit(
                "operator/forebay/workloads/objects/placeholder.py",
                "{labels.ROLE: labels.PLACEHOLDER, labels.PLACEHOLDER_SHAPE: place.hash}",
                '{labels.ROLE: labels.PLACEHOLDER, labels.PLACEHOLDER_SHAPE: place.hash, labels.SERVING: "true"}',
            ),
        ),
        ("tests/workloads/test_golden.py::test_the_placeholder_of",),
    ),
)
