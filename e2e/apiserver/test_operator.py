"""The operator as a process against a real API server: what it creates, keeps and deletes for a service.

Nodes and pods are KWOK's, and the operator has the rights that the chart grants. KWOK pods have no network, so nothing
is known of their load here; drains and streams are the business of the suite on real nodes.
"""

from __future__ import annotations

import json
import time

from e2e.harness import eventually
from e2e.manifests import an_inference_service
from e2e.operator_suite import condition, nothing, reason


def test_an_applied_service_becomes_pods_a_service_a_budget_and_a_status(suite, namespace, operator):
    manifest = an_inference_service("chat", namespace).replicas(2, 3)
    suite.apply(manifest)
    service = suite.serves(manifest, ready=2)
    assert [pod["status"]["phase"] for pod in suite.owned(namespace, "pods")] == ["Running", "Running"]
    assert [item["metadata"]["name"] for item in suite.owned(namespace, "services")] == ["chat"]
    (budget,) = suite.owned(namespace, "poddisruptionbudgets")
    assert budget["spec"]["minAvailable"] == 3 + 1
    assert len(suite.owned(namespace, "controllerrevisions")) == 1
    assert service["status"]["observedGeneration"] == 1
    assert service["status"]["decision"]["rule"] == "min_replicas"


def test_the_operator_changes_nothing_that_the_user_wrote(suite, namespace, operator):
    manifest = an_inference_service("chat", namespace)
    suite.apply(manifest)
    service = suite.serves(manifest, ready=1)
    assert "finalizers" not in service["metadata"]
    assert set(service["metadata"]["annotations"]) == {"kubectl.kubernetes.io/last-applied-configuration"}
    assert service["spec"] == manifest.object["spec"]
    assert service["metadata"]["generation"] == 1


def test_kubectl_get_shows_what_people_ask_for_first(suite, namespace, operator):
    manifest = an_inference_service("chat", namespace)
    suite.apply(manifest)
    suite.serves(manifest, ready=1)
    title, line = suite.plane.kubectl("get", "infs", "-n", namespace).splitlines()
    assert title.split() == ["NAME", "READY", "DESIRED", "MODEL", "QUEUE", "KV%", "REASON", "AGE"]
    assert line.split()[:4] == ["chat", "True", "1", "hf://meta-llama/Llama-3.1-8B-Instruct"]


def test_applying_the_same_again_changes_nothing(suite, namespace, operator):
    manifest = an_inference_service("chat", namespace).replicas(2, 3)
    suite.apply(manifest)
    suite.serves(manifest, ready=2)
    before, applied_at = suite.identities(namespace), time.time()
    suite.apply(manifest)
    operator.ticks_on(6, within=60)
    assert suite.identities(namespace) == before
    assert {one.resource for one in suite.writes(since=applied_at)} <= {"inferenceservices/status", "events"}
    assert suite.stored(namespace, "chat")["metadata"]["generation"] == 1
    difference = suite.plane.kubectl.attempt("diff", "-f", "-", stdin=json.dumps(manifest.object))
    assert (difference.returncode, difference.stdout) == (0, "")


def test_a_deleted_service_leaves_nothing_behind(suite, namespace, operator):
    manifest = an_inference_service("chat", namespace).replicas(2, 3)
    suite.apply(manifest)
    suite.serves(manifest, ready=2)
    suite.plane.kubectl("delete", "infs", "chat", "-n", namespace)
    eventually(
        lambda: suite.identities(namespace), lambda left: left == nothing(), within=60, what="all it owned is gone"
    )
    operator.ticks_on(4, within=60)
    assert suite.identities(namespace) == nothing()
    assert operator.metric(f'forebay_ready_replicas{{namespace="{namespace}",service="chat"}}') is None


def test_replicas_follow_the_bounds(suite, namespace, operator):
    # A pod whose load is unknown is drained until its drain timeout.
    manifest = an_inference_service("chat", namespace).replicas(1, 4).drain_timeout("2s")
    suite.apply(manifest)
    suite.serves(manifest, ready=1)
    suite.apply(manifest.replicas(3, 4))
    suite.serves(manifest, ready=3)
    suite.apply(manifest.replicas(1, 2))
    suite.serves(manifest, ready=2)


def test_a_pod_deleted_by_hand_is_replaced(suite, namespace, operator):
    manifest = an_inference_service("chat", namespace).replicas(2, 3)
    suite.apply(manifest)
    suite.serves(manifest, ready=2)
    victim, survivor = suite.owned(namespace, "pods")
    suite.plane.kubectl("delete", "pod", victim["metadata"]["name"], "-n", namespace)
    eventually(
        lambda: suite.owned(namespace, "pods"),
        lambda pods: len(pods) == 2 and victim["metadata"]["uid"] not in [pod["metadata"]["uid"] for pod in pods],
        within=30,
        what="another pod took its place",
    )
    suite.serves(manifest, ready=2)
    assert survivor["metadata"]["uid"] in suite.identities(namespace)["pods"]


def test_an_invalid_spec_is_reported_before_any_pod_exists(suite, namespace, operator):
    manifest = an_inference_service("chat", namespace)
    manifest.object["spec"]["pod"] = {"templateRef": "no-such-template"}
    suite.apply(manifest)
    service = eventually(
        lambda: suite.stored(namespace, "chat"),
        lambda found: condition(found, "Planned").get("status") == "False",
        within=30,
        what="the condition says what is wrong",
    )
    assert reason(service, "Planned") == "PodTemplateNotFound"
    assert "no-such-template" in condition(service, "Planned")["message"]
    assert suite.identities(namespace) == nothing()


def test_a_new_default_engine_restarts_no_pod_and_is_announced(suite, namespace, operator):
    manifest = an_inference_service("chat", namespace).replicas(2, 3)
    suite.apply(manifest)
    suite.serves(manifest, ready=2)
    before = suite.identities(namespace)
    operator.stop()
    operator.restart(engine_version="0.33.0")
    service = eventually(
        lambda: suite.stored(namespace, "chat"),
        lambda found: reason(found, "UpToDate") != "UpToDate",
        within=60,
        what="the condition UpToDate changes",
    )
    assert reason(service, "UpToDate") == "UpdateAvailable"
    assert condition(service, "UpToDate")["status"] == "False"
    operator.ticks_on(6, within=60)
    assert suite.identities(namespace) == before


def test_explain_and_top_show_the_decision(suite, namespace, operator, cli):
    manifest = an_inference_service("chat", namespace).replicas(2, 3)
    suite.apply(manifest)
    suite.serves(manifest, ready=2)
    explained = cli("explain", "chat", "-n", namespace)
    assert "2 replicas wanted, 2 ready; bounds 2 to 3, mode Auto." in explained
    assert "Why 2: min_replicas" in explained
    (line,) = [line for line in cli("top", "--once").splitlines() if line.startswith(namespace)]
    assert line.split()[1:7] == ["chat", "True", "2", "2", "0", "0"]


def test_a_dry_run_says_what_it_would_do_and_does_nothing(suite, namespace, tmp_path):
    suite.apply(an_inference_service("chat", namespace).replicas(2, 3))
    with suite.operator(tmp_path / "dry", dry_run=True) as dry:
        dry.ticks_on(3, within=60)
        said = " ".join(str(line.get("message")) for line in dry.log())
    assert f"{namespace}/chat wants 2 replicas" in said
    assert suite.identities(namespace) == nothing()
    assert "status" not in suite.stored(namespace, "chat")
