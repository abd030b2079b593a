"""TenantQuotas from the watch to the status, and an operator without the CRD."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from forebay.cluster.client.kube_api import CONFIG_MAPS, INFERENCE_SERVICES, NODES, NOT_FOUND, ApiError
from forebay.cluster.read.observer import Observer
from forebay.cluster.read.tenant_quota_views import (
    TENANT_QUOTAS,
    TenantQuotaObject,
    same_claims,
    tenant_quota_view,
)
from forebay.cluster.write.share_plan_writer import SharePlanWriter
from forebay.cluster.write.status_writer import StatusWriter
from forebay.planner.memory import State
from forebay.planner.planner import plan
from forebay.world.settings import Settings
from tests.builders.world import NOW
from tests.cluster.cluster_in_memory import a_stored_node, a_stored_service
from tests.cluster.fake_api import FakeApi, FakeCall
from tests.controller.virtual_time import now

SPEC: dict[str, Any] = {"namespaces": ["team"], "shares": [{"model": "team/chat", "guaranteed": 1000}]}


def a_stored_quota(name: str = "support", spec: Any = None, **metadata: Any) -> dict[str, Any]:
    fields = {"name": name, "generation": 1, "creationTimestamp": "2025-06-01T00:00:00Z"} | metadata
    return {"metadata": fields, "spec": SPEC if spec is None else spec}


class Operator:
    def __init__(self, api: FakeApi, pool_namespace: str | None = "forebay-system") -> None:
        self.api = api
        self.woken: list[str] = []
        self.observer = Observer(
            api,
            settings=Settings(),
            pool_namespace=pool_namespace,
            monotonic=now,
            jitter=lambda: 0.5,
            wake=self.woken.append,
        )
        self.status = StatusWriter(api, self.observer, is_leader=lambda: True)
        self.share_plans = SharePlanWriter(api, self.observer, is_leader=lambda: True)
        self.state = State.empty(NOW)

    async def tick(self, seconds: float = 6.0) -> list[str]:
        """The writes to TenantQuotas, by verb and name."""
        self.api.calls.clear()
        at = NOW + now() + seconds
        world = await self.observer.observe({}, at)
        done, self.state = plan(world, self.state, at)
        assert await self.share_plans.write(done) == 0
        written = await self.status.write(done, world, at)
        assert (written.failures, written.races) == ((), 0)
        return [f"{call.verb} {call.name}" for call in self.api.calls if call.plural == "tenantquotas"]

    def reasons(self, name: str = "support") -> list[str]:
        stored = next(quota for quota in self.api.all(TENANT_QUOTAS) if quota["metadata"]["name"] == name)
        return [condition["reason"] for condition in stored["status"]["conditions"]]


@contextlib.asynccontextmanager
async def running(operator: Operator) -> AsyncIterator[Operator]:
    task = asyncio.create_task(operator.observer.run())
    await asyncio.sleep(0.001)
    yield operator
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


def a_cluster(*quotas: dict[str, Any]) -> FakeApi:
    api = FakeApi()
    api.put(INFERENCE_SERVICES, a_stored_service())
    api.put(NODES, a_stored_node("n1"))
    for quota in quotas:
        api.put(TENANT_QUOTAS, quota)
    return api


@pytest.fixture
async def operator() -> AsyncIterator[Operator]:
    async with running(Operator(a_cluster(a_stored_quota()))) as made:
        yield made


async def test_the_status_is_written_once_and_then_only_when_it_changes(operator):
    assert await operator.tick() == ["patch support"]
    assert operator.reasons() == ["QuotaActive", "CapacityUnknown"]
    assert await operator.tick() == []
    assert await operator.tick(seconds=60.0) == []


async def test_a_status_write_wakes_nobody_and_a_changed_spec_does(operator):
    await operator.tick()
    await asyncio.sleep(0.001)
    assert "tenantquotas" not in operator.woken[operator.woken.index("tenantquotas") + 1 :]
    operator.woken.clear()
    (stored,) = operator.api.all(TENANT_QUOTAS)
    stored["metadata"]["generation"] = 2
    operator.api.put(TENANT_QUOTAS, stored | {"spec": {"shares": [{"model": "team/none"}]}})
    await asyncio.sleep(0.001)
    assert operator.woken == ["tenantquotas"]
    assert await operator.tick() == ["patch support"]
    assert operator.reasons() == ["ModelUnknown", "NoGuarantees"]


async def test_the_younger_quota_is_told_and_the_older_one_is_not(operator):
    operator.api.put(TENANT_QUOTAS, a_stored_quota("later", creationTimestamp="2025-06-02T00:00:00Z"))
    await asyncio.sleep(0.001)
    assert await operator.tick() == ["patch later", "patch support"]
    assert (operator.reasons("support")[0], operator.reasons("later")[0]) == ("QuotaActive", "NamespaceClaimed")


async def test_a_quota_of_another_version_is_reported(operator):
    operator.api.put(TENANT_QUOTAS, a_stored_quota(spec={"weight": 0}) | {"status": {"conditions": "odd"}})
    await asyncio.sleep(0.001)
    await operator.tick()
    assert operator.reasons()[0] == "SpecInvalid"


async def test_an_operator_without_the_crd_plans_as_before():
    api = a_cluster()

    def refuse(call: FakeCall) -> None:
        if call.plural == "tenantquotas":
            raise ApiError(NOT_FOUND, "NotFound", "the server could not find the requested resource")

    api.before = refuse
    async with running(Operator(api)) as operator:
        assert await operator.tick() == []
        assert (await operator.observer.observe({}, NOW)).tenant_quotas is None
        assert operator.observer.synced


async def test_share_plans_are_written_once_and_again_when_somebody_changed_them(operator):
    await operator.tick()
    (stored,) = operator.api.all(CONFIG_MAPS)
    assert stored["metadata"]["name"] == "share-plan.team.chat.0"
    await operator.tick(seconds=60.0)
    assert operator.api.all(CONFIG_MAPS) == [stored]
    operator.api.put(CONFIG_MAPS, stored | {"data": {"plan.json": "{}"}})
    operator.woken.clear()
    await asyncio.sleep(0.001)
    assert operator.woken == []
    await operator.tick(seconds=120.0)
    assert json.loads(operator.api.all(CONFIG_MAPS)[0]["data"]["plan.json"])["model"] == "team/chat"


async def test_an_operator_that_may_not_read_config_maps_plans_without_them():
    api = a_cluster(a_stored_quota())

    def refuse(call: FakeCall) -> None:
        if call.plural == "configmaps":
            raise ApiError(403, "Forbidden", "no")

    api.before = refuse
    async with running(Operator(api)) as operator:
        assert await operator.tick() == ["patch support"]


async def test_an_operator_for_one_namespace_does_not_ask_for_quotas():
    async with running(Operator(a_cluster(a_stored_quota()), pool_namespace=None)) as operator:
        assert await operator.tick() == []
        assert "tenantquotas" not in operator.observer.ages()


def test_a_view_has_the_age_and_what_is_asked_for():
    stored = TenantQuotaObject.model_validate(
        a_stored_quota(uid="u", resourceVersion="7")
        | {"metadata": a_stored_quota()["metadata"] | {"uid": "u", "resourceVersion": "7"}}
    )
    view = tenant_quota_view(stored)
    assert (view.name, view.created_at, view.generation, view.deleting) == ("support", 1_748_736_000.0, 1, False)
    assert view.spec is not None
    assert view.spec.namespaces == ("team",)
    newer = tenant_quota_view(stored.model_copy(update={"status": {"observedGeneration": 1}}))
    assert newer != view
    assert same_claims(view, newer)
