"""The chart's permissions and the API server's audit log: the operator needs all of them and no others.

Each test makes the operator use rights that everyday life seldom needs; the last one reads what the whole run used.
"""

from __future__ import annotations

import json
import time
from dataclasses import replace

import pytest

from e2e.harness import ControlPlane, eventually
from e2e.manifests import ServiceManifest, an_inference_service
from e2e.operator_suite import OPERATOR_NAMESPACE, RELEASE, USER, granted, requests_of, rights_of_the_chart


@pytest.fixture(scope="module", autouse=True)
def began() -> float:
    """Unix seconds. An API server that was just restarted, as in another module, refuses all requests at first."""
    return time.time()


def with_variable(manifest: ServiceManifest, value: int) -> ServiceManifest:
    """The same service with another engine environment, which makes another revision."""
    return manifest.engine(env=[{"name": "ROUND", "value": str(value)}])


def revisions(suite, namespace: str) -> dict[str, int]:
    """Revision numbers by name."""
    return {item["metadata"]["name"]: item["revision"] for item in suite.owned(namespace, "controllerrevisions")}


def test_old_revisions_are_deleted_and_a_returning_one_is_reused(suite, namespace, operator):
    manifest = an_inference_service("chat", namespace).drain_timeout("1s")
    order: list[str] = []
    for number in range(13):
        suite.apply(with_variable(manifest, number))
        found = eventually(
            lambda: revisions(suite, namespace),
            lambda now: bool(set(now) - set(order)),
            within=60,
            what=f"revision {number}",
        )
        order.append(max(found, key=lambda name: found[name]))
    eventually(
        lambda: revisions(suite, namespace),
        lambda found: order[0] not in found,
        within=120,
        what="the oldest revision is gone",
    )
    suite.apply(with_variable(manifest, 11))
    eventually(
        lambda: revisions(suite, namespace),
        lambda found: max(found, key=lambda name: found[name]) == order[11],
        within=60,
        what="the revision from before is the newest again",
    )


def test_a_pod_name_of_another_owner_is_left_alone(suite, namespace, operator):
    manifest = an_inference_service("chat", namespace).replicas(1, 3)
    suite.apply(manifest)
    suite.serves(manifest, ready=1)
    (pod,) = suite.owned(namespace, "pods")
    stem, _, ordinal = pod["metadata"]["name"].rpartition("-")
    name = f"{stem}-{int(ordinal) + 1}"
    spec = {"containers": [{"name": "other", "image": "registry.example/other:1"}]}
    metadata = {"name": name, "namespace": namespace}
    suite.plane.kubectl.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    suite.apply(manifest.replicas(2, 3))
    suite.serves(manifest, ready=2)
    found = suite.plane.kubectl.get("pod", name, namespace)
    assert found is not None
    assert found["spec"]["containers"][0]["image"] == "registry.example/other:1"
    assert "ownerReferences" not in found["metadata"]


def test_manual_changes_of_service_and_budget_are_reverted(suite, namespace, operator):
    manifest = an_inference_service("chat", namespace)
    suite.apply(manifest)
    suite.serves(manifest, ready=1)
    kubectl = suite.plane.kubectl
    before = [suite.owned(namespace, kind)[0]["spec"] for kind in ("services", "poddisruptionbudgets")]
    kubectl("patch", "service", "chat", "-n", namespace, "--type=merge", "-p", '{"spec": {"selector": {"a": "b"}}}')
    kubectl("patch", "pdb", "chat", "-n", namespace, "--type=merge", "-p", '{"spec": {"minAvailable": 0}}')
    eventually(
        lambda: [suite.owned(namespace, kind)[0]["spec"] for kind in ("services", "poddisruptionbudgets")],
        lambda now: now == before,
        within=30,
        what="both say again what they should",
    )


def test_a_pod_template_is_merged(suite, namespace, operator):
    template = {
        "apiVersion": "v1",
        "kind": "PodTemplate",
        "metadata": {"name": "ours", "namespace": namespace},
        "template": {"spec": {"containers": [{"name": "engine", "image": "ignored", "tty": True}]}},
    }
    suite.plane.kubectl.apply(template)
    manifest = an_inference_service("chat", namespace)
    manifest.object["spec"]["pod"] = {"templateRef": "ours"}
    suite.apply(manifest)
    suite.serves(manifest, ready=1)


