"""The chart as helm renders it: golden files, refusals, and what a real API server makes of the objects and rights."""

from __future__ import annotations

import itertools
import json
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.harness import ControlPlane
from e2e.harness.binaries import binary
from e2e.harness.kubectl import Kubectl, Object
from e2e.harness.recipes import HELM

ROOT = Path(__file__).parents[2]
CHART = ROOT / "charts" / "forebay"
GOLDEN = Path(__file__).parent / "chart_golden"
NAMESPACE = "chart-system"
TEAM = "chart-team"

VALUES: dict[str, dict[str, Any]] = {
    "default": {"crds": {"enabled": False}},
    "everything": {
        "replicas": 3,
        "image": {"repository": "registry.example/forebay", "tag": "1.2.3", "pullSecrets": [{"name": "registry"}]},
        "engine": {"version": "0.33.0", "image": "registry.example/vllm:v{version}"},
        "flags": {
            "dry-run": True,
            "leader-election": True,
            "log-level": "debug",
            "max-gpus": 2000000,
            "metrics-url": "http://fleet-sim:9000/{namespace}/{pod}",
            "scrape-interval": 7.5,
            "prometheus-selector": "cluster=eu-1",
        },
        "prometheus": {
            "url": "https://prometheus.monitoring:9090",
            "caConfigMap": {"name": "internal-ca", "key": "ca.crt"},
            "tokenSecret": {"name": "prometheus-reader", "key": "token"},
        },
        "crds": {"enabled": False},
        "rbac": {"ownerReferencesPermissionEnforcement": True},
        "serviceAccount": {"name": "planner", "annotations": {"example.com/role": "forebay"}},
        "podLabels": {"example.com/team": "platform"},
        "podAnnotations": {"example.com/note": "operator"},
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "tolerations": [{"key": "control", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {}},
        "priorityClassName": "system-cluster-critical",
        "podMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
        "networkPolicy": {
            "enabled": True,
            "metricsFrom": [{"namespaceSelector": {"matchLabels": {"team": "monitoring"}}}],
            "extraEgress": [{"ports": [{"port": 9000}]}],
        },
    },
    "one-namespace": {
        "watchNamespace": TEAM,
        "replicas": 1,
        "flags": {"leader-election": False},
        "crds": {"enabled": False},
        "rbac": {"aggregate": False},
    },
}


def helm(*arguments: str, values: Mapping[str, Any] | None = None) -> subprocess.CompletedProcess[str]:
    command = [str(binary(HELM)), *arguments, str(CHART), "--namespace", NAMESPACE, "--values", "-"]
    return subprocess.run(command, input=json.dumps(values or {}), capture_output=True, text=True, timeout=60)


def rendered(values: Mapping[str, Any], release: str = "forebay") -> list[Object]:
    done = helm("template", release, values=values)
    assert done.returncode == 0, done.stderr
    return [document for document in yaml.safe_load_all(done.stdout) if document]


def test_helm_lint_passes():
    done = helm("lint", "--strict")

    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 chart(s) failed" in done.stdout + done.stderr


@pytest.mark.parametrize("name", VALUES)
def test_rendered_objects(name, request):
    objects = sorted(rendered(VALUES[name]), key=lambda found: (found["kind"], found["metadata"]["name"]))
    path = GOLDEN / f"{name}.yaml"
    if request.config.getoption("--update-golden", default=False):
        path.write_text(yaml.safe_dump_all(objects, sort_keys=False, width=120))

    assert objects == list(yaml.safe_load_all(path.read_text()))


@pytest.mark.parametrize(
    ("values", "said"),
    [
        pytest.param({"replicas": 0}, "/replicas", id="no replica"),
        pytest.param({"replica": 2}, "replica", id="a misspelt value"),
        pytest.param({"flags": {"max-gpu": 8}}, "max-gpu", id="a misspelt flag"),
        pytest.param({"flags": {"tick-seconds": 0}}, "/flags/tick-seconds", id="a flag out of range"),
        pytest.param({"flags": {"scrape-interval": 1}}, "/flags/scrape-interval", id="scrapes that slow engines down"),
        pytest.param({"flags": {"log-level": "loud"}}, "/flags/log-level", id="an unknown level"),
        pytest.param({"flags": {"metrics-url": "https://{ip}"}}, "/flags/metrics-url", id="metrics over TLS"),
        pytest.param({"flags": {"leader-election": False}}, "set replicas to 1", id="two operators without a lease"),
        pytest.param({"prometheus": {"url": "prometheus:9090"}}, "/prometheus/url", id="an address without a scheme"),
        pytest.param(
            {"prometheus": {"tokenSecret": {"name": "t"}}}, "/prometheus/tokenSecret", id="a Secret without key"
        ),
        pytest.param(
            {"prometheus": {"tokenSecret": {"name": "t", "key": "k"}}},
            "set it, or leave them out",
            id="a token for nobody",
        ),
        pytest.param({"engine": {"version": "latest"}}, "/engine/version", id="a tag for a version"),
        pytest.param({"image": {"pullPolicy": "Sometimes"}}, "/image/pullPolicy", id="an unknown pull policy"),
        pytest.param({"watchNamespace": ["a", "b"]}, "/watchNamespace", id="several namespaces"),
        pytest.param(
            {"serviceAccount": {"create": False}},
            "serviceAccount.name: name an existing ServiceAccount",
            id="no account",
        ),
    ],
)
def test_invalid_values_are_refused(values, said):
    done = helm("template", "forebay", values=values)

    assert done.returncode != 0
    assert said in done.stderr


@pytest.mark.parametrize("keep", [True, False])
def test_crds_come_with_the_release_and_stay_when_asked(keep):
    objects = rendered({"crds": {"enabled": True, "keep": keep}})
    crds = [found for found in objects if found["kind"] == "CustomResourceDefinition"]
    expected = [yaml.safe_load(path.read_text()) for path in sorted((ROOT / "crds").glob("*.yaml"))]
    if keep:
        for crd in expected:
            crd["metadata"]["annotations"] = {"helm.sh/resource-policy": "keep"}

    assert crds == expected


@pytest.fixture(scope="module")
def cluster(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    kubectl = control_plane.kubectl
    restricted = {"pod-security.kubernetes.io/enforce": "restricted"}
    for namespace in (NAMESPACE, TEAM):
        kubectl.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace, "labels": restricted}})
        kubectl.eventually("serviceaccount", "default", bool, within=30, what="the account", namespace=namespace)
    yield control_plane
    kubectl("delete", "namespace", NAMESPACE, TEAM, "--wait=false")


