"""The observer reads ResourceQuotas, and does without them where it may not."""

import asyncio

import pytest

from forebay.cluster.client.kube_api import RESOURCE_QUOTAS, ApiError
from tests.cluster.cluster_in_memory import ClusterInMemory
from tests.cluster.fake_api import FakeCall
from tests.controller.virtual_time import in_virtual_time


def a_stored_quota(used: str, namespace: str = "team", hard: str = "4") -> dict[str, object]:
    status = {"hard": {"requests.nvidia.com/gpu": hard}, "used": {"requests.nvidia.com/gpu": used}}
    return {"metadata": {"namespace": namespace, "name": "gpus"}, "spec": {"hard": status["hard"]}, "status": status}


@in_virtual_time
async def test_quotas_are_watched_and_those_of_other_namespaces_are_left_out():
    cluster = ClusterInMemory()
    cluster.api.put(RESOURCE_QUOTAS, a_stored_quota("1"))
    cluster.api.put(RESOURCE_QUOTAS, a_stored_quota("1", "elsewhere"))
    async with cluster.running() as world:
        (quota,) = world.quotas
        assert (quota.namespace, quota.name) == ("team", "gpus")
        assert quota.used["requests.nvidia.com/gpu"] == 1
        cluster.api.put(RESOURCE_QUOTAS, a_stored_quota("3"))
        await asyncio.sleep(0.001)
        (quota,) = (await cluster.world()).quotas
        assert quota.used == {"requests.nvidia.com/gpu": 3}


@in_virtual_time
@pytest.mark.parametrize(
    ("change", "woken"),
    [
        pytest.param(a_stored_quota("1"), ["resourcequotas"], id="a pod ended"),
        pytest.param(a_stored_quota("2", hard="8"), ["resourcequotas"], id="the limit is raised"),
        pytest.param(a_stored_quota("3"), [], id="a pod was created"),
        pytest.param(a_stored_quota("1", "elsewhere"), [], id="a namespace without services"),
    ],
)
async def test_a_quota_wakes_when_it_leaves_more(change, woken):
    cluster = ClusterInMemory()
    for namespace in ("team", "elsewhere"):
        cluster.api.put(RESOURCE_QUOTAS, a_stored_quota("2", namespace))
    async with cluster.running():
        await cluster.world()
        cluster.woken.clear()
        cluster.api.put(RESOURCE_QUOTAS, change)
        await asyncio.sleep(0.001)
        assert cluster.woken == woken


def forbid_quotas(call: FakeCall) -> None:
    if call.plural == RESOURCE_QUOTAS.plural:
        raise ApiError(403, "Forbidden", "no verb list")


@in_virtual_time
async def test_forbidden_quotas_stop_no_tick_and_are_reported_once(caplog):
    cluster = ClusterInMemory()
    cluster.api.put(RESOURCE_QUOTAS, a_stored_quota("1"))
    cluster.api.before = forbid_quotas
    async with cluster.running() as world:
        assert world.quotas == ()
        await asyncio.sleep(600.0)
        await cluster.world()
        warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
        (said,) = [line for line in warnings if "resourcequotas" in line]
        assert "403 Forbidden: no verb list" in said
        cluster.api.before = lambda call: None
        await asyncio.sleep(60.0)
        assert len((await cluster.world()).quotas) == 1


@in_virtual_time
async def test_quotas_unconfirmed_for_three_minutes_are_not_used():
    cluster = ClusterInMemory()
    cluster.api.put(RESOURCE_QUOTAS, a_stored_quota("1"))
    async with cluster.running() as world:
        assert len(world.quotas) == 1
        cluster.api.before = forbid_quotas
        cluster.api.end_watches()
        await asyncio.sleep(190.0)
        assert (await cluster.world()).quotas == ()
