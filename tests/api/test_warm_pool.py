"""WarmPool: model and schema agree on what is valid; each wrong value is shown beside a valid one."""

from typing import Any

import pytest

from forebay.api.schema.crds import WARM_POOL, definition, schema
from forebay.api.schema.manifest import ManifestError, read_services, read_warm_pool
from tests.api.schema_validator import violations

SPEC = {
    "gpu": {"product": "NVIDIA-H100-80GB-HBM3", "resourceName": "nvidia.com/gpu"},
    "gpusPerPod": 2,
    "placeholders": 4,
    "schedules": [
        {
            "name": "morning",
            "start": "0 8 * * MON-FRI",
            "timeZone": "Europe/Berlin",
            "duration": "4h",
            "exceptDates": ["2026-12-25"],
            "placeholders": 8,
        },
        {"name": "launch", "at": ["2026-11-27T18:00"], "duration": "2h", "placeholders": 12},
    ],
    "engine": {"image": "registry.example/vllm:v0.32.0", "version": "0.32.0"},
    "resources": {"cpu": "8", "memory": "64Gi"},
    "tolerations": [{"key": "team", "operator": "Exists"}],
    "imagePullSecrets": ["registry"],
    "runtimeClassName": "nvidia",
}


def a_pool(spec: Any = None, name: str = "h100") -> dict[str, Any]:
    return {
        "apiVersion": "forebay.dev/v1alpha1",
        "kind": "WarmPool",
        "metadata": {"name": name},
        "spec": SPEC if spec is None else spec,
    }


def schema_violations(spec: Any) -> tuple[str, ...]:
    return violations(schema(WARM_POOL)["properties"]["spec"], spec, "spec")


def test_a_full_warm_pool_sets_every_field_and_is_written_back():
    assert set(SPEC) == set(schema(WARM_POOL)["properties"]["spec"]["properties"])
    assert read_warm_pool(a_pool()).wire() == a_pool()
    assert schema_violations(SPEC) == ()


def test_a_warm_pool_is_cluster_scoped_with_a_status():
    spec = definition(WARM_POOL)["spec"]
    assert (spec["scope"], spec["versions"][0]["subresources"]) == ("Cluster", {"status": {}})


@pytest.mark.parametrize(
    ("field", "wrong", "right", "says"),
    [
        ("placeholders", -1, 0, "spec.placeholders: -1 is too small; use 0 or more"),
        ("placeholders", 1001, 1000, "spec.placeholders: 1001 is too large; use 1000 or less"),
        ("gpusPerPod", 0, 1, "spec.gpusPerPod: 0 is too small; use 1 or more"),
        ("gpusPerPod", 17, 16, "spec.gpusPerPod: 17 is too large; use 16 or less"),
        ("engine", {"version": "v0.32"}, {"version": "0.32.0"}, '"v0.32" is not a version of vLLM'),
        ("runtimeClassName", "Nvidia", "nvidia", '"Nvidia" is not the name of an object'),
        ("imagePullSecrets", ["a", "a"], ["a", "b"], '"a" appears twice; keep one'),
    ],
)
def test_an_invalid_field_is_refused_and_its_correction_accepted(field, wrong, right, says):
    with pytest.raises(ManifestError) as refused:
        read_warm_pool(a_pool(SPEC | {field: wrong}))
    assert says in str(refused.value)
    assert schema_violations(SPEC | {field: wrong}) != ()
    assert read_warm_pool(a_pool(SPEC | {field: right}))
    assert schema_violations(SPEC | {field: right}) == ()


WINDOW = {"name": "morning", "start": "0 8 * * *", "duration": "4h", "placeholders": 8}


@pytest.mark.parametrize(
    ("wrong", "right", "says"),
    [
        ({"placeholders": 0}, {"placeholders": 1}, "placeholders: 0 is too small; use 1 or more"),
        ({"placeholders": 1001}, {"placeholders": 1000}, "placeholders: 1001 is too large; use 1000 or less"),
        ({"placeholders": None}, {}, "placeholders: is required"),
        ({"start": "0 25 * * *"}, {"start": "0 23 * * *"}, '"0 25 * * *" is not a cron line'),
        ({"at": ["2026-11-27T18:00"]}, {"at": []}, "needs exactly one of start and at"),
        ({"start": None}, {"start": None, "at": ["2026-11-27T18:00"]}, "needs exactly one of start and at"),
        ({"timeZone": "Europe Berlin"}, {"timeZone": "Europe/Berlin"}, "is not the name of a time zone"),
        ({"duration": "30s"}, {"duration": "1m"}, '"30s" is not a duration from 1m to 744h'),
        ({"exceptDates": ["2026-02-30"]}, {"exceptDates": ["2026-02-28"]}, '"2026-02-30" is not a date'),
    ],
)
def test_an_invalid_schedule_is_refused_and_its_correction_accepted(wrong, right, says):
    bad, good = ([{k: v for k, v in (WINDOW | fields).items() if v is not None}] for fields in (wrong, right))
    with pytest.raises(ManifestError) as refused:
        read_warm_pool(a_pool(SPEC | {"schedules": bad}))
    assert says in str(refused.value)
    assert schema_violations(SPEC | {"schedules": bad}) != ()
    assert read_warm_pool(a_pool(SPEC | {"schedules": good}))
    assert schema_violations(SPEC | {"schedules": good}) == ()


def test_schedule_names_are_unique():
    with pytest.raises(ManifestError, match="morning"):
        read_warm_pool(a_pool(SPEC | {"schedules": [WINDOW, WINDOW]}))
    assert read_warm_pool(a_pool(SPEC | {"schedules": [WINDOW, WINDOW | {"name": "evening"}]}))


def test_the_number_of_placeholders_is_required():
    with pytest.raises(ManifestError, match=r"spec\.placeholders: is required"):
        read_warm_pool(a_pool({}))
    assert read_warm_pool(a_pool({"placeholders": 0}))


@pytest.mark.parametrize("name", ["a" * 41, "1st", "a.b"])
def test_names_that_cannot_be_part_of_pod_names_are_refused(name):
    with pytest.raises(ManifestError, match="does not fit into names of pods"):
        read_warm_pool(a_pool(name=name))
    assert read_warm_pool(a_pool(name="a" * 40))


def test_a_warm_pool_in_a_file_of_services_is_skipped():
    text = "apiVersion: forebay.dev/v1alpha1\nkind: WarmPool\nmetadata: {name: a}\nspec: {placeholders: 1}\n"
    with pytest.raises(ManifestError, match="no InferenceService"):
        read_services(text)
