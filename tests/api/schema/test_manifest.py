"""Manifests read without a cluster: the same errors as from the API server, and the objects that it would store."""

from pathlib import Path

import pytest
import yaml

from e2e.apiserver.crd_cases import CASES, Case, a_manifest
from forebay.api.inference_service import InferenceService
from forebay.api.schema.manifest import ManifestError, read_service, read_services, read_tenant_quota
from tests.builders.manifests import a_full_spec

ROOT = Path(__file__).parents[3]


def problems(document) -> tuple[str, ...]:
    with pytest.raises(ManifestError) as refused:
        read_service(document)
    return refused.value.problems


@pytest.mark.parametrize("case", CASES, ids=str)
def test_refusal_names_the_field_and_the_remedy(case: Case):
    [problem] = problems(case.refused)
    field, _, sentence = problem.partition(": ")
    assert case.named.startswith(field)
    assert (case.offline or case.says) in sentence


@pytest.mark.parametrize("case", CASES, ids=str)
def test_corrected_twin_is_read(case: Case):
    assert read_service(case.accepted).wire() == case.accepted


def test_all_problems_of_a_manifest_are_reported_at_once():
    manifest = a_manifest()
    manifest["spec"] = {
        "model": {"source": "x"},
        "scaling": {"minReplicas": 0, "maxReplica": 2},
        "engine": {"extraArgs": ["--port=1", "-tp=2"]},
    }
    assert [problem.partition(": ")[0] for problem in problems(manifest)] == [
        "spec.scaling.maxReplica",
        "spec.model.source",
        "spec.engine.extraArgs[0]",
        "spec.engine.extraArgs[1]",
        "spec.scaling.minReplicas",
    ]


def test_a_full_spec_is_written_back_as_it_was_read():
    manifest = a_manifest() | {"spec": a_full_spec()}
    assert read_service(manifest).wire() == manifest


@pytest.mark.parametrize("example", sorted((ROOT / "examples").glob("*.yaml")), ids=lambda path: path.name)
def test_examples_are_read_and_written_back_as_they_were(example: Path):
    readers = {"InferenceService": read_service, "TenantQuota": read_tenant_quota}
    documents = list(yaml.safe_load_all(example.read_text(encoding="utf-8")))
    ours = [document for document in documents if document["kind"] in readers]
    assert ours != []
    for document in ours:
        assert readers[document["kind"]](document).wire()["spec"] == document["spec"]


def test_there_is_a_quickstart():
    [service] = read_services((ROOT / "examples/quickstart.yaml").read_text(encoding="utf-8"))
    assert isinstance(service, InferenceService)


def test_objects_of_other_groups_are_skipped():
    text = yaml.safe_dump_all([{"apiVersion": "v1", "kind": "Secret"}, a_manifest("one"), None, a_manifest("two")])
    assert [service.metadata.name for service in read_services(text)] == ["one", "two"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        pytest.param("a: [", "not valid YAML: while parsing", id="no YAML"),
        pytest.param("", "no InferenceService of forebay.dev", id="nothing"),
        pytest.param("kind: Secret\napiVersion: v1", "no InferenceService of forebay.dev", id="somebody else's"),
    ],
)
def test_texts_without_a_service_are_refused(text, says):
    with pytest.raises(ManifestError, match=says):
        read_services(text)


def test_another_kind_of_our_group_is_refused():
    assert problems(a_manifest() | {"kind": "InferenceServices"}) == (
        "kind: \"InferenceServices\" is not supported; use 'InferenceService'.",
    )


def test_another_version_is_refused():
    assert problems(a_manifest() | {"apiVersion": "forebay.dev/v2"}) == (
        "apiVersion: \"forebay.dev/v2\" is not supported; use 'forebay.dev/v1alpha1'.",
    )


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ([], "spec: [] is not a map of fields."),
        ({"model": "x"}, 'spec.model: "x" is not a map of fields.'),
        ({"model": a_manifest()["spec"]["model"], "engine": {"env": {}}}, "spec.engine.env: {} is not a list."),
        (
            {"model": a_manifest()["spec"]["model"], "gpu": {"nodeSelector": []}},
            "spec.gpu.nodeSelector: [] is not a map.",
        ),
        (
            {
                "model": a_manifest()["spec"]["model"],
                "pod": {"volumes": [{"name": "a", "mountPath": "/a", "emptyDir": "yes"}]},
            },
            'spec.pod.volumes[0].emptyDir: "yes" is not true or false; write it without quotes.',
        ),
    ],
)
def test_wrong_shapes_are_named(spec, problem):
    assert problems(a_manifest() | {"spec": spec}) == (problem,)


def test_a_text_is_not_a_manifest():
    assert problems("chat") == ('"chat" is not a manifest; write a map with apiVersion, kind and spec',)