def test_placeholders_of_a_warm_pool_run_in_the_operators_namespace(suite, namespace, operator):
    suite.plane.kubectl.apply(
        {
            "apiVersion": "forebay.dev/v1alpha1",
            "kind": "WarmPool",
            "metadata": {"name": "shared"},
            "spec": {"placeholders": 1, "gpu": {"product": "NVIDIA-H100-80GB-HBM3"}},
        }
    )
    eventually(
        lambda: suite.plane.kubectl.get("warmpool", "shared") or {},
        lambda found: found.get("status", {}).get("ready") == 1,
        within=60,
        what="the pool holds its place",
    )
    suite.plane.kubectl("delete", "warmpool", "shared")


def test_a_tenant_quota_gets_a_status(suite, namespace, operator):
    suite.plane.kubectl.apply(
        {
            "apiVersion": "forebay.dev/v1alpha1",
            "kind": "TenantQuota",
            "metadata": {"name": "team"},
            "spec": {"namespaces": [namespace], "shares": [{"model": f"{namespace}/none", "limit": 1}]},
        }
    )
    stored = eventually(
        lambda: suite.plane.kubectl.get("tenantquota", "team") or {},
        lambda found: "conditions" in found.get("status", {}),
        within=60,
        what="the quota has a status",
    )
    assert [condition["reason"] for condition in stored["status"]["conditions"]] == ["ModelUnknown", "NoGuarantees"]
    suite.plane.kubectl("delete", "tenantquota", "team")


def test_admission_is_told_the_shares_of_a_model(suite, namespace, operator):
    model = f"{namespace}/shared"
    suite.apply(an_inference_service("shared", namespace))
    suite.plane.kubectl.apply(
        {
            "apiVersion": "forebay.dev/v1alpha1",
            "kind": "TenantQuota",
            "metadata": {"name": "callers"},
            "spec": {"shares": [{"model": model, "guaranteed": 1000}]},
        }
    )

    def guaranteed() -> list[int]:
        """What the stored plans guarantee."""
        stored = suite.plane.kubectl.list("configmaps", OPERATOR_NAMESPACE, selector="forebay.dev/share-plan")
        plans = [json.loads(found["data"]["plan.json"]) for found in stored]
        return [
            tenant["guaranteed"]
            for plan in plans
            for tenant in plan["tenants"]
            if plan["model"] == model and tenant["name"] == "callers"
        ]

    eventually(guaranteed, lambda found: found == [1000], within=60, what="the plan is stored")
    change = json.dumps({"spec": {"shares": [{"model": model, "guaranteed": 2000}]}})
    suite.plane.kubectl("patch", "tenantquota", "callers", "--type=merge", "-p", change)
    eventually(guaranteed, lambda found: found == [2000], within=30, what="the plan follows the quota")
    suite.plane.kubectl("delete", "tenantquota", "callers")
    eventually(guaranteed, lambda found: found == [], within=30, what="the plan goes with the last quota")


def test_with_one_namespace_the_operator_reads_nothing_else(suite, namespace, other_namespace, tmp_path):
    alone = "forebay-alone"
    kubectl = suite.plane.kubectl
    kubectl.apply(*rights_of_the_chart(alone, watchNamespace=namespace))
    account = kubectl.as_service_account(alone, OPERATOR_NAMESPACE)
    here, there = an_inference_service("chat", namespace), an_inference_service("chat", other_namespace)
    with replace(suite, operator_kubeconfig=account.kubeconfig).operator(
        tmp_path / "alone", namespace=namespace, lease_name=alone
    ) as operator:
        suite.apply(here, there)
        suite.serves(here, ready=1)
        operator.ticks_on(4, within=60)
    assert "status" not in suite.stored(other_namespace, "chat")
    made = list(requests_of(suite.plane, USER.replace(RELEASE, alone)))
    assert {request.right for request in made if request.code == 403} == set()


def test_every_permission_was_used_and_none_was_missing(suite, began):
    made = list(requests_of(suite.plane, USER))
    assert {request.right for request in made if request.code == 403 and request.at > began} == set()
    assert {request.right for request in made} == rights(suite.plane)


def rights(plane: ControlPlane) -> set[tuple[str, str, str]]:
    """The permissions of the operator's account, read from the roles in the cluster."""
    found: set[tuple[str, str, str]] = set()
    for name in (RELEASE, f"{RELEASE}-nodes"):
        found |= granted(plane.kubectl.json("get", "clusterrole", name)["rules"])
    return found | granted(plane.kubectl.json("get", "role", f"{RELEASE}-lease", "-n", OPERATOR_NAMESPACE)["rules"])
