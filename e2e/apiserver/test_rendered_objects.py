"""Rendered objects on a real API server: accepted under the restricted profile and read back as written."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from e2e.harness import ControlPlane, eventually
from forebay.workloads.objects.child_objects import fingerprint
from forebay.workloads.objects.controller_revision import controller_revision, read_revision
from forebay.workloads.objects.disruption_budget import disruption_budget_body
from forebay.workloads.objects.ownership import Owner
from forebay.workloads.objects.service import service_body
from forebay.world.world import ServiceKey
from tests.workloads.manifests import MANIFESTS
from tests.workloads.specs import a_pod, a_revision, a_spec

NAMESPACE = "rendered-objects"
CHAT = Owner(ServiceKey(NAMESPACE, "chat"), "0f4c1d2e-5b6a-4c3d-9e8f-a1b2c3d4e5f6")
REFERENCED: tuple[dict[str, Any], ...] = (
    {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "chat", "namespace": NAMESPACE}},
    {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "weights-reader", "namespace": NAMESPACE}},
    {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "serving"}, "value": 0},
    {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": "nvidia"},
        "handler": "nvidia",
    },
)
"""Objects that the manifests refer to and that admission looks up."""
CONFINED: dict[str, Any] = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
POD_TEMPLATE: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "PodTemplate",
    "metadata": {"name": "gpu-pods", "namespace": NAMESPACE},
    "template": {
        "spec": {
            "dnsConfig": {"options": [{"name": "ndots", "value": "1"}]},
            "containers": [
                {"name": "engine", "image": "ignored", "ports": [{"containerPort": 9000}]},
                {"name": "tracing", "image": "registry.example.com/tracing:1", "securityContext": CONFINED},
            ],
        }
    },
}


@pytest.fixture(scope="module")
def team(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    """A namespace that enforces the restricted profile."""
    kubectl = control_plane.kubectl
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    kubectl.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": labels}})
    for referenced in REFERENCED:
        kubectl.apply(referenced)
    eventually(
        lambda: kubectl.get("serviceaccount", "default", NAMESPACE), within=30, what="the default service account"
    )
    yield control_plane
    kubectl("delete", "namespace", NAMESPACE, "--wait=false")
    kubectl("delete", "priorityclass/serving", "runtimeclass/nvidia")


def created(team: ControlPlane, body: dict[str, Any], *flags: str) -> Any:
    return json.loads(team.kubectl("create", "-f", "-", "-o", "json", *flags, stdin=json.dumps(body)))


@pytest.mark.parametrize("name", [name for name in MANIFESTS if name != "cache-node-path"])
def test_a_restricted_namespace_takes_the_pod_and_keeps_all_of_it(team, name):
    wanted = a_pod(a_spec(MANIFESTS[name]), avoid_nodes=["gpu-1"], owner=CHAT)
    stored = created(team, wanted, "--dry-run=server")
    assert contains(stored, wanted) == []


def test_a_pod_template_as_the_api_server_fills_it_in_merges_into_a_valid_pod(team):
    stored = created(team, POD_TEMPLATE)
    plain = a_pod(a_spec(), owner=CHAT)
    merged = a_pod(a_spec(pod={"templateRef": "gpu-pods"}), template=stored["template"], owner=CHAT)
    live = created(team, merged, "--dry-run=server")
    assert contains(live["spec"], plain["spec"]) == []
    assert [container["name"] for container in live["spec"]["containers"]] == ["engine", "tracing"]
    assert live["spec"]["dnsConfig"] == {"options": [{"name": "ndots", "value": "1"}]}


def test_a_cache_on_the_node_is_refused_there(team):
    body = json.dumps(a_pod(a_spec(MANIFESTS["cache-node-path"]), owner=CHAT))
    refused = team.kubectl.attempt("create", "-f", "-", "--dry-run=server", stdin=body)
    assert 'volume "cache" uses restricted volume type "hostPath"' in refused.stderr


@pytest.mark.parametrize("name", MANIFESTS)
def test_a_stored_revision_reads_back_as_it_was_resolved(team, name):
    revision = a_revision(a_spec(MANIFESTS[name]), owner=CHAT)
    stored = created(team, controller_revision(CHAT, revision, 1), "--dry-run=server")
    found = read_revision(
        name=stored["metadata"]["name"],
        labels=stored["metadata"]["labels"],
        annotations=stored["metadata"]["annotations"],
        number=stored["revision"],
        data=stored["data"],
    )
    assert found is not None
    assert (found.hash, found.spec_hash, found.shape, found.data) == (
        revision.hash,
        revision.spec_hash,
        revision.shape,
        revision.data,
    )


@pytest.mark.parametrize("body", [service_body(CHAT), disruption_budget_body(CHAT, 9)], ids=["service", "budget"])
def test_a_written_child_is_unchanged_and_a_manual_change_is_detected(team, body):
    kind, name = body["kind"], body["metadata"]["name"]
    # Its owner is not stored here, and the garbage collector would take the child for an orphan.
    metadata = {key: value for key, value in body["metadata"].items() if key != "ownerReferences"}
    body = {**body, "metadata": metadata}
    team.kubectl.apply(body, server_side=True)
    assert live_fingerprint(team, kind, name) == fingerprint(kind, body["metadata"]["labels"], body["spec"])
    change = {"Service": {"selector": {"app": "other"}}, "PodDisruptionBudget": {"minAvailable": 1}}[kind]
    team.kubectl("patch", kind, name, "-n", NAMESPACE, "--type=merge", "-p", json.dumps({"spec": change}))
    assert live_fingerprint(team, kind, name) != fingerprint(kind, body["metadata"]["labels"], body["spec"])
    team.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=json.dumps(body))
    assert live_fingerprint(team, kind, name) == fingerprint(kind, body["metadata"]["labels"], body["spec"])


def live_fingerprint(team: ControlPlane, kind: str, name: str) -> str:
    live = team.kubectl.get(kind, name, NAMESPACE)
    assert live is not None
    return fingerprint(kind, live["metadata"]["labels"], live["spec"])


def contains(stored: Any, wanted: Any, path: str = "") -> list[str]:
    """Paths of `wanted` that are missing or different in `stored`: an API server drops fields it does not know."""
    if isinstance(wanted, dict):
        if not isinstance(stored, dict):
            return [path]
        return [fault for key, value in wanted.items() for fault in contains(stored.get(key), value, f"{path}.{key}")]
    if isinstance(wanted, list):
        if not isinstance(stored, list) or len(stored) < len(wanted):
            return [path]
        return [fault for at, value in enumerate(wanted) for fault in contains(stored[at], value, f"{path}[{at}]")]
    return [] if stored == wanted else [path]
