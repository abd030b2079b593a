"""What a pod costs in a ResourceQuota, and which quotas count it."""

from fractions import Fraction
from typing import Any

import pytest

from forebay.workloads.objects.pod_charge import PodCharge, applies, charge_of, charge_of_placeholder
from forebay.world.quota import QuotaScope
from tests.builders.quotas import GPUS, a_quota
from tests.builders.world import a_place

POD = {"pods": 1, "count/pods": 1}


def a_container(*, restart: str | None = None, **resources: dict[str, str]) -> dict[str, Any]:
    policy = {"restartPolicy": restart} if restart else {}
    return {"name": "x", "resources": resources, **policy}


@pytest.mark.parametrize(
    ("spec", "usage"),
    [
        pytest.param({"containers": [{"name": "x"}]}, {}, id="a pod without resources is a pod"),
        pytest.param(
            {"containers": [a_container(limits={"nvidia.com/gpu": "2"})]},
            {GPUS: 2},
            id="the limit of GPUs is requested",
        ),
        pytest.param(
            {"containers": [a_container(requests={"cpu": "500m"}, limits={"memory": "1Gi"})]},
            {"requests.cpu": 0.5, "cpu": 0.5, "requests.memory": 2**30, "memory": 2**30, "limits.memory": 2**30},
            id="native resources count under two names",
        ),
        pytest.param(
            {"containers": [a_container(requests={"cpu": "1"}), a_container(requests={"cpu": "250m"})]},
            {"requests.cpu": 1.25, "cpu": 1.25},
            id="containers are summed",
        ),
        pytest.param(
            {
                "containers": [a_container(requests={"cpu": "1"})],
                "initContainers": [a_container(requests={"cpu": "3"})],
            },
            {"requests.cpu": 3, "cpu": 3},
            id="the largest init container",
        ),
        pytest.param(
            {
                "containers": [a_container(requests={"cpu": "1"})],
                "initContainers": [
                    a_container(requests={"cpu": "2"}, restart="Always"),
                    a_container(requests={"cpu": "2"}),
                ],
            },
            {"requests.cpu": 4, "cpu": 4},
            id="a sidecar runs beside the init containers after it",
        ),
        pytest.param(
            {"containers": [a_container(requests={"cpu": "1"})], "overhead": {"cpu": "250m", "memory": "64Mi"}},
            {"requests.cpu": 1.25, "cpu": 1.25, "requests.memory": 2**26, "memory": 2**26},
            id="overhead is requested on top",
        ),
        pytest.param(
            {"containers": [a_container(requests={"cpu": "1"})], "resources": {"requests": {"cpu": "6"}}},
            {"requests.cpu": 6, "cpu": 6},
            id="the pod's own resources replace those of its containers",
        ),
    ],
)
def test_charge(spec, usage):
    assert charge_of(spec).usage == {**POD, **usage}


def test_a_placeholder_costs_what_its_container_requests():
    charge = charge_of_placeholder(a_place(gpus=2), "placeholders")
    assert charge.usage == {**POD, GPUS: 2}
    assert charge.priority_class == "placeholders"


PLAIN = PodCharge({})
URGENT = PodCharge({}, priority_class="urgent")


@pytest.mark.parametrize(
    ("scopes", "charge", "expected"),
    [
        pytest.param([], PLAIN, True, id="no scope, every pod"),
        pytest.param([QuotaScope("NotTerminating")], PLAIN, True, id="no deadline"),
        pytest.param([QuotaScope("Terminating")], PLAIN, False, id="only pods with a deadline"),
        pytest.param([QuotaScope("Terminating")], PodCharge({}, terminating=True), True, id="a deadline"),
        pytest.param([QuotaScope("BestEffort")], PodCharge({}, best_effort=True), True, id="no CPU, no memory"),
        pytest.param([QuotaScope("BestEffort")], PLAIN, False, id="CPU or memory"),
        pytest.param([QuotaScope("NotBestEffort")], PLAIN, True, id="not best effort"),
        pytest.param([QuotaScope("PriorityClass")], PLAIN, False, id="any class, and the pod has none"),
        pytest.param([QuotaScope("PriorityClass", "In", ("urgent",))], URGENT, True, id="its class"),
        pytest.param([QuotaScope("PriorityClass", "In", ("low",))], URGENT, False, id="another class"),
        pytest.param([QuotaScope("PriorityClass", "NotIn", ("low",))], PLAIN, True, id="no class is not that class"),
        pytest.param([QuotaScope("PriorityClass", "DoesNotExist")], URGENT, False, id="only pods without a class"),
        pytest.param([QuotaScope("CrossNamespacePodAffinity")], PLAIN, False, id="affinity within the namespace"),
        pytest.param([QuotaScope("FromTheFuture")], PLAIN, False, id="a scope that is not known"),
        pytest.param(
            [QuotaScope("NotTerminating"), QuotaScope("PriorityClass", "In", ("low",))],
            URGENT,
            False,
            id="all must match",
        ),
    ],
)
def test_scopes(scopes, charge, expected):
    assert applies(a_quota(scopes=scopes), charge) is expected


@pytest.mark.parametrize(
    ("resources", "best_effort"),
    [({}, True), ({"limits": {"nvidia.com/gpu": "1"}}, True), ({"requests": {"cpu": "1"}}, False)],
)
def test_gpus_alone_are_best_effort(resources, best_effort):
    assert charge_of({"containers": [a_container(**resources)]}).best_effort is best_effort


def test_affinity_to_pods_of_other_namespaces():
    term = {"topologyKey": "zone", "namespaces": ["other"]}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    assert charge_of({"containers": [], "affinity": affinity}).crosses_namespaces
    assert charge_of({"containers": []}).usage["pods"] == Fraction(1)
