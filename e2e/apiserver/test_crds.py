"""The CRDs on a real API server: what it refuses, with which message, and what kubectl shows."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import kubernetes
import pytest
import yaml
from hypothesis import given, settings

from e2e.apiserver.crd_cases import CASES, Case, a_manifest
from e2e.harness import ControlPlane
from e2e.harness.kubectl import Object
from forebay.api.schema.base_model import API_VERSION, GROUP, VERSION
from forebay.api.schema.crds import INFERENCE_SERVICE, PERFORMANCE_PROFILE, WARM_POOL
from forebay.api.schema.manifest import ManifestError, read_service
from tests.builders.manifests import changed_specs

CRDS = Path(__file__).parents[2] / "crds"
CRD = f"crd/{INFERENCE_SERVICE.name}"


@pytest.fixture(scope="module")
def api(control_plane: ControlPlane) -> ControlPlane:
    control_plane.kubectl.apply(*sorted(CRDS.glob("*.yaml")), server_side=True)
    control_plane.kubectl("wait", CRD, "--for=condition=Established", "--timeout=30s")
    return control_plane


@dataclass(frozen=True, slots=True)
class Verdict:
    """The API server's response to a manifest; `stored` is what it would store."""

    refusal: str | None
    stored: Object | None


@pytest.fixture(scope="module")
def judge(api: ControlPlane) -> Iterator[Callable[[Object], Verdict]]:
    """Asks as `kubectl apply --dry-run=server` does, over one connection: hundreds of kubectls take minutes."""
    with kubernetes.config.new_client_from_config(str(api.kubeconfig)) as client:
        objects = kubernetes.client.CustomObjectsApi(client)

        def ask(manifest: Object) -> Verdict:
            try:
                stored: Any = objects.create_namespaced_custom_object(
                    GROUP,
                    VERSION,
                    "default",
                    INFERENCE_SERVICE.plural,
                    manifest,
                    dry_run="All",
                    field_validation="Strict",
                )
            except kubernetes.client.ApiException as refusal:
                return Verdict(json.loads(refusal.body or "{}")["message"], None)
            return Verdict(None, stored)

        yield ask


def grown(node: Any, factor: float) -> Any:
    """The same schema with every bound on lengths and numbers of entries raised."""
    if isinstance(node, dict):
        bounds = {"maxLength", "maxItems", "maxProperties"}
        return {
            key: int(value * factor) if key in bounds and isinstance(value, int) else grown(value, factor)
            for key, value in node.items()
        }
    return [grown(value, factor) for value in node] if isinstance(node, list) else node


def conditions(crd: Object) -> dict[str, str]:
    return {condition["type"]: condition["status"] for condition in crd["status"]["conditions"]}


def test_crd_is_established_and_structural(api):
    # A schema that is not structural would show as a condition of its own.
    assert conditions(api.kubectl.json("get", CRD)) == {"Established": "True", "NamesAccepted": "True"}


def test_crd_fits_into_the_annotation_of_client_side_apply(api):
    # kubectl keeps what it applied in an annotation, and all annotations together may have 262,144 bytes.
    assert len(json.dumps(api.kubectl.json("get", CRD)["spec"])) < 200_000


def test_crd_stays_well_within_the_cost_budget(api):
    # Other versions of the API server estimate slightly different costs. Costs grow faster than the bounds.
    crd = grown(yaml.safe_load((CRDS / INFERENCE_SERVICE.file_name).read_text()), 1.4)
    api.kubectl("replace", "--dry-run=server", "-f", "-", stdin=json.dumps(crd))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_refusal_names_the_field_and_the_remedy(judge, case: Case):
    refusal = judge(case.refused).refusal
    assert refusal is not None, "it is accepted"
    assert case.says in refusal
    assert case.named in refusal


@pytest.mark.parametrize("case", CASES, ids=str)
def test_corrected_twin_is_accepted_and_read(judge, case: Case):
    verdict = judge(case.accepted)
    assert verdict.refusal is None
    assert read_service(verdict.stored).wire()["spec"] == case.accepted["spec"]


@given(spec=changed_specs())
@settings(max_examples=200, deadline=None, derandomize=True)
def test_the_api_server_and_the_models_agree(judge, spec: Object):
    manifest = a_manifest() | {"spec": spec}
    verdict = judge(manifest)
    if verdict.refusal is None:
        assert read_service(verdict.stored).wire()["spec"] == spec
    else:
        with pytest.raises(ManifestError):
            read_service(manifest)


