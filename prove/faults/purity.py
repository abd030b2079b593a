"""What decides is a calculation: same input, same output, to the byte."""

from prove.fault import Fault
from prove.mutations import at, begins, calling, replaced, unwrapped

LAYERS = "test_imports_keep_the_contracts"

FAULTS = (
    Fault(
        "purity.a-clock-is-read",
        claim="pure packages import neither clock nor chance, and the moment of a plan is an argument",
        planted="a guard imports `time`, and the planner reads the wall clock",
        changes=(
            at("queue_depth", begins("import time")),
            at("planner:plan", begins("from datetime import UTC, datetime\nnow = datetime.now(UTC).timestamp()")),
        ),
        guards=(LAYERS, "test_pure_packages_ask_no_clock"),
    ),
    Fault(
        "purity.an-import-upwards",
        claim="no layer imports one above it",
        planted="a guard imports the planner",
        changes=(at("queue_depth", begins("import forebay.planner")),),
        guards=(LAYERS,),
    ),
    Fault(
        "purity.the-order-matters",
        claim="the order in which services and pods come in does not matter, nor that of a set in another process",
        planted="services and pods are taken as they come, and avoided nodes in the order of a set",
        changes=(
            at("observe:observe", unwrapped("sorted")),
            at("_by_name", unwrapped("sorted")),
            at("replicas_of", unwrapped("sorted", nth=1)),
            at("avoided_nodes", replaced("sorted", "list(set(_))")),
        ),
        guards=(
            "test_the_order_of_the_input_does_not_matter",
            "test_grouping_does_not_depend_on_order",
            "test_the_same_input_gives_the_same_plan_in_every_process",
        ),
    ),
    Fault(
        "purity.a-plan-is-never-done",
        claim="a plan that was carried out leaves nothing to do",
        planted="a revision that is stored is stored again",
        changes=(
            at(
                "revision_choice:choose",
                calling("RevisionChoice", "(lambda target, **_more: _to_store(target, wanted))", nth=1),
            ),
        ),
        guards=(
            "test_a_plan_that_was_carried_out_leaves_nothing_to_do",
            "test_the_same_manifests_again_change_nothing",
        ),
    ),
)
