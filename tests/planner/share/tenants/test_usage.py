"""What the services of a tenant hold and ask for, and the windows that count."""

from dataclasses import replace
from typing import Any

import pytest

from forebay.api.inference_service import InferenceServiceStatus, ScheduleState, ScheduleStatus
from forebay.api.instants import rfc3339
from forebay.planner.memory import ServiceMemory, State
from forebay.planner.observe.fleet_context import fleet_context_of
from forebay.planner.share.tenants.usage import UNKNOWN_PRODUCT, FloorWindow, Usage, usage_of
from forebay.scaling.rules.situation import ScalingMemory
from forebay.world.world import NodeView, PodView, ServiceView
from tests.builders.tenant_quotas import a_tenant_quota, the_claims
from tests.builders.world import NOW, a_node, a_pod, a_revision, a_service, a_world

H100, L40S = "NVIDIA-H100-80GB-HBM3", "NVIDIA-L40S"
CLAIMS = the_claims(a_tenant_quota("chat", namespaces=["chat"]))


def a_model(**fields: Any) -> ServiceView:
    return a_service("llama", namespace="chat", wanted=a_revision(gpus=2, product=H100), **fields)


def used(
    service: ServiceView, *pods: PodView, nodes: tuple[NodeView, ...] = (a_node("node-0", product=H100),), **memory: Any
) -> Usage:
    world = a_world(service, pods=pods, nodes=nodes)
    fleet = fleet_context_of(world, State.empty(NOW), NOW)
    return usage_of(fleet, {service.uid: ServiceMemory(**memory)}, CLAIMS)


def held(usage: Usage) -> dict[tuple[str, str], int]:
    return {key: use.held for key, use in usage.gpus.items() if use.held}


def test_pods_count_by_the_product_of_their_node_and_until_they_are_gone():
    service = a_model()
    pods = (
        a_pod(service, 0, gpus=2),
        a_pod(service, 1, gpus=2, drain_started_at=NOW - 10),
        a_pod(service, 2, gpus=2, node="other"),
        a_pod(service, 3, gpus=2, node=None),
        a_pod(service, 4, gpus=2, deleting=True),
    )
    usage = used(service, *pods, nodes=(a_node("node-0", product=H100), a_node("other", product=L40S)))
    assert held(usage) == {("chat", H100): 8, ("chat", L40S): 2}


def test_a_service_without_a_product_counts_as_unknown_until_it_has_a_node():
    service = replace(a_model(), wanted=a_revision())
    usage = used(service, a_pod(service, 0, node=None), a_pod(service, 1))
    assert held(usage) == {("chat", UNKNOWN_PRODUCT): 1, ("chat", H100): 1}


def test_gpus_of_the_replicas_that_scaling_wants_are_asked_for():
    usage = used(a_model(), scaling=ScalingMemory(desired=3))
    assert usage.gpus["chat", H100].asked == 6


def test_only_ready_nodes_have_gpus():
    nodes = (a_node("a", product=H100), a_node("b", product=H100, ready=False), a_node("c"))
    assert used(a_model(), nodes=nodes).products == {H100: 8, UNKNOWN_PRODUCT: 8}


@pytest.mark.parametrize(
    ("warms_in", "ends_in", "counts"),
    [
        pytest.param(3601.0, 9000.0, False, id="warms in more than an hour"),
        pytest.param(3600.0, 9000.0, True, id="warms in an hour"),
        pytest.param(-600.0, 1.0, True, id="about to end"),
        pytest.param(-600.0, 0.0, False, id="over"),
    ],
)
def test_windows_that_count(warms_in: float, ends_in: float, counts: bool):
    start, end = NOW + warms_in + 300, NOW + ends_in
    schedule = ScheduleStatus(
        name="launch",
        state=ScheduleState.IDLE,
        warm_from=rfc3339(NOW + warms_in),
        start=rfc3339(start),
        end=rfc3339(end),
        replicas=4,
    )
    usage = used(a_model(), status=InferenceServiceStatus(schedules=(schedule,)))
    expected = (FloorWindow(start, end, 4),) if counts else ()
    assert usage.models["chat/llama"].windows == expected


def test_a_service_that_is_being_deleted_is_no_model():
    assert used(a_model(deleting=True)).models == {}
