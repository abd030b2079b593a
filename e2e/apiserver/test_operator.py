"""The operator as a process against a real API server, with KWOK's nodes and pods: what it makes, keeps and leaves.

KWOK pods have no network, so load comes from fleet-sim where a test needs some; streams and drains are the business of
the suite on real nodes.
"""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.harness import ControlPlane, eventually
from e2e.harness.kubectl import Object
from e2e.manifests import ServiceManifest, an_inference_service
from e2e.operator_process import OperatorProcess

CRDS = Path(__file__).parents[2] / "crds"
QUICK: dict[str, str | float | bool] = {"tick-seconds": 0.5, "debounce-seconds": 0.1}
"""A tick is a tick; shortened, more of them fit into a test."""
KINDS = ("pods", "services", "poddisruptionbudgets", "controllerrevisions")
"""What a service owns."""
FAILOVER_SECONDS = 20.0

_names = itertools.count(1)


@pytest.fixture(scope="module")
def plane(control_plane: ControlPlane) -> ControlPlane:
    control_plane.kubectl.apply(*sorted(CRDS.glob("*.yaml")), server_side=True)
    control_plane.kubectl("wait", "crd", "--all", "--for=condition=Established", "--timeout=30s")
    control_plane.add_gpu_nodes(4)
    return control_plane


@pytest.fixture
def namespace(plane: ControlPlane) -> Iterator[str]:
    """A namespace for one test; its services are gone afterwards."""
    name = f"team-{next(_names)}"
    plane.kubectl("create", "namespace", name)
    yield name
    plane.kubectl("delete", "infs", "--all", "-n", name)
    plane.kubectl("delete", "namespace", name, "--wait=false")


@pytest.fixture
def operator(plane: ControlPlane, tmp_path: Path) -> Iterator[OperatorProcess]:
    with OperatorProcess(plane.kubeconfig, tmp_path / "operator", dict(QUICK)) as process:
        yield process


def owned(plane: ControlPlane, namespace: str, kind: str) -> list[Object]:
    """Objects of the kind that a service of the namespace controls."""
    return [item for item in plane.kubectl.list(kind, namespace) if item["metadata"].get("ownerReferences")]


def identities(plane: ControlPlane, namespace: str) -> dict[str, set[str]]:
    """Uids of everything the namespace's services own, by kind."""
    return {kind: {item["metadata"]["uid"] for item in owned(plane, namespace, kind)} for kind in KINDS}


def stored(plane: ControlPlane, namespace: str, name: str) -> Object:
    found = plane.kubectl.get("infs", name, namespace)
    assert found is not None
    return found


def condition(service: Object, kind: str) -> Object:
    """The condition of this type, `{}` while there is none."""
    conditions: list[Object] = service.get("status", {}).get("conditions", [])
    return next((item for item in conditions if item["type"] == kind), {})


def serves(plane: ControlPlane, manifest: ServiceManifest, ready: int, within: float = 60.0) -> Object:
    """Wait until the service says that so many replicas are ready, and return it."""
    metadata = manifest.object["metadata"]
    return eventually(
        lambda: stored(plane, metadata["namespace"], metadata["name"]),
        lambda found: found.get("status", {}).get("replicas", {}).get("ready") == ready,
        within=within,
        what=f"{metadata['name']} has {ready} ready replicas",
    )


def test_an_applied_service_becomes_pods_a_service_a_budget_and_a_status(plane, namespace, operator):
    manifest = an_inference_service("chat", namespace).replicas(2, 3)
    plane.kubectl.apply(manifest.object)
    service = serves(plane, manifest, ready=2)
    assert [pod["status"]["phase"] for pod in owned(plane, namespace, "pods")] == ["Running", "Running"]
    assert [item["metadata"]["name"] for item in owned(plane, namespace, "services")] == ["chat"]
    (budget,) = owned(plane, namespace, "poddisruptionbudgets")
    assert budget["spec"]["minAvailable"] == 3 + 1
    assert len(owned(plane, namespace, "controllerrevisions")) == 1
    assert service["status"]["observedGeneration"] == 1
    assert service["status"]["decision"]["rule"] == "min_replicas"
    assert service["metadata"].get("finalizers") is None
    assert [name for name in service["metadata"].get("annotations", {}) if "kopf" in name] == []


def test_kubectl_get_shows_what_people_ask_for_first(plane, namespace, operator):
    manifest = an_inference_service("chat", namespace)
    plane.kubectl.apply(manifest.object)
    serves(plane, manifest, ready=1)
    title, line = plane.kubectl("get", "infs", "-n", namespace).splitlines()
    assert title.split() == ["NAME", "READY", "DESIRED", "MODEL", "QUEUE", "KV%", "REASON", "AGE"]
    assert line.split()[0] == "chat"


def test_applying_the_same_again_changes_nothing(plane, namespace, operator):
    manifest = an_inference_service("chat", namespace).replicas(2, 3)
    plane.kubectl.apply(manifest.object)
    serves(plane, manifest, ready=2)
    before = identities(plane, namespace)
    plane.kubectl.apply(manifest.object)
    operator.ticks_on(6, within=30)
    assert identities(plane, namespace) == before
    assert stored(plane, namespace, "chat")["metadata"]["generation"] == 1
    difference = plane.kubectl.attempt("diff", "-f", "-", stdin=json.dumps(manifest.object))
    assert (difference.returncode, difference.stdout) == (0, "")


