"""Replicas of two pods on KWOK's nodes: the group comes and goes as a whole, and half of one is given back.

The scheduler is the real one. KWOK says Ready of every pod that has a node, rank 0 without its rank 1 too, which a real
engine never would; so the operator's own count is what is looked at here.
"""

from __future__ import annotations

from typing import Any

from e2e.harness import eventually
from e2e.manifests import ServiceManifest, an_inference_service
from e2e.operator_suite import condition, nothing, reason

GATE = "forebay.dev/group"


def a_pair(namespace: str, product: str, name: str = "chat") -> ServiceManifest:
    """Two nodes with eight GPUs each per replica."""
    sizes = {"tensorParallelSize": 8, "pipelineParallelSize": 2, "nodes": 2}
    return an_inference_service(name, namespace).engine(**sizes).gpu(product=product).drain_timeout("2s")


def ranks(pods: list[dict[str, Any]]) -> list[str]:
    return [pod["metadata"]["labels"]["forebay.dev/rank"] for pod in pods]


def test_a_replica_on_two_nodes_is_created_and_deleted_as_a_whole(suite, namespace, operator):
    suite.plane.add_gpu_nodes(2, product="PAIR", prefix="pair")
    manifest = a_pair(namespace, "PAIR").replicas(1, 2)
    suite.apply(manifest)
    suite.serves(manifest, ready=1)
    pods = suite.owned(namespace, "pods")
    assert ranks(pods) == ["0", "1"]
    assert len({pod["spec"]["nodeName"] for pod in pods}) == 2
    assert all("schedulingGates" not in pod["spec"] for pod in pods)
    services = {item["metadata"]["name"]: item["spec"] for item in suite.owned(namespace, "services")}
    (ranks_service,) = services.keys() - {"chat"}
    assert services[ranks_service]["clusterIP"] == "None"
    assert services[ranks_service]["publishNotReadyAddresses"] is True
    assert {pod["spec"]["subdomain"] for pod in pods} == {ranks_service}
    (budget,) = suite.owned(namespace, "poddisruptionbudgets")
    assert budget["spec"]["minAvailable"] == (2 + 1) * 2

    suite.plane.kubectl("delete", "pod", pods[1]["metadata"]["name"], "-n", namespace)
    before = {pod["metadata"]["uid"] for pod in pods}
    eventually(
        lambda: suite.owned(namespace, "pods"),
        lambda now: len(now) == 2 and not before & {pod["metadata"]["uid"] for pod in now},
        within=60,
        what="with rank 1 the whole group has gone, and another one is there",
    )
    suite.serves(manifest, ready=1)
    suite.plane.kubectl("delete", "infs", "chat", "-n", namespace)
    eventually(lambda: suite.identities(namespace), lambda left: left == nothing(), within=60, what="all of it is gone")


def test_only_rank_0_is_in_the_service_and_every_rank_has_a_name(suite, namespace, operator):
    suite.plane.add_gpu_nodes(2, product="NAMES", prefix="names")
    manifest = a_pair(namespace, "NAMES")
    suite.apply(manifest)
    suite.serves(manifest, ready=1)
    names = [pod["metadata"]["name"] for pod in suite.owned(namespace, "pods")]
    found = eventually(
        lambda: endpoints_of(suite, namespace),
        lambda now: sorted(map(len, now.values())) == [1, 2],
        within=30,
        what="the endpoints are told of the pods",
    )
    assert found.pop("chat") == names[:1]
    (headless,) = found.values()
    assert sorted(headless) == names


def endpoints_of(suite, namespace: str) -> dict[str, list[str]]:
    """Names of pods by Service."""
    by_service: dict[str, list[str]] = {}
    for item in suite.plane.kubectl.list("endpointslices", namespace):
        service = item["metadata"]["labels"]["kubernetes.io/service-name"]
        by_service.setdefault(service, []).extend(one["targetRef"]["name"] for one in item.get("endpoints") or ())
    return by_service


def test_pods_are_gated_until_both_exist(suite, namespace, operator):
    """A quota admits one of the two pods; without gates, the first would hold half of the GPUs.

    What the pods cost is known to admission alone, since a LimitRange adds it. Otherwise none would be created.
    """
    suite.plane.add_gpu_nodes(2, product="QUOTA", prefix="quota")
    metadata = {"name": "one-pod", "namespace": namespace}
    per_container = {"type": "Container", "defaultRequest": {"cpu": "1"}}
    suite.plane.kubectl.apply(
        {"apiVersion": "v1", "kind": "LimitRange", "metadata": metadata, "spec": {"limits": [per_container]}},
        {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": {"requests.cpu": "1"}}},
    )
    eventually(
        lambda: suite.plane.kubectl.get("resourcequota", "one-pod", namespace),
        lambda found: bool(found and found.get("status", {}).get("hard")),
        within=30,
        what="the quota counts",
    )
    manifest = a_pair(namespace, "QUOTA")
    suite.apply(manifest)
    eventually(lambda: suite.owned(namespace, "pods"), lambda pods: len(pods) == 1, within=30, what="one pod is let in")
    operator.ticks_on(6, within=60)
    (pod,) = suite.owned(namespace, "pods")
    assert pod["spec"]["schedulingGates"] == [{"name": GATE}]
    assert "nodeName" not in pod["spec"]
    suite.plane.kubectl("delete", "resourcequota,limitrange", "one-pod", "-n", namespace)
    suite.serves(manifest, ready=1, within=120)


def test_a_replica_with_one_unschedulable_rank_is_deleted_as_a_whole(suite, namespace, tmp_path):
    """Gates are not gang scheduling: rank 0 is bound, but only until the time limit."""
    suite.plane.add_gpu_nodes(1, product="ALONE", prefix="alone")
    manifest = a_pair(namespace, "ALONE")
    with suite.operator(tmp_path / "hasty", pending_timeout=6):
        suite.apply(manifest)
        half = eventually(
            lambda: suite.owned(namespace, "pods"),
            lambda pods: sum("nodeName" in pod["spec"] for pod in pods) == 1 and len(pods) == 2,
            within=30,
            what="one of the two has a node",
        )
        service = eventually(
            lambda: suite.stored(namespace, "chat"),
            lambda found: reason(found, "Ready") == "Unschedulable",
            within=60,
            what="the condition says what is missing",
        )
        assert "node" in condition(service, "Ready")["message"]
        assert service["status"]["replicas"].get("ready", 0) == 0
        uids = {pod["metadata"]["uid"] for pod in half}
        eventually(
            lambda: suite.owned(namespace, "pods"),
            lambda pods: not uids & {pod["metadata"]["uid"] for pod in pods},
            within=60,
            what="both are gone, the one with a node too",
        )
        suite.plane.add_gpu_nodes(1, product="ALONE", prefix="another")
        suite.serves(manifest, ready=1, within=90)
