"""What decides is a calculation: same input, same output, to the byte."""

from prove.fault import Edit, Fault

PLANNER = "operator/forebay/planner/planner.py"
GUARDS = "operator/forebay/scaling/rules/guards.py"
REPLICAS = "operator/forebay/planner/observe/replicas.py"
LAYERS = "tests/test_layers.py::test_imports_keep_the_contracts"
SHUFFLED = "tests/planner/test_properties.py::test_the_order_of_what_comes_in_does_not_matter"

FAULTS = (
    Fault(
        "purity.time-imported",
        "pure packages import no clock",
        (
            Edit(
                GUARDS, "from typing import Final\n", "from time import time  # noqa: F401\nfrom typing import Final\n"
            ),
        ),
        (LAYERS,),
    ),
    Fault(
        "purity.chance-imported",
        "pure packages import no chance",
        (Edit(PLANNER, "import traceback\n", "import random  # noqa: F401\nimport traceback\n"),),
        (LAYERS,),
    ),
    Fault(
        "purity.an-import-upwards",
        "no layer imports one above it",
        (
            Edit(
                GUARDS,
                "from forebay.scaling.limits import Limits\n",
                "from forebay.planner import settings  # noqa: F401\nfrom forebay.scaling.limits import Limits\n",
            ),
        ),
        (LAYERS,),
    ),
    Fault(
        "purity.the-wall-clock-is-read",
        "the moment of a plan is an argument",
        (
            Edit(PLANNER, "import traceback\n", "import traceback\nfrom datetime import UTC, datetime\n"),
            Edit(
                PLANNER,
                "held, census = blast_radius.doubt(",
                "now = datetime.now(UTC).timestamp()\n    held, census = blast_radius.doubt(",
            ),
        ),
        (
            "tests/test_layers.py::test_pure_packages_ask_no_clock",
            "tests/planner/report/test_service_status.py::test_a_condition_keeps_its_time_as_long_as_its_status",
        ),
    ),
    Fault(
        "purity.order-of-services-matters",
        "the order in which services come in does not matter",
        (
            Edit(
                PLANNER,
                "services = sorted(world.services, key=lambda service: (service.key, service.uid))",
                "services = list(world.services)",
            ),
        ),
        (SHUFFLED,),
    ),
    Fault(
        "purity.order-of-pods-matters",
        "the order in which pods come in does not matter",
        (
            Edit(
                "operator/forebay/planner/observe/fleet_context.py",
                "tuple(sorted(found, key=lambda pod: (pod.name, pod.uid))) for uid",
                "tuple(found) for uid",
            ),
            Edit(
                REPLICAS, "for pod in sorted(pods, key=lambda pod: (pod.rank, pod.name, pod.uid)):", "for pod in pods:"
            ),
        ),
        (SHUFFLED, "tests/planner/observe/test_replicas.py::test_grouping_does_not_depend_on_order"),
    ),
    Fault(
        "purity.the-order-of-a-set-shows",
        "another process makes the same plan, though its sets have another order",
        (
            Edit(
                "operator/forebay/planner/observe/nodes.py",
                "tuple(avoided[:MOST_AVOIDED])",
                "tuple(set(avoided))[:MOST_AVOIDED]",
            ),
        ),
        ("tests/planner/test_purity.py::test_the_same_input_gives_the_same_plan_in_every_process",),
    ),
    Fault(
        "purity.a-plan-is-never-done",
        "a plan that was carried out leaves nothing to do",
        (
            Edit(
                "operator/forebay/planner/observe/revision_choice.py",
                "return Choice(newest, update_available=newest.hash != wanted.hash)",
                "return _stored_anew(newest, wanted)",
            ),
        ),
        (
            "tests/planner/test_properties.py::test_a_plan_that_was_carried_out_leaves_nothing_to_do",
            "tests/planner/test_stories.py::test_the_same_manifests_again_change_nothing",
        ),
    ),
)
