"""PerformanceProfile: model and schema agree on what is valid, and errors name the problem."""

from typing import Any

import pytest

from forebay.api.schema.crds import PERFORMANCE_PROFILE, schema
from forebay.api.schema.manifest import ManifestError, read_profile, read_services
from tests.api.schema_validator import violations

SPEC = {
    "model": "hf://meta-llama/Llama-3.1-8B-Instruct",
    "product": "NVIDIA-H100-80GB-HBM3",
    "weightBits": 16,
    "tensorParallelSize": 1,
    "pipelineParallelSize": 1,
    "engineVersion": "0.32",
    "stepMilliseconds": 6.9,
    "promptTokenMicroseconds": 17.3,
    "sequenceMicroseconds": 5,
    "kvTokenNanoseconds": 52,
    "overheadMebibytes": 5120,
    "usablePercent": 85,
    "errorPercent": 5,
    "measuredWith": "guidellm, 500 + 200 tokens",
}


def a_profile(spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "forebay.dev/v1alpha1",
        "kind": "PerformanceProfile",
        "metadata": {"name": "llama-8b-h100"},
        "spec": spec,
    }


def schema_violations(spec: Any) -> tuple[str, ...]:
    return violations(schema(PERFORMANCE_PROFILE)["properties"]["spec"], spec, "spec")


def test_a_full_profile_sets_every_field_and_is_written_back():
    assert set(SPEC) == set(schema(PERFORMANCE_PROFILE)["properties"]["spec"]["properties"])
    assert read_profile(a_profile(SPEC)).wire() == a_profile(SPEC)
    assert schema_violations(SPEC) == ()


@pytest.mark.parametrize("field", ["model", "product", "stepMilliseconds", "promptTokenMicroseconds"])
def test_required_fields_are_required(field):
    spec = {key: value for key, value in SPEC.items() if key != field}
    with pytest.raises(ManifestError, match=rf"spec\.{field}: is required"):
        read_profile(a_profile(spec))
    assert schema_violations(spec) == (f"spec.{field}: required",)


@pytest.mark.parametrize(
    ("field", "wrong", "says"),
    [
        ("model", "hf://a/b@v1", '"hf://a/b@v1" names a revision'),
        ("model", "a/b", '"a/b" is not a model source'),
        ("engineVersion", "0.32.1", '"0.32.1" is not a minor version of vLLM; write it as 0.32'),
        ("stepMilliseconds", 0, "0 is too small; use 0.001 or more"),
        ("stepMilliseconds", "7", '"7" is not a number; write it without quotes'),
        ("kvTokenNanoseconds", -1, "-1 is too small; use 0 or more"),
        ("tensorParallelSize", 3, "3 does not divide the attention heads"),
        ("usablePercent", 101, "101 is too large; use 100 or less"),
    ],
)
def test_invalid_fields_are_refused(field, wrong, says):
    with pytest.raises(ManifestError) as refused:
        read_profile(a_profile(SPEC | {field: wrong}))
    assert says in refused.value.problems[0]
    assert schema_violations(SPEC | {field: wrong}) != ()


def test_a_misspelt_field_is_refused():
    with pytest.raises(ManifestError, match=r"spec\.stepMiliseconds: unknown field; did you mean stepMilliseconds\?"):
        read_profile(a_profile(SPEC | {"stepMiliseconds": 1}))


def test_a_profile_in_a_file_of_services_is_skipped():
    service = (
        '{"apiVersion": "forebay.dev/v1alpha1", "kind": "InferenceService", "metadata": {"name": "chat"}, '
        '"spec": {"model": {"source": "hf://a/b"}}}'
    )
    profile = '{"apiVersion": "forebay.dev/v1alpha1", "kind": "PerformanceProfile"}'
    assert [listed.metadata.name for listed in read_services(f"{profile}\n---\n{service}")] == ["chat"]
