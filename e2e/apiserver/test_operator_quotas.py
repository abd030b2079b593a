"""ResourceQuotas on a real API server: admission and the quota controller count, the operator asks for what fits."""

from __future__ import annotations

import itertools
import json
import re
import time
from collections.abc import Iterator

import pytest

from e2e.harness import eventually
from e2e.harness.kubectl import Object
from e2e.manifests import an_inference_service
from e2e.operator_suite import OPERATOR_NAMESPACE, RELEASE, Request, Suite, condition, reason, rights_of_the_chart
from forebay.cluster.read.projections import QuotaObject
from forebay.cluster.read.quota_views import quota_view
from forebay.workloads.objects.pod_charge import applies, charge_of
from forebay.workloads.spec.quantities import amount_of

PRODUCT = "LIMITED"
GPUS = "requests.nvidia.com/gpu"
_numbers = itertools.count(1)
AT_ONCE_SECONDS = 10.0
"""From a raised quota to new pods: the watch, the debounce and a tick; a back-off would have grown to minutes."""


@pytest.fixture(scope="module", autouse=True)
def nodes(suite: Suite) -> Iterator[None]:
    suite.plane.add_gpu_nodes(1, gpus=8, product=PRODUCT, prefix=PRODUCT.lower())
    yield
    suite.plane.kubectl("delete", "node", "-l", f"nvidia.com/gpu.product={PRODUCT}")


