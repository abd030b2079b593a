"""A PodTemplate adds fields that Forebay leaves open, and changes none that Forebay sets."""

from typing import Any

import pytest

from tests.workloads.specs import a_pod, a_spec, engine_of
from tests.workloads.test_golden import POD_TEMPLATE

REFERENCE = {"templateRef": "gpu-pods"}


def a_templated_pod(spec: dict[str, Any] | None = None, **engine: Any) -> dict[str, Any]:
    """A pod whose template has `spec`, and an engine container with these fields."""
    containers = [{"name": "engine", **engine}] if engine else []
    template = {"spec": {"containers": containers, **(spec or {})}}
    return a_pod(a_spec(pod=REFERENCE), template=template)


def test_fields_that_forebay_sets_take_precedence():
    plain, merged = a_pod(a_spec()), a_pod(a_spec(pod=REFERENCE), template=POD_TEMPLATE)
    ours, theirs = engine_of(plain), engine_of(merged)
    for field in ("image", "command", "args", "ports", "startupProbe", "lifecycle", "securityContext"):
        assert theirs[field] == ours[field], field
    for field in ("terminationGracePeriodSeconds", "enableServiceLinks", "restartPolicy"):
        assert merged["spec"][field] == plain["spec"][field], field
    assert plain["metadata"]["annotations"].items() <= merged["metadata"]["annotations"].items()
    assert theirs["resources"]["limits"]["nvidia.com/gpu"] == "1"
    assert merged["spec"]["securityContext"]["runAsNonRoot"] is True


def test_sidecars_devices_volumes_and_variables_are_added():
    pod = a_pod(a_spec(pod=REFERENCE), template=POD_TEMPLATE)
    engine = engine_of(pod)
    assert [container["name"] for container in pod["spec"]["containers"]] == ["engine", "tracing"]
    assert [container["name"] for container in pod["spec"]["initContainers"]] == ["tune"]
    assert engine["resources"]["limits"]["rdma/hca"] == "1"
    assert {"name": "fabric", "mountPath": "/fabric"} in engine["volumeMounts"]
    assert {"name": "fabric", "emptyDir": {}} in pod["spec"]["volumes"]
    assert {"name": "NCCL_DEBUG", "value": "INFO"} in engine["env"]
    assert pod["spec"]["securityContext"]["supplementalGroups"] == [2000]
    assert {"key": "spot", "operator": "Exists"} in pod["spec"]["tolerations"]


@pytest.mark.parametrize(
    ("spec", "engine"),
    [
        pytest.param({"volumes": [{"name": "cache", "hostPath": {"path": "/"}}]}, {}, id="a volume's source"),
        pytest.param({}, {"env": [{"name": "HOME", "valueFrom": {"fieldRef": {"fieldPath": "x"}}}]}, id="a variable"),
        pytest.param({}, {"startupProbe": {"tcpSocket": {"port": 1}}}, id="a probe"),
        pytest.param({}, {"lifecycle": {"preStop": {"exec": {"command": ["true"]}}}}, id="a hook"),
        pytest.param({"securityContext": {"seccompProfile": {"localhostProfile": "x"}}}, {}, id="a seccomp profile"),
    ],
)
def test_probes_and_hooks_are_not_mixed(spec, engine):
    assert a_templated_pod(spec, **engine)["spec"] == a_pod(a_spec())["spec"]


@pytest.mark.parametrize(
    "template",
    [
        pytest.param({}, id="empty"),
        pytest.param({"metadata": None, "spec": None}, id="null"),
        pytest.param(
            {"metadata": {"annotations": None}, "spec": {"containers": None, "volumes": None}}, id="null inside"
        ),
    ],
)
def test_an_empty_template_adds_nothing(template):
    assert a_pod(a_spec(pod=REFERENCE), template=template)["spec"] == a_pod(a_spec())["spec"]


def test_a_changed_template_offers_an_update():
    first = a_templated_pod({"dnsPolicy": "ClusterFirst"})["metadata"]["labels"]["forebay.dev/revision"]
    other = a_templated_pod({"dnsPolicy": "Default"})["metadata"]["labels"]["forebay.dev/revision"]
    assert first != other
