"""The operator holds the rights it uses and no others; the API server refuses what cannot work."""

from prove.documents import Item, in_yaml
from prove.fault import Fault
from prove.mutations import at, entry

CHART = "charts/forebay/templates"
RIGHTS = ("test_every_permission_was_used_and_none_was_missing", "test_the_operator_may_do_this_and_nothing_else")

FAULTS = (
    Fault(
        "rights.a-verb-missing",
        claim="the chart's role grants every right that the operator uses",
        planted="the role has no right to create Events",
        changes=(in_yaml(CHART, "Role", "rules", Item("events.k8s.io"), "resources", new="[nothing]"),),
        guards=RIGHTS,
        before=("test_operator_rights",),
    ),
    Fault(
        "rights.secrets-readable",
        claim="the chart's role grants no right that the operator does not use",
        planted="the role may get Secrets",
        changes=(in_yaml(CHART, "Role", "rules", Item("podtemplates"), "resources", new="[podtemplates, secrets]"),),
        guards=RIGHTS,
        before=("test_operator_rights",),
    ),
    Fault(
        "rights.a-rule-dropped",
        claim="what CEL can see is refused by the API server, and in the same words without one",
        planted="the CRD and the models allow minReplicas above maxReplicas",
        changes=(
            in_yaml(
                "crds",
                "CustomResourceDefinition",
                *(
                    "spec",
                    "versions",
                    Item("v1alpha1"),
                    "schema",
                    "openAPIV3Schema",
                    "properties",
                    "spec",
                    "properties",
                ),
                *("scaling", "x-kubernetes-validations", Item("maxReplicas"), "rule"),
                new="'true'",
            ),
            at("ScalingSpec.rules", entry("holds", "lambda scaling: True", nth=1)),
        ),
        guards=(
            "test_the_definitions_in_git_are_those_of_the_models",
            "test_manifest::test_refusal_names_the_field_and_the_remedy",
            "test_crds::test_refusal_names_the_field_and_the_remedy",
        ),
    ),
)