def test_kubectl_shows_the_refusal_as_it_is(api):
    case = next(case for case in CASES if case.id == "unknown source scheme")
    refused = api.kubectl.attempt("apply", "--dry-run=server", "-f", "-", stdin=json.dumps(case.refused))
    assert refused.returncode == 1
    assert f'The InferenceService "chat" is invalid: {case.field}: ' in refused.stderr
    assert case.says in refused.stderr


def test_nothing_is_defaulted_into_a_stored_object(judge):
    assert judge(a_manifest()).stored["spec"] == a_manifest()["spec"]


def test_null_means_absent_for_the_api_server_and_the_models(judge):
    manifest = a_manifest()
    manifest["spec"] |= {"scaling": {"minReplicas": None}, "pod": None}
    stored = judge(manifest).stored["spec"]
    assert stored == a_manifest()["spec"] | {"scaling": {}}
    assert read_service(manifest).wire()["spec"] == stored


def test_rules_are_checked_when_an_object_changes(api):
    api.kubectl.apply(a_manifest("changing"))
    patched = api.kubectl.attempt(
        "patch", "infs", "changing", "--type=merge", '-p={"spec":{"scaling":{"minReplicas":3}}}'
    )
    api.kubectl("delete", "infs", "changing")
    assert patched.returncode == 1
    assert "minReplicas 3 is above maxReplicas 1; raise maxReplicas or lower minReplicas" in patched.stderr


def test_columns_explain_a_decision(api):
    api.kubectl.apply(a_manifest("seen"))
    status: Object = {
        "observedGeneration": 1,
        "conditions": [
            {
                "type": "Ready",
                "status": "True",
                "reason": "Serving",
                "message": "3 of 4 replicas serve.",
                "lastTransitionTime": "2026-03-01T11:00:00Z",
                "observedGeneration": 1,
            }
        ],
        "replicas": {"desired": 4, "ready": 3, "loading": 1, "draining": 0, "warm": 0},
        "load": {"queue": 95, "kvPercent": 82},
        "decision": {
            "rule": "queue_depth",
            "because": "95 requests wait on 3 replicas, target 20 each",
            "desired": 4,
            "inputs": {"waiting": "95"},
        },
    }
    api.kubectl("patch", "infs", "seen", "--subresource=status", "--type=merge", "-p", json.dumps({"status": status}))
    header, row = api.kubectl("get", "infs", "seen").splitlines()
    _, wide_row = api.kubectl("get", "infs", "seen", "-o", "wide").splitlines()
    stored = api.kubectl.get("infs", "seen")
    api.kubectl("delete", "infs", "seen")
    assert header.split() == ["NAME", "READY", "DESIRED", "MODEL", "QUEUE", "KV%", "REASON", "AGE"]
    assert row.split()[:-1] == ["seen", "True", "4", a_manifest()["spec"]["model"]["source"], "95", "82", "queue_depth"]
    assert wide_row.split()[8:] == ["3", "1", "0", "Serving", *status["decision"]["because"].split()]
    assert stored is not None
    assert stored["status"] == status


def test_columns_are_empty_while_nothing_is_known(api):
    api.kubectl.apply(a_manifest("unseen"))
    _, row = api.kubectl("get", "infs", "unseen").splitlines()
    api.kubectl("delete", "infs", "unseen")
    assert row.split()[:-1] == ["unseen", a_manifest()["spec"]["model"]["source"]]


def test_category_lists_services(api):
    api.kubectl.apply(a_manifest("categorized"))
    names = api.kubectl("get", "forebay", "-o", "name").split()
    api.kubectl("delete", "infs", "categorized")
    assert "inferenceservice.forebay.dev/categorized" in names


def test_kubectl_explain_describes_a_field(api):
    said = api.kubectl("explain", "infs.spec.scaling")
    assert "Bounds of the replica count" in said
    assert "Largest number of replicas, including warm ones. Default: 1." in " ".join(said.split())
    assert "enum: Auto, Recommend, Paused" in said


def test_there_is_no_scale_subresource(api):
    resources = json.loads(api.kubectl("get", "--raw", f"/apis/{API_VERSION}"))
    assert {resource["name"] for resource in resources["resources"]} == {
        "inferenceservices",
        "inferenceservices/status",
        "performanceprofiles",
        "tenantquotas",
        "tenantquotas/status",
        "warmpools",
        "warmpools/status",
    }