def test_a_deleted_service_leaves_nothing_behind(plane, namespace, operator):
    manifest = an_inference_service("chat", namespace).replicas(2, 3)
    plane.kubectl.apply(manifest.object)
    serves(plane, manifest, ready=2)
    plane.kubectl("delete", "infs", "chat", "-n", namespace)
    nothing: dict[str, set[str]] = {kind: set() for kind in KINDS}
    eventually(
        lambda: identities(plane, namespace),
        lambda left: left == nothing,
        within=60,
        what="everything the service owned is gone",
    )
    operator.ticks_on(4, within=30)
    assert identities(plane, namespace) == nothing


def test_more_replicas_are_created_and_fewer_drained_when_the_bounds_say_so(plane, namespace, operator):
    manifest = an_inference_service("chat", namespace).replicas(1, 4)
    plane.kubectl.apply(manifest.object)
    serves(plane, manifest, ready=1)
    plane.kubectl.apply(manifest.replicas(3, 4).object)
    serves(plane, manifest, ready=3)
    plane.kubectl.apply(manifest.replicas(1, 2).object)
    serves(plane, manifest, ready=2)


def test_a_killed_operator_comes_back_and_restarts_no_pod(plane, namespace, operator):
    manifest = an_inference_service("chat", namespace).replicas(2, 3)
    plane.kubectl.apply(manifest.object)
    serves(plane, manifest, ready=2)
    before = identities(plane, namespace)
    operator.restart()
    eventually(operator.leads, within=FAILOVER_SECONDS, what="the restarted operator leads")
    operator.ticks_on(6, within=30)
    assert identities(plane, namespace) == before


def test_a_service_applied_while_no_operator_runs_is_served_by_the_next(plane, namespace, operator):
    operator.kill()
    manifest = an_inference_service("chat", namespace)
    plane.kubectl.apply(manifest.object)
    operator.start()
    serves(plane, manifest, ready=1)


def test_a_new_default_engine_restarts_no_pod_and_is_announced(plane, namespace, operator):
    manifest = an_inference_service("chat", namespace).replicas(2, 3)
    plane.kubectl.apply(manifest.object)
    serves(plane, manifest, ready=2)
    before = identities(plane, namespace)
    operator.restart(engine_version="0.33.0")
    service = eventually(
        lambda: stored(plane, namespace, "chat"),
        lambda found: condition(found, "UpToDate").get("reason") == "UpdateAvailable",
        within=60,
        what="the condition says that an update is available",
    )
    assert condition(service, "UpToDate")["status"] == "False"
    operator.ticks_on(6, within=30)
    assert identities(plane, namespace) == before


def test_sigterm_ends_it_gracefully_and_gives_the_lease_back(plane, operator):
    eventually(operator.leads, within=FAILOVER_SECONDS, what="the operator leads")
    code, seconds = operator.stop()
    assert (code, seconds < 10) == (0, True)
    lease = plane.kubectl.get("lease", "forebay-operator")
    assert lease is not None
    assert not lease["spec"].get("holderIdentity")


def test_two_operators_one_leads_and_the_other_follows_within_seconds(plane, namespace, tmp_path):
    with (
        OperatorProcess(plane.kubeconfig, tmp_path / "one", dict(QUICK)) as one,
        OperatorProcess(plane.kubeconfig, tmp_path / "two", dict(QUICK)) as two,
    ):
        eventually(lambda: one.leads() or two.leads(), within=FAILOVER_SECONDS, what="one of them leads")
        leader, standby = (one, two) if one.leads() else (two, one)
        assert not standby.leads()
        assert standby.answers("/readyz")[0] == 200
        manifest = an_inference_service("chat", namespace)
        plane.kubectl.apply(manifest.object)
        serves(plane, manifest, ready=1)
        before = identities(plane, namespace)
        killed_at = time.monotonic()
        leader.kill()
        eventually(standby.leads, within=FAILOVER_SECONDS, what="the standby leads")
        assert time.monotonic() - killed_at < FAILOVER_SECONDS
        standby.ticks_on(4, within=30)
        assert identities(plane, namespace) == before


def test_a_leader_that_stops_hands_over_at_once(plane, tmp_path):
    with (
        OperatorProcess(plane.kubeconfig, tmp_path / "one", dict(QUICK)) as one,
        OperatorProcess(plane.kubeconfig, tmp_path / "two", dict(QUICK)) as two,
    ):
        eventually(lambda: one.leads() or two.leads(), within=FAILOVER_SECONDS, what="one of them leads")
        leader, standby = (one, two) if one.leads() else (two, one)
        assert leader.stop()[0] == 0
        eventually(standby.leads, within=5, what="the standby leads")


def test_an_api_server_outage_is_survived_and_what_changed_meanwhile_is_seen(plane, namespace, operator, tmp_path):
    manifest = an_inference_service("chat", namespace).replicas(2, 3)
    plane.kubectl.apply(manifest.object)
    serves(plane, manifest, ready=2)
    before = identities(plane, namespace)
    plane.daemon("kube-apiserver").kill()
    eventually(
        lambda: operator.answers("/healthz")[1],
        lambda said: "no view of the cluster" in said,
        within=30,
        what="the health check names the outage",
    )
    assert operator.answers("/healthz")[0] == 200
    ControlPlane.start(plane.directory)
    operator.ticks_on(4, within=90)
    assert identities(plane, namespace) == before


def test_a_dry_run_says_what_it_would_do_and_does_nothing(plane, namespace, tmp_path):
    manifest = an_inference_service("chat", namespace).replicas(2, 3)
    plane.kubectl.apply(manifest.object)
    with OperatorProcess(plane.kubeconfig, tmp_path / "dry", {**QUICK, "dry-run": True}) as dry:
        dry.ticks_on(3, within=30)
        said = " ".join(str(line.get("message")) for line in dry.log())
    assert "wants 2 replicas" in said
    assert identities(plane, namespace) == {kind: set() for kind in KINDS}
    assert "status" not in stored(plane, namespace, "chat")