@pytest.mark.parametrize("name", VALUES)
def test_an_api_server_takes_every_object(cluster, name):
    objects = [found for found in rendered(VALUES[name]) if found["kind"] != "PodMonitor"]
    said = cluster.kubectl("apply", "--dry-run=server", "-f", "-", stdin=json.dumps(_as_list(objects)))

    assert said.count("(server dry run)") == len(objects)
    assert "violate" not in said


@pytest.mark.parametrize("name", ["default", "everything"])
def test_the_operators_pod_passes_the_restricted_profile(cluster, name):
    [deployment] = [found for found in rendered(VALUES[name]) if found["kind"] == "Deployment"]
    spec = deployment["spec"]["template"]["spec"] | {"serviceAccountName": "default"}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "operator"}, "spec": spec}

    cluster.kubectl("create", "--dry-run=server", "-n", NAMESPACE, "-f", "-", stdin=json.dumps(pod))


SERVICES = {
    "forebay.dev/inferenceservices": {"list", "watch"},
    "forebay.dev/inferenceservices/status": {"patch"},
    "/pods": {"get", "list", "watch", "create", "patch", "delete"},
    "/podtemplates": {"get"},
    "/resourcequotas": {"list", "watch"},
    "/services": {"get", "list", "watch", "create", "patch"},
    "policy/poddisruptionbudgets": {"get", "list", "watch", "create", "patch"},
    "apps/controllerrevisions": {"get", "list", "watch", "create", "patch", "delete"},
    "events.k8s.io/events": {"create"},
}
"""What the operator may do with services and what belongs to them."""
OF_THE_CLUSTER = {"/nodes": {"list", "watch"}, "forebay.dev/performanceprofiles": {"list"}}
UNLESS_ONE_NAMESPACE = {
    "forebay.dev/warmpools": {"list"},
    "forebay.dev/warmpools/status": {"patch"},
    "forebay.dev/tenantquotas": {"list", "watch"},
    "forebay.dev/tenantquotas/status": {"patch"},
}
"""Of an operator that is not kept to one namespace."""
ACCOUNT = "charted-forebay"
"""A release of its own: other suites share the cluster, and cluster roles have no namespace."""
SHARE_PLANS = {"/configmaps": {"list", "watch", "create", "patch", "delete"}}
"""In its own namespace."""
LEASE = {"coordination.k8s.io/leases": {"create"}, f"coordination.k8s.io/leases={ACCOUNT}": {"get", "patch"}}
OF_EVERY_ACCOUNT = ("authentication.k8s.io", "authorization.k8s.io")
"""Groups in which each account may ask who it is and what it may do."""


