"""Models and schema describe the same API: whatever one refuses, the other refuses too."""

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from e2e.apiserver.crd_cases import CASES, Case, a_manifest
from forebay.api.inference_service import InferenceServiceSpec
from forebay.api.schema.crds import INFERENCE_SERVICE, schema
from forebay.api.schema.manifest import ManifestError, read_service
from tests.api.schema_validator import violations
from tests.builders.manifests import a_full_spec, changed_specs

SPEC = schema(INFERENCE_SERVICE)["properties"]["spec"]


def schema_violations(spec: dict[str, Any]) -> tuple[str, ...]:
    return violations(SPEC, spec, "spec")


def read(spec: dict[str, Any]) -> InferenceServiceSpec | None:
    try:
        return read_service(a_manifest() | {"spec": spec}).spec
    except ManifestError:
        return None


def test_a_full_spec_sets_every_field():
    """The property tests below start from the full spec, so they would not reach a field that it lacks."""

    def unset(node: dict[str, Any], value: Any, path: str) -> list[str]:
        if node["type"] == "array":
            return (
                unset(node["items"], {key: item[key] for item in value for key in item}, path)
                if value and isinstance(value[0], dict)
                else []
            )
        return [
            missing
            for name, child in node.get("properties", {}).items()
            for missing in (unset(child, value[name], f"{path}.{name}") if name in value else [f"{path}.{name}"])
        ]

    assert unset(SPEC, a_full_spec(), "spec") == [
        # Fields that may not be set beside another one that is set.
        "spec.model.cache.nodePath",
        "spec.gpu.nodeSelector",
        "spec.variants.gpu.nodeSelector",
        "spec.schedules.floor.requestsPerSecond",
        "spec.schedules.floor.tokensPerMinute",
    ]


@pytest.mark.parametrize("case", [case for case in CASES if case.field != "metadata.name"], ids=str)
def test_schema_refuses_the_wrong_and_accepts_the_right(case: Case):
    assert schema_violations(case.refused["spec"]) != ()
    assert schema_violations(case.accepted["spec"]) == ()


def test_schema_accepts_a_full_spec():
    assert schema_violations(a_full_spec()) == ()


@given(spec=changed_specs())
@settings(max_examples=400, deadline=None)
def test_schema_and_models_agree_on_one_changed_value(spec: dict[str, Any]):
    assert (read(spec) is None) == (schema_violations(spec) != ()), schema_violations(spec)


_SETTINGS = st.sampled_from(
    [(case.field, value) for case in CASES if case.field.startswith("spec.") for value in (case.wrong, case.right)]
)


@given(chosen=st.lists(_SETTINGS, min_size=2, max_size=6))
@settings(max_examples=300, deadline=None)
def test_schema_and_models_agree_on_several_values(chosen: list[tuple[str, Any]]):
    spec = a_manifest()["spec"]
    for field, value in chosen:
        node = spec
        *parents, last = field.split(".")[1:]
        for parent in parents:
            node = node.setdefault(parent, {})
            if not isinstance(node, dict):
                return
        node[last] = copy.deepcopy(value)
    assert (read(spec) is None) == (schema_violations(spec) != ()), schema_violations(spec)


@given(spec=changed_specs())
@settings(max_examples=100, deadline=None)
def test_what_is_accepted_is_written_back_as_it_was(spec: dict[str, Any]):
    accepted = read(spec)
    if accepted is not None:
        assert accepted.wire() == spec
