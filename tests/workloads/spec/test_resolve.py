"""Revisions: which changes of a spec or of the operator make a new one."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import Field, create_model

from forebay.api.inference_service import EngineSpec, InferenceServiceSpec
from forebay.workloads.objects.controller_revision import controller_revision, engine_version, read_revision
from forebay.workloads.objects.ownership import Owner
from forebay.workloads.objects.pod import build_pod
from forebay.workloads.spec.engine_versions import Defaults
from forebay.workloads.spec.resolve import resolve, spec_hash
from forebay.world.world import ReplicaShape, Revision, ServiceKey
from tests.workloads.manifests import MANIFESTS
from tests.workloads.specs import CHAT, GOLDEN, MODEL, a_pod, a_revision, a_spec

NEWER = Defaults(engine_version="0.33.0", gpu_memory_utilization_percent=90)


def stored(body: dict[str, Any]) -> Revision | None:
    """The revision that is read back from a created ControllerRevision."""
    return read_revision(
        name=body["metadata"]["name"],
        labels=body["metadata"]["labels"],
        annotations=body["metadata"]["annotations"],
        number=body["revision"],
        data=body["data"],
    )


@pytest.mark.parametrize(
    "block",
    [
        pytest.param({"scaling": {"minReplicas": 2, "maxReplicas": 9}}, id="bounds"),
        pytest.param({"scaling": {"mode": "Paused"}}, id="mode"),
        pytest.param({"scaling": {"scaleUpCooldown": "10s", "scaleDownCooldown": "20s"}}, id="cooldowns"),
        pytest.param({"scaling": {"targets": {"queueDepth": 3}, "headroomPercent": 40}}, id="targets"),
        pytest.param({"slo": {"timeToFirstToken": {"p95": "2s"}}}, id="slo"),
        pytest.param({"warmPool": {"replicas": 1}}, id="warm pool"),
        pytest.param(
            {"traffic": {"requestsPerMonth": 10**6, "promptTokens": 500, "outputTokens": 200}}, id="planned traffic"
        ),
        pytest.param({"variants": [{"name": "small"}]}, id="variants"),
        pytest.param({"model": MODEL | {"architecture": {"layers": 28}}}, id="architecture"),
        pytest.param({"rollout": {"maxSurge": 3, "whenNoSpare": "Replace"}}, id="surge"),
    ],
)
def test_changes_that_make_no_new_revision(block):
    before, after = a_revision(a_spec()), a_revision(a_spec(**block))
    assert (after.hash, after.spec_hash, after.data) == (before.hash, before.spec_hash, before.data)


@pytest.mark.parametrize(
    "block",
    [
        pytest.param({"model": MODEL | {"maxModelLen": 4096}}, id="model"),
        pytest.param({"model": MODEL | {"source": "hf://Qwen/Qwen2.5-7B-Instruct@a1b2"}}, id="source revision"),
        pytest.param({"engine": {"version": "0.31.0"}}, id="engine version"),
        pytest.param({"engine": {"extraArgs": ["--enforce-eager"]}}, id="extra arguments"),
        pytest.param({"engine": {"startupTimeout": "30m"}}, id="start-up time-out"),
        pytest.param({"gpu": {"product": "NVIDIA-L4"}}, id="GPU"),
        pytest.param({"pod": {"resources": {"memory": "8Gi"}}}, id="pod block"),
        pytest.param({"rollout": {"drainTimeout": "600s"}}, id="drain time-out"),
    ],
)
def test_changes_that_make_a_new_revision(block):
    before, after = a_revision(a_spec()), a_revision(a_spec(**block))
    assert after.hash != before.hash
    assert after.spec_hash != before.spec_hash


def test_a_restart_on_request_is_a_new_revision():
    before, after = a_revision(a_spec()), a_revision(a_spec(), "2026-03-01T10:00:00Z")
    assert after.hash != before.hash
    assert after.spec_hash != before.spec_hash


@pytest.mark.parametrize("name", [name for name in MANIFESTS if name not in ("tensor-parallel", "engine-block")])
def test_other_operator_defaults_offer_an_update_without_a_rollout(name):
    spec = a_spec(MANIFESTS[name])
    today, tomorrow = a_revision(spec), a_revision(spec, defaults=NEWER)
    assert tomorrow.hash != today.hash
    assert tomorrow.spec_hash == today.spec_hash


class _KnowsMore(EngineSpec):
    coffee: str = "black"
    """A field that this release does not have."""


class _FillsDifferently(EngineSpec):
    max_num_seqs: Annotated[int, Field(ge=1)] = 512


@pytest.mark.parametrize("engine", [_KnowsMore, _FillsDifferently])
def test_a_release_with_new_fields_or_defaults_starts_no_rollout(engine):
    newer = create_model("NewerSpec", __base__=InferenceServiceSpec, engine=(engine, engine()))
    written = {"model": MODEL, "engine": {"version": "0.31.0"}, "rollout": {"drainTimeout": "120s"}}
    assert spec_hash(newer.model_validate(written), None) == spec_hash(a_spec(**written), None)


def test_empty_blocks_equal_absent_ones():
    assert a_revision(a_spec("{engine: {extraArgs: []}, gpu: {}, pod: {tolerations: []}}")) == a_revision(a_spec())


def test_a_pod_is_built_only_from_its_stored_revision():
    body = yaml.safe_load((GOLDEN / "controller-revision.yaml").read_text())
    revision = stored(body)
    assert revision is not None
    pod = build_pod(CHAT, revision, 0, 0, "chat-0f4c1-x-0")
    assert pod["spec"] == body["data"]["pod"]["spec"]
    assert pod["metadata"]["annotations"] == body["data"]["pod"]["metadata"]["annotations"]
    assert pod["metadata"]["labels"]["forebay.dev/revision"] == body["metadata"]["labels"]["forebay.dev/revision"]


@pytest.mark.parametrize("name", MANIFESTS)
def test_a_stored_revision_is_read_back_completely(name):
    revision = a_revision(a_spec(MANIFESTS[name]))
    body = json.loads(json.dumps(controller_revision(CHAT, revision, 7)))
    assert stored(body) == replace(revision, number=7, name=f"chat-0f4c1-{revision.hash}")


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"labels": {}}, id="another operator's"),
        pytest.param({"data": {"spec": {"template": {}}}}, id="a StatefulSet's"),
        pytest.param({"data": {"pod": {}, "shape": {"pods": "many"}}}, id="damaged"),
    ],
)
def test_a_foreign_controller_revision_is_ignored(change):
    body = controller_revision(CHAT, a_revision(a_spec()), 1)
    stored = {
        "name": "chat-1",
        "labels": body["metadata"]["labels"],
        "annotations": body["metadata"]["annotations"],
        "number": 1,
        "data": body["data"],
    }
    assert read_revision(**(stored | change)) is None


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        pytest.param("hf", ReplicaShape(1, 1, "nvidia.com/gpu"), id="one GPU"),
        pytest.param(
            "tensor-parallel",
            ReplicaShape(1, 4, "nvidia.com/gpu", (("nvidia.com/gpu.product", "NVIDIA-H100-80GB-HBM3"),)),
            id="tensor parallel on a product",
        ),
        pytest.param(
            "all-parallel-sizes",
            ReplicaShape(1, 8, "amd.com/gpu", (("amd.com/gpu.family", "MI300X"),)),
            id="the product of all sizes",
        ),
    ],
)
def test_the_shape_of_a_replica(name, shape):
    revision = a_revision(a_spec(MANIFESTS[name]))
    pod = a_pod(a_spec(MANIFESTS[name]))
    assert revision.shape == shape
    assert pod["spec"]["containers"][0]["resources"]["limits"][shape.resource_name] == str(shape.gpus_per_pod)


@pytest.mark.parametrize(
    ("engine", "expected"),
    [
        pytest.param({}, "0.32.0", id="the default"),
        pytest.param({"version": "0.29.0"}, "0.29.0", id="the spec's"),
        pytest.param({"image": "registry.example.com:5000/vllm:v0.30.1-cu129"}, "0.30.1", id="the image tag's"),
        pytest.param({"image": "registry.example.com:5000/vllm:nightly"}, "0.32.0", id="a tag that says nothing"),
        pytest.param({"image": "registry.example.com/vllm:v0.30.1", "version": "0.31.0"}, "0.31.0", id="spec over tag"),
    ],
)
def test_the_engine_version_of_a_revision(engine, expected):
    assert engine_version(a_revision(a_spec(engine=engine))) == expected


def test_names_fit_a_label_and_a_host_name():
    owner = Owner(ServiceKey("team-a", "a" * 40), CHAT.uid)
    revision = resolve(a_spec(), owner)
    assert isinstance(revision, Revision)
    name = controller_revision(owner, revision, 1)["metadata"]["name"]
    assert len(f"{name}-999-15") <= 63
    assert revision.hash.isalnum()
    assert len(revision.hash) == 7


def shuffled(value: Any, draw: Callable[[Any], Any]) -> Any:
    """The same mapping, in another order at every level."""
    if isinstance(value, dict):
        names = draw(st.permutations(list(value)))
        return {name: shuffled(value[name], draw) for name in names}
    if isinstance(value, list):
        return [shuffled(item, draw) for item in value]
    return value


def test_the_order_of_a_map_makes_no_new_revision():
    first, other = (
        {"nodeSelector": dict.fromkeys(names, "x"), "annotations": {f"example.com/{name}": "x" for name in names}}
        for names in ("ab", "ba")
    )
    assert a_revision(a_spec(pod=first)) == a_revision(a_spec(pod=other))


@settings(max_examples=40, deadline=None)
@given(data=st.data(), name=st.sampled_from(list(MANIFESTS)))
def test_the_order_of_fields_makes_no_new_revision(data, name):
    written = {"model": MODEL} | (yaml.safe_load(MANIFESTS[name]) or {})
    reordered = InferenceServiceSpec.model_validate(shuffled(written, data.draw))
    assert a_revision(reordered) == a_revision(InferenceServiceSpec.model_validate(written))


def test_acceptance_of_guesses_does_not_change_the_revision():
    plain, measured = (
        a_revision(a_spec(engine={"speculative": {"method": "ngram", **more}}))
        for more in ({}, {"acceptancePercent": 60, "draftCostPercent": 1})
    )
    assert (plain.hash, plain.spec_hash) == (measured.hash, measured.spec_hash)
    assert plain.spec_hash != a_revision(a_spec()).spec_hash