@pytest.fixture
def account(cluster: ControlPlane, request: pytest.FixtureRequest) -> Iterator[Kubectl]:
    """kubectl with the rights of the operator, as the chart grants them with the values of the test's parameter."""
    granted = [
        found
        for found in rendered(VALUES[request.param], release=ACCOUNT)
        if found["kind"] == "ServiceAccount" or found["apiVersion"].startswith("rbac.")
    ]
    cluster.kubectl.apply(_as_list(granted))
    yield cluster.kubectl.as_service_account(ACCOUNT, NAMESPACE)
    cluster.kubectl("delete", "-f", "-", stdin=json.dumps(_as_list(granted)))


def rights(account: Kubectl, namespace: str) -> dict[str, set[str]]:
    """All that the account may do in a namespace and on cluster level, as the API server says."""
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectRulesReview",
        "spec": {"namespace": namespace},
    }
    answer = json.loads(account("create", "--validate=false", "-f", "-", "-o", "json", stdin=json.dumps(review)))
    assert not answer["status"]["incomplete"]
    found: dict[str, set[str]] = {}
    for rule in answer["status"]["resourceRules"]:
        for group, resource in itertools.product(rule["apiGroups"], rule["resources"]):
            if group not in OF_EVERY_ACCOUNT:
                for name in rule.get("resourceNames") or [""]:
                    found.setdefault(f"{group}/{resource}{name and '=' + name}", set()).update(rule["verbs"])
    return found


@pytest.mark.parametrize("account", ["default"], indirect=True)
def test_the_operator_may_do_this_and_nothing_else(account):
    assert rights(account, TEAM) == SERVICES | OF_THE_CLUSTER | UNLESS_ONE_NAMESPACE
    assert rights(account, NAMESPACE) == SERVICES | OF_THE_CLUSTER | UNLESS_ONE_NAMESPACE | SHARE_PLANS | LEASE


@pytest.mark.parametrize("account", ["one-namespace"], indirect=True)
def test_with_one_namespace_the_operator_has_no_permissions_elsewhere(account):
    assert rights(account, TEAM) == SERVICES | OF_THE_CLUSTER
    assert rights(account, NAMESPACE) == OF_THE_CLUSTER | LEASE
    assert rights(account, "default") == OF_THE_CLUSTER


def _as_list(objects: list[Object]) -> Object:
    return {"apiVersion": "v1", "kind": "List", "items": objects}