def limit(suite: Suite, namespace: str, **hard: str) -> None:
    """Create the quota or change it, and wait until admission enforces it."""
    metadata = {"name": "team", "namespace": namespace}
    suite.plane.kubectl.apply(
        {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": hard}}
    )
    eventually(
        lambda: quota(suite, namespace)["status"],
        lambda status: status.get("hard") == hard and set(status.get("used", ())) == set(hard),
        within=30,
        what="the quota counts",
    )


def quota(suite: Suite, namespace: str) -> Object:
    found = suite.plane.kubectl.get("resourcequota", "team", namespace)
    assert found is not None
    return {"status": {}} | found


def creations(suite: Suite, since: float) -> list[Request]:
    """The pods that the operator asked for."""
    return [one for one in suite.writes(since) if (one.resource, one.verb) == ("pods", "create")]


def refused(made: list[Request]) -> list[Request]:
    return [one for one in made if one.code >= 400]


def waits_for_the_quota(suite: Suite, namespace: str, pods: int) -> Object:
    """Wait until so many replicas serve and the status names the quota, and return the service."""

    def accept(found: Object) -> bool:
        ready = found.get("status", {}).get("replicas", {}).get("ready", 0)
        return ready == pods and reason(found, "Ready") == "QuotaExceeded"

    return eventually(
        lambda: suite.stored(namespace, "chat"), accept, within=60, what=f"{pods} serve and the others wait"
    )


def test_two_of_four_replicas_fit_and_none_is_refused(suite, namespace, operator):
    limit(suite, namespace, **{GPUS: "2"})
    manifest = an_inference_service("chat", namespace).replicas(4, 4).gpu(product=PRODUCT)
    since = time.time()
    suite.apply(manifest)
    service = waits_for_the_quota(suite, namespace, pods=2)
    operator.ticks_on(20, within=60)
    assert len(suite.owned(namespace, "pods")) == 2
    assert (len(creations(suite, since)), refused(creations(suite, since))) == (2, [])
    said = condition(service, "Ready")["message"]
    for part in ("2 of 4 replicas", "ResourceQuota team", f"2 of 2 {GPUS}", "takes 1", "to 4"):
        assert part in said
    events = suite.plane.kubectl.json("get", "events", "-n", namespace)["items"]
    assert [event["message"] for event in events if event["reason"] == "QuotaExceeded"]

    raised_at = time.time()
    limit(suite, namespace, **{GPUS: "4"})
    suite.serves(manifest, ready=4)
    made = creations(suite, since)
    assert (len(made), refused(made)) == (4, [])
    assert max(one.at for one in made) - raised_at <= AT_ONCE_SECONDS


def test_a_replica_that_ends_leaves_its_share_to_the_next(suite, namespace, operator):
    """The quota controller counts the deletion after the fact, so the replacement waits for its word."""
    limit(suite, namespace, pods="2")
    manifest = an_inference_service("chat", namespace).replicas(2, 2).gpu(product=PRODUCT)
    since = time.time()
    suite.apply(manifest)
    suite.serves(manifest, ready=2)
    before = suite.identities(namespace)["pods"]
    suite.plane.kubectl("delete", "pod", suite.owned(namespace, "pods")[0]["metadata"]["name"], "-n", namespace)
    eventually(
        lambda: suite.identities(namespace)["pods"],
        lambda now: len(now) == 2 and now != before,
        within=60,
        what="another pod has its place",
    )
    suite.serves(manifest, ready=2)
    assert refused(creations(suite, since)) == []


def test_without_the_right_to_read_quotas_they_are_noticed_when_they_refuse(suite, namespace, tmp_path):
    limit(suite, namespace, **{GPUS: "1"})
    role = json.loads(suite.plane.kubectl("get", "clusterrole", RELEASE, "-o", "json"))
    role["rules"] = [rule for rule in role["rules"] if "resourcequotas" not in rule["resources"]]
    suite.plane.kubectl("replace", "-f", "-", stdin=json.dumps(role))
    may_list = (
        "auth",
        "can-i",
        "list",
        "resourcequotas",
        "-A",
        f"--as=system:serviceaccount:{OPERATOR_NAMESPACE}:{RELEASE}",
    )
    eventually(
        lambda: suite.plane.kubectl.attempt(*may_list).stdout.strip(),
        lambda said: said == "no",
        within=30,
        what="the right is gone",
    )
    manifest = an_inference_service("chat", namespace).replicas(2, 2).gpu(product=PRODUCT)
    since = time.time()
    try:
        with suite.operator(tmp_path / "blind") as blind:
            suite.apply(manifest)
            eventually(
                lambda: suite.stored(namespace, "chat"),
                lambda found: "exceeded quota: team" in condition(found, "Ready").get("message", ""),
                within=60,
                what="the status repeats the refusal",
            )
            assert len(suite.owned(namespace, "pods")) == 1
            assert refused(creations(suite, since))
            assert blind.log_file.read_text().count("watching resourcequotas") == 1
    finally:
        suite.plane.kubectl.apply(*rights_of_the_chart())
    eventually(
        lambda: suite.plane.kubectl.attempt(*may_list).stdout.strip(),
        lambda said: said == "yes",
        within=30,
        what="the right is back",
    )


def a_container(*, sidecar: bool = False, **resources: dict[str, str]) -> Object:
    """A container that never runs. A sidecar is an init container that stays."""
    container = {"name": f"c{next(_numbers)}", "image": "registry.example/none:1", "resources": resources}
    return container | ({"restartPolicy": "Always"} if sidecar else {})


POD_SPECS = {
    "gpus": {"containers": [a_container(limits={"nvidia.com/gpu": "2"})]},
    "requests-and-limits": {
        "containers": [a_container(requests={"cpu": "500m", "memory": "1Gi"}, limits={"memory": "2Gi"})]
    },
    "a-sum": {
        "containers": [a_container(requests={"cpu": "1.5"}, limits={"cpu": "2"}), a_container(limits={"cpu": "250m"})]
    },
    "an-init-container": {
        "containers": [a_container(requests={"cpu": "1"}), a_container(requests={"cpu": "1"})],
        "initContainers": [a_container(requests={"cpu": "3", "ephemeral-storage": "1G"})],
    },
    "sidecars": {
        "containers": [a_container(requests={"cpu": "1"})],
        "initContainers": [
            a_container(sidecar=True, requests={"cpu": "2"}),
            a_container(requests={"cpu": "4"}),
            a_container(sidecar=True, requests={"cpu": "3"}),
        ],
    },
}


@pytest.mark.parametrize("case", POD_SPECS)
def test_a_pod_costs_what_admission_says(suite, namespace, case):
    spec = POD_SPECS[case]
    usage = charge_of(spec).usage
    limit(suite, namespace, **dict.fromkeys(usage, "0"))
    said = eventually(
        lambda: tried(suite, namespace, spec), lambda said: "exceeded quota: team" in said, within=30, what="a refusal"
    )
    requested = re.search(r"requested: (\S+), used:", said)
    assert requested is not None, said
    amounts = dict(pair.split("=") for pair in requested[1].split(","))
    assert {resource: amount_of(amount) for resource, amount in amounts.items()} == usage


PLAIN = {"containers": [a_container()]}
FRUGAL = {"containers": [a_container(requests={"cpu": "1m"})]}
URGENT = PLAIN | {"priorityClassName": "forebay-placeholder"}
BRIEF = PLAIN | {"activeDeadlineSeconds": 60}
ELSEWHERE = PLAIN | {
    "affinity": {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "kubernetes.io/hostname", "namespaceSelector": {}}
            ]
        }
    }
}
SCOPES = [
    pytest.param({"scopes": ["BestEffort"]}, PLAIN, FRUGAL, id="BestEffort"),
    pytest.param({"scopes": ["NotBestEffort"]}, FRUGAL, PLAIN, id="NotBestEffort"),
    pytest.param({"scopes": ["Terminating"]}, BRIEF, PLAIN, id="Terminating"),
    pytest.param({"scopes": ["NotTerminating"]}, PLAIN, BRIEF, id="NotTerminating"),
    pytest.param({"scopes": ["PriorityClass"]}, URGENT, PLAIN, id="PriorityClass"),
    pytest.param({"scopes": ["CrossNamespacePodAffinity"]}, ELSEWHERE, PLAIN, id="CrossNamespacePodAffinity"),
    *(
        pytest.param(
            {"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": operator, **values}]}},
            counted,
            other,
            id=f"PriorityClass-{operator}",
        )
        for operator, values, counted, other in (
            ("In", {"values": ["forebay-placeholder"]}, URGENT, PLAIN),
            ("NotIn", {"values": ["forebay-placeholder"]}, PLAIN, URGENT),
            ("Exists", {}, URGENT, PLAIN),
            ("DoesNotExist", {}, PLAIN, URGENT),
        )
    ),
]


@pytest.mark.parametrize(("scopes", "counted", "other"), SCOPES)
def test_a_scope_counts_the_pods_that_admission_counts(suite, namespace, scopes, counted, other):
    metadata = {"name": "team", "namespace": namespace}
    spec = {"hard": {"pods": "0"}, **scopes}
    suite.plane.kubectl.apply({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": spec})
    eventually(
        lambda: tried(suite, namespace, counted),
        lambda said: "exceeded quota: team" in said,
        within=30,
        what="a refusal",
    )
    assert "exceeded quota" not in tried(suite, namespace, other)
    view = quota_view(QuotaObject.model_validate(quota(suite, namespace)))
    assert (applies(view, charge_of(counted)), applies(view, charge_of(other))) == (True, False)


def tried(suite: Suite, namespace: str, spec: Object) -> str:
    """What the API server says to a pod that is not created."""
    metadata = {"name": "tried", "namespace": namespace}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    done = suite.plane.kubectl.attempt("create", "--dry-run=server", "-f", "-", stdin=json.dumps(pod))
    return done.stdout + done.stderr
