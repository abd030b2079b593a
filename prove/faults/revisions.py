"""Running pods are what they were resolved to once; only the user's change of a pod-affecting field replaces them."""

from prove.fault import Fault
from prove.mutations import always, at, entry, never, value

FAULTS = (
    Fault(
        "revisions.todays-operator-decides",
        claim="what the user wrote decides on a rollout, not the defaults or the fields that an operator knows today",
        planted="what the spec resolves to decides, defaults and unset fields included",
        changes=(
            at("resolve", entry("spec_hash", "short_hash(_ + repr(defaults), SPEC_HASH_LENGTH)")),
            at("spec_hash", entry("exclude_unset", "False")),
            at("revision_choice:choose", never("spec_hash", nth=1), never("spec_hash", nth=1)),
        ),
        guards=(
            "test_other_operator_defaults_offer_an_update_without_a_rollout",
            "test_a_release_with_new_fields_or_defaults_starts_no_rollout",
            "test_the_revision_to_roll_to",
            "test_a_new_operator_restarts_no_pod",
            "test_a_new_default_engine_restarts_no_pod_and_is_announced",
        ),
    ),
    Fault(
        "revisions.stored-revisions-ignored",
        claim="a pod is what its stored revision says, and a revision that pods rest on is never forgotten",
        planted="every new pod gets a field that its revision does not have, and revisions with pods are unused",
        changes=(
            at("build_pod", entry("spec", '_ | {"dnsPolicy": "ClusterFirst"}')),
            at("revisions_to_delete", always("used")),
        ),
        guards=(
            "test_a_pod_is_built_only_from_its_stored_revision",
            "test_ten_unused_revisions_are_kept",
            "test_revisions_with_pods_are_never_forgotten",
        ),
        quick=True,
    ),
    Fault(
        "revisions.the-wrong-fields",
        claim="a change of a field that pods see is a new revision, and no other change is one",
        planted="scaling and the plan's fields make one, the drain timeout does not, and the order of keys counts",
        changes=(
            at("POD_FIELDS", entry("rollout", None), value('{**_, "scaling": True}')),
            at("PLAN_FIELDS", entry("model", None)),
            at("canonical_json", entry("sort_keys", "False")),
        ),
        guards=(
            "test_changes_that_make_a_new_revision",
            "test_changes_that_make_no_new_revision",
            "test_the_order_of_a_map_makes_no_new_revision",
        ),
    ),
)
