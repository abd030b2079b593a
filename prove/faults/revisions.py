"""Running pods are what they were resolved to once; only the user's change of a pod-affecting field replaces them."""

from prove.fault import Edit, Fault

RESOLVE = "operator/forebay/workloads/spec/resolve.py"
CHOOSE = "operator/forebay/planner/observe/revision_choice.py"
UPGRADE_ON_A_CLUSTER = "e2e/apiserver/test_operator.py::test_a_new_default_engine_restarts_no_pod_and_is_announced"

FAULTS = (
    Fault(
        "revisions.defaults-in-the-spec-hash",
        "an operator with other defaults asks for no rollout",
        (
            Edit(
                RESOLVE,
                "spec_hash=spec_hash(spec, restarted_at, variant),",
                "spec_hash=short_hash(data, SPEC_HASH_LENGTH),",
            ),
        ),
        (
            "tests/workloads/spec/test_resolve.py::test_an_operator_with_other_defaults_offers_an_update_and_asks_for_no_rollout",
            UPGRADE_ON_A_CLUSTER,
        ),
    ),
    Fault(
        "revisions.unset-fields-in-the-spec-hash",
        "a release that knows more fields, or fills them differently, asks for no rollout",
        (Edit(RESOLVE, "exclude=dict(PLAN_FIELDS), exclude_unset=True", "exclude=dict(PLAN_FIELDS)"),),
        (
            "tests/workloads/spec/test_resolve.py::test_a_release_that_knows_more_fields_or_fills_them_differently_asks_for_no_rollout",
        ),
    ),
    Fault(
        "revisions.todays-resolution-decides",
        "what the user wrote decides on a rollout, not what today's operator makes of it",
        (
            Edit(
                CHOOSE,
                "    if newest.spec_hash == wanted.spec_hash:\n        return Choice(newest",
                "    if newest.hash == wanted.hash:\n        return Choice(newest",
            ),
            Edit(
                CHOOSE, "        if earlier.spec_hash == wanted.spec_hash:", "        if earlier.hash == wanted.hash:"
            ),
        ),
        (
            "tests/planner/observe/test_revision_choice.py::test_the_revision_to_roll_to",
            "tests/planner/observe/test_revision_choice.py::test_a_new_operator_restarts_no_pod",
        ),
    ),
    Fault(
        "revisions.pods-built-by-todays-operator",
        "a pod is what its stored revision says and nothing that today would add",
        (
            Edit(
                "operator/forebay/workloads/objects/pod.py",
                '    spec = template["spec"]\n',
                '    spec = template["spec"] | {"dnsPolicy": "ClusterFirst"}\n',
            ),
        ),
        (
            "tests/workloads/spec/test_resolve.py::test_a_pod_is_what_its_stored_revision_says_and_nothing_that_today_would_add",
        ),
    ),
    Fault(
        "revisions.bounds-roll-pods",
        "a change of bounds, schedules or promises restarts no pod",
        (Edit(RESOLVE, '    "pod": True,\n', '    "pod": True,\n    "scaling": True,\n'),),
        ("tests/workloads/spec/test_resolve.py::test_no_new_revision_for",),
    ),
    Fault(
        "revisions.the-plan-rolls-pods",
        "what only the capacity plan reads restarts no pod",
        (Edit(RESOLVE, '    "model": {"architecture": True},\n', ""),),
        ("tests/workloads/spec/test_resolve.py::test_no_new_revision_for",),
    ),
    Fault(
        "revisions.a-pod-field-is-overlooked",
        "a change of any pod-affecting field is a new revision",
        (Edit(RESOLVE, '    "rollout": {"drain_timeout": True},\n', ""),),
        ("tests/workloads/spec/test_resolve.py::test_a_new_revision_for",),
    ),
    Fault(
        "revisions.order-of-fields-rolls-pods",
        "the order in which a manifest is written makes no new revision",
        (Edit("operator/forebay/workloads/canonical_json.py", "sort_keys=True", "sort_keys=False"),),
        ("tests/workloads/spec/test_resolve.py::test_the_order_of_a_map_makes_no_new_revision",),
    ),
    Fault(
        "revisions.history-forgotten",
        "a revision that pods still rest on is never forgotten",
        (
            Edit(
                CHOOSE,
                "for revision in stored if revision.hash not in used]",
                "for revision in stored]",
            ),
        ),
        (
            "tests/planner/observe/test_revision_choice.py::test_ten_unused_revisions_are_kept",
            "tests/planner/observe/test_revision_choice.py::test_revisions_with_pods_are_never_forgotten",
        ),
    ),
)
