"""The Service and the PodDisruptionBudget, and which differences of a live object count as a change."""

import copy
from dataclasses import replace
from typing import Any

import pytest

from forebay.api.inference_service import InferenceServiceStatus
from forebay.api.reasons import Reason
from forebay.workloads.objects.child_objects import fingerprint, wanted_children
from forebay.workloads.objects.disruption_budget import disruption_budget_body, min_available
from forebay.workloads.objects.service import service_body
from forebay.world.world import ServiceView, SpecProblem
from tests.workloads.specs import CHAT, a_pod, a_revision, a_spec

SERVICE = service_body(CHAT)
BUDGET = disruption_budget_body(CHAT, 9)


def fingerprint_of(body: dict[str, Any]) -> str:
    return fingerprint(body["kind"], body["metadata"]["labels"], body["spec"])


def as_stored(body: dict[str, Any]) -> dict[str, Any]:
    """The body as an API server returns it: defaults filled in, false left out, fields of others beside ours."""
    live = copy.deepcopy(body)
    live["metadata"] |= {"uid": "u", "resourceVersion": "7", "generation": 1, "managedFields": []}
    live["metadata"]["labels"]["example.com/added"] = "by somebody"
    if body["kind"] == "Service":
        del live["spec"]["publishNotReadyAddresses"]
        live["spec"] |= {
            "clusterIP": "10.0.0.7",
            "clusterIPs": ["10.0.0.7"],
            "internalTrafficPolicy": "Cluster",
            "ipFamilies": ["IPv4"],
            "ipFamilyPolicy": "SingleStack",
            "sessionAffinity": "None",
        }
        live["spec"]["ports"].append({"name": "metrics", "port": 9090, "protocol": "TCP", "targetPort": 8000})
    return live


def with_change(body: dict[str, Any], path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    changed = as_stored(body)
    *parents, last = path
    place: Any = changed
    for parent in parents:
        place = place[parent]
    place[last] = value
    return changed


@pytest.mark.parametrize("body", [SERVICE, BUDGET], ids=["service", "disruption budget"])
def test_fields_of_the_api_server_and_other_owners_are_no_change(body):
    assert fingerprint_of(as_stored(body)) == fingerprint_of(body)


@pytest.mark.parametrize(
    ("body", "path", "value"),
    [
        pytest.param(SERVICE, ("spec", "selector", "forebay.dev/serving"), "false", id="selector"),
        pytest.param(SERVICE, ("spec", "ports", 0, "targetPort"), 9000, id="target port"),
        pytest.param(SERVICE, ("spec", "ports"), [], id="no port"),
        pytest.param(SERVICE, ("spec", "type"), "LoadBalancer", id="type"),
        pytest.param(SERVICE, ("spec", "publishNotReadyAddresses"), True, id="addresses that are not ready"),
        pytest.param(SERVICE, ("metadata", "labels", "forebay.dev/service"), "other", id="label"),
        pytest.param(BUDGET, ("spec", "minAvailable"), 1, id="fewer available"),
        pytest.param(BUDGET, ("spec", "unhealthyPodEvictionPolicy"), "IfHealthyBudget", id="eviction policy"),
        pytest.param(BUDGET, ("spec", "selector"), {}, id="budget of nothing"),
    ],
)
def test_a_manual_change_changes_the_fingerprint(body, path, value):
    assert fingerprint_of(with_change(body, path, value)) != fingerprint_of(body)


def test_the_service_selects_a_serving_pod_and_no_draining_one():
    selector = SERVICE["spec"]["selector"].items()
    serving = a_pod(a_spec())["metadata"]["labels"]
    draining = {name: value for name, value in serving.items() if name != "forebay.dev/serving"}
    assert selector <= serving.items()
    assert not selector <= draining.items()


@pytest.mark.parametrize(
    ("most", "surge"), [pytest.param(1, 0, id="one replica"), pytest.param(8, 2, id="eight, and two while rolling")]
)
def test_no_serving_pod_can_be_evicted(most, surge):
    """An eviction is refused while it would leave fewer serving pods than `minAvailable`."""
    spec = a_spec(scaling={"maxReplicas": most}, rollout={"maxSurge": surge})
    body = disruption_budget_body(CHAT, min_available(spec, a_revision(spec).shape))
    assert body["spec"]["minAvailable"] >= most + surge
    assert body["spec"]["selector"]["matchLabels"].items() <= a_pod(spec)["metadata"]["labels"].items()


def test_pods_that_are_not_ready_may_be_evicted():
    assert BUDGET["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow"


def test_the_service_leads_to_the_engines_port():
    ports = a_pod(a_spec())["spec"]["containers"][0]["ports"]
    assert SERVICE["spec"]["ports"][0]["targetPort"] in [port["name"] for port in ports]


def a_view(**fields: Any) -> ServiceView:
    spec = a_spec(scaling={"maxReplicas": 8})
    view = ServiceView(
        key=CHAT.key,
        uid=CHAT.uid,
        generation=1,
        created_at=0.0,
        deleting=False,
        spec=spec,
        status=InferenceServiceStatus(),
        wanted=a_revision(spec),
    )
    return replace(view, **fields)


def test_wanted_children_match_the_written_ones():
    children = wanted_children(a_view())
    assert [(child.kind, child.name, child.owner_uid) for child in children] == [
        ("Service", "chat", CHAT.uid),
        ("PodDisruptionBudget", "chat", CHAT.uid),
    ]
    assert [child.fingerprint for child in children] == [fingerprint_of(SERVICE), fingerprint_of(BUDGET)]


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param(
            {"wanted": None, "problems": (SpecProblem(Reason.SPEC_INVALID, "m"),)}, id="a service with a problem"
        ),
        pytest.param({"spec": None, "wanted": None}, id="a spec that does not parse"),
        pytest.param({"deleting": True}, id="a service that is being deleted"),
    ],
)
def test_services_without_children(fields):
    assert wanted_children(a_view(**fields)) == ()