def test_server_side_apply_merges_variables_by_name(api):
    def owned(manager: str, name: str) -> None:
        manifest = a_manifest("merged")
        manifest["spec"]["engine"] = {"env": [{"name": name, "value": "1"}]}
        api.kubectl("apply", "--server-side", f"--field-manager={manager}", "-f", "-", stdin=json.dumps(manifest))

    owned("one", "A")
    owned("two", "B")
    stored = api.kubectl.get("infs", "merged")
    api.kubectl("delete", "infs", "merged")
    assert stored is not None
    assert stored["spec"]["engine"]["env"] == [{"name": "A", "value": "1"}, {"name": "B", "value": "1"}]


@pytest.mark.parametrize(
    ("status", "says"),
    [
        pytest.param(
            {"conditions": [{"type": f"T{number}"} for number in range(17)]},
            "status.conditions: Too many: 17: must have at most 16 items",
            id="17 conditions",
        ),
        pytest.param({"load": {"kvPercent": 101}}, "should be less than or equal to 100", id="101 per cent"),
        pytest.param(
            {"decision": {"because": "a" * 3000}},
            "status.decision.because: Too long: may not be more than 2048 bytes",
            id="a sentence of 3,000 characters",
        ),
    ],
)
def test_status_is_bounded_too(api, status: Object, says: str):
    api.kubectl.apply(a_manifest("bounded"))
    patched = api.kubectl.attempt(
        "patch", "infs", "bounded", "--subresource=status", "--type=merge", "-p", json.dumps({"status": status})
    )
    api.kubectl("delete", "infs", "bounded")
    assert patched.returncode == 1
    assert says in patched.stderr


def test_a_performance_profile_is_of_the_cluster(api: ControlPlane):
    """A profile is accepted without a revision and refused with one."""
    spec = {
        "model": "hf://meta-llama/Llama-3.1-8B-Instruct",
        "product": "NVIDIA-H100-80GB-HBM3",
        "stepMilliseconds": 6.9,
        "promptTokenMicroseconds": 17.3,
        "sequenceMicroseconds": 5,
        "kvTokenNanoseconds": 52,
    }
    profile = {"apiVersion": API_VERSION, "kind": "PerformanceProfile", "metadata": {"name": "llama"}, "spec": spec}
    with kubernetes.config.new_client_from_config(str(api.kubeconfig)) as client:
        objects = kubernetes.client.CustomObjectsApi(client)

        def create(manifest: Object) -> Any:
            plural = PERFORMANCE_PROFILE.plural
            return objects.create_cluster_custom_object(
                GROUP, VERSION, plural, manifest, dry_run="All", field_validation="Strict"
            )

        assert create(profile)["spec"] == spec
        with pytest.raises(kubernetes.client.ApiException) as refused:
            create(profile | {"spec": spec | {"model": "hf://a/b@v1"}})
    refusal = json.loads(refused.value.body or "{}")["message"]
    assert '"hf://a/b@v1" names a revision' in refusal


WINDOW = {"name": "morning", "start": "0 8 * * *", "duration": "4h", "placeholders": 8}


@pytest.mark.parametrize(
    ("wrong", "right", "says"),
    [
        ([WINDOW | {"placeholders": 0}], [WINDOW], "spec.schedules[0].placeholders"),
        ([WINDOW | {"start": "0 25 * * *"}], [WINDOW], '"0 25 * * *" is not a cron line'),
        ([WINDOW | {"at": ["2026-11-27T18:00"]}], [WINDOW], "needs exactly one of start and at"),
        ([WINDOW | {"duration": "30s"}], [WINDOW | {"duration": "1m"}], "is not a duration from 1m to 744h"),
        ([WINDOW, WINDOW], [WINDOW, WINDOW | {"name": "evening"}], "Duplicate value"),
    ],
)
def test_schedules_of_a_warm_pool(api: ControlPlane, wrong: Object, right: Object, says: str):
    def create(schedules: Object) -> Any:
        manifest = {"apiVersion": API_VERSION, "kind": "WarmPool", "metadata": {"name": "pool"}}
        text = json.dumps(manifest | {"spec": {"placeholders": 2, "schedules": schedules}})
        return api.kubectl.attempt("create", "--dry-run=server", "-f", "-", stdin=text)

    assert create(right).returncode == 0
    refused = create(wrong)
    assert refused.returncode == 1
    assert says in refused.stderr


def test_the_warm_pools_crd_stays_within_the_cost_budget_too(api):
    crd = grown(yaml.safe_load((CRDS / WARM_POOL.file_name).read_text()), 1.4)
    api.kubectl("replace", "--dry-run=server", "-f", "-", stdin=json.dumps(crd))
