"""The operator holds the rights it uses and no others; the API server refuses what cannot work."""

from prove.fault import Edit, Fault

ROLE = "charts/forebay/templates/rbac.yaml"
CRD = "crds/forebay.dev_inferenceservices.yaml"
REFUSALS = "e2e/apiserver/test_crds.py::test_refusal_names_the_field_and_the_way_out"
USED_RIGHTS = "e2e/apiserver/test_operator_rights.py"
EXACTLY_THOSE_USED = f"{USED_RIGHTS}::test_every_right_was_used_and_none_was_missing"
RIGHTS_OF_THE_ROLE = "e2e/apiserver/test_chart.py::test_the_operator_may_do_this_and_nothing_else"

FAULTS = (
    Fault(
        "rights.a-verb-missing",
        "the chart's role grants every right that the operator uses",
        (Edit(ROLE, "  - apiGroups: [events.k8s.io]\n    resources: [events]\n    verbs: [create]\n", ""),),
        (EXACTLY_THOSE_USED, RIGHTS_OF_THE_ROLE),
        before=(USED_RIGHTS,),
    ),
    Fault(
        "rights.a-verb-too-many",
        "the chart's role grants no right that the operator does not use",
        (
            Edit(
                ROLE,
                "    resources: [podtemplates]\n    verbs: [get]\n",
                "    resources: [podtemplates]\n    verbs: [get, list]\n",
            ),
        ),
        (EXACTLY_THOSE_USED, RIGHTS_OF_THE_ROLE),
        before=(USED_RIGHTS,),
    ),
    Fault(
        "rights.secrets-readable",
        "the operator can read no Secret",
        (Edit(ROLE, "    resources: [podtemplates]\n", "    resources: [podtemplates, secrets]\n"),),
        (RIGHTS_OF_THE_ROLE,),
    ),
    Fault(
        "rights.a-rule-dropped",
        "what CEL can see is refused by the API server, with the way out",
        (
            Edit(
                CRD,
                "rule: '(has(self.minReplicas) ? self.minReplicas : 1) <= (has(self.maxReplicas) ? self.maxReplicas :\n"
                "                        1)'\n",
                "rule: 'true'\n",
            ),
        ),
        (REFUSALS, "tests/api/schema/test_crds.py::test_the_definitions_in_git_are_those_of_the_models"),
    ),
    Fault(
        "rights.the-command-line-is-milder",
        "what the API server refuses is refused without one, in the same words",
        (
            Edit(
                "operator/forebay/api/spec/scaling_spec.py",
                "holds=lambda scaling: scaling.min_replicas <= scaling.max_replicas,",
                "holds=lambda scaling: True,",
            ),
        ),
        ("tests/api/schema/test_manifest.py::test_refusal_names_the_field_and_the_way_out",),
    ),
)
