"""WarmPools from the list to pods and status, and an operator without the CRD."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from forebay.cluster.client.kube_api import FORBIDDEN, INFERENCE_SERVICES, NODES, NOT_FOUND, PODS, ApiError
from forebay.cluster.read.observer import Observer
from forebay.cluster.read.pool_views import NOT_INSTALLED_SECONDS, WARM_POOLS, WarmPools
from forebay.cluster.write.apply import Applier
from forebay.cluster.write.status_writer import StatusWriter
from forebay.planner.memory import State
from forebay.planner.planner import plan
from forebay.workloads.spec.engine_versions import Defaults
from forebay.world.settings import Settings
from tests.builders.world import NOW
from tests.cluster.cluster_in_memory import a_stored_node, a_stored_service
from tests.cluster.fake_api import FakeApi, FakeCall
from tests.controller.virtual_time import now

HOME = "forebay-system"
SPEC: Mapping[str, Any] = {"gpu": {"product": "H100"}, "gpusPerPod": 2, "placeholders": 2}


def a_stored_pool(name: str = "h100", spec: Mapping[str, Any] = SPEC) -> dict[str, Any]:
    return {"metadata": {"name": name, "generation": 1}, "spec": dict(spec)}


class Operator:
    def __init__(self, api: FakeApi) -> None:
        self.api = api
        self.observer = Observer(
            api, settings=Settings(), pool_namespace=HOME, monotonic=now, jitter=lambda: 0.5, defaults=Defaults()
        )
        self.applier = Applier(api, self.observer, is_leader=lambda: True)
        self.status = StatusWriter(api, self.observer, is_leader=lambda: True)
        self.state = State.empty(NOW)

    async def tick(self) -> list[str]:
        """The writes that concern WarmPools, by verb and plural."""
        self.api.calls.clear()
        world = await self.observer.observe({}, NOW + now())
        done, self.state = plan(world, self.state, NOW + now())
        applied = await self.applier.apply(done, NOW + now())
        written = await self.status.write(done, world, NOW + now())
        assert (applied.failures, written.failures, applied.races + written.races) == ((), (), 0)
        ours = [call for call in self.api.calls if call.verb not in ("list", "watch", "get")]
        return [
            f"{call.verb} {call.plural}" for call in ours if "placeholder" in call.name or call.plural == "warmpools"
        ]

    def pods(self) -> list[dict[str, Any]]:
        return [pod for pod in self.api.all(PODS) if pod["metadata"]["namespace"] == HOME]


@pytest.fixture
async def operator() -> AsyncIterator[Operator]:
    api = FakeApi()
    api.put(INFERENCE_SERVICES, a_stored_service())
    api.put(NODES, a_stored_node("n1"))
    api.put(WARM_POOLS, a_stored_pool())
    made = Operator(api)
    task = asyncio.create_task(made.observer.run())
    await asyncio.sleep(0.001)
    yield made
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def test_placeholders_are_created_in_the_operators_namespace(operator):
    assert await operator.tick() == ["create pods", "create pods", "patch warmpools"]
    first, _ = operator.pods()
    (owner,) = first["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["controller"]) == ("WarmPool", "h100", True)
    assert first["metadata"]["labels"]["forebay.dev/warm-pool"] == "h100"
    assert "forebay.dev/service" not in first["metadata"]["labels"]
    assert first["spec"]["nodeSelector"] == {"nvidia.com/gpu.product": "H100"}
    assert first["spec"]["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": "2"}
    assert await operator.tick() == []


async def test_the_status_counts_ready_placeholders(operator):
    await operator.tick()
    for pod in operator.pods()[:1]:
        pod["spec"]["nodeName"] = "n1"
        condition = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        operator.api.put(PODS, pod | {"status": {"phase": "Running", "conditions": [condition]}})
    await asyncio.sleep(0.001)
    assert await operator.tick() == ["patch warmpools"]
    (stored,) = operator.api.all(WARM_POOLS)
    assert (stored["status"]["wanted"], stored["status"]["ready"]) == (2, 1)
    assert [c["reason"] for c in stored["status"]["conditions"]] == ["PlaceholdersPending"]


async def test_a_changed_shape_replaces_the_placeholders(operator):
    await operator.tick()
    (stored,) = operator.api.all(WARM_POOLS)
    stored["metadata"]["generation"] = 2
    operator.api.put(WARM_POOLS, stored | {"spec": {**SPEC, "gpusPerPod": 4, "placeholders": 1}})
    assert await operator.tick() == ["delete pods", "delete pods", "create pods", "patch warmpools"]


async def test_a_deleted_pool_gets_no_plan(operator):
    """Garbage collection removes its pods."""
    await operator.tick()
    operator.api.remove(WARM_POOLS, None, "h100")
    assert await operator.tick() == []


async def test_without_the_crd_there_are_no_pools():
    api, clock = FakeApi(), [0.0]
    api.put(WARM_POOLS, a_stored_pool())
    pools = WarmPools(api, HOME, monotonic=lambda: clock[0])

    def refuse(call: FakeCall) -> None:
        raise ApiError(NOT_FOUND, "NotFound", "the server could not find the requested resource")

    before, api.before = api.before, refuse
    assert await pools.read() == ()
    api.before = before
    assert await pools.read() == (), "not asked again at once"
    clock[0] = NOT_INSTALLED_SECONDS
    assert [pool.key.name for pool in await pools.read()] == ["h100"]


@pytest.mark.parametrize("status", [FORBIDDEN, 0])
async def test_a_failed_list_keeps_the_pools_read_last(status):
    api = FakeApi()
    api.put(WARM_POOLS, a_stored_pool())
    pools = WarmPools(api, HOME)
    known = await pools.read()

    def refuse(call: FakeCall) -> None:
        raise ApiError(status, "No", "no")

    api.before = refuse
    assert await pools.read() == known != ()


async def test_an_unreadable_pool_is_left_alone_and_reported(operator):
    await operator.tick()
    operator.api.put(WARM_POOLS, {"metadata": {"name": "h100", "generation": 2}, "spec": {"placeholders": "many"}})
    assert await operator.tick() == ["patch warmpools"]
    (stored,) = operator.api.all(WARM_POOLS)
    assert [c["reason"] for c in stored["status"]["conditions"]] == ["SpecInvalid"]
