"""A plan becomes calls: in a safe order, each service by itself, and harmless when it comes too late."""

import asyncio
from dataclasses import replace
from typing import Any, get_args

import pytest

from forebay.cluster.client.kube_api import CONTROLLER_REVISIONS, PODS, SERVICES, ApiError
from forebay.world.plan import (
    ACTION_ORDER,
    Action,
    AdoptPod,
    CancelDrain,
    CreatePod,
    DeletePod,
    DeleteRevision,
    Plan,
    StartDrain,
    StoreRevision,
)
from tests.builders.world import NOW
from tests.cluster.cluster_in_memory import ClusterInMemory, a_plan, a_stored_pod, children, create, fails, wanted
from tests.cluster.fake_api import FakeCall
from tests.controller.virtual_time import in_virtual_time, now


@in_virtual_time
async def test_types_of_actions_are_in_an_order_that_is_safe_to_interrupt():
    cluster = ClusterInMemory()
    for name in ("orphan", "draining", "serving", "drained"):
        cluster.api.put(PODS, a_stored_pod(name, cluster.owner if name != "orphan" else None))
    async with cluster.running() as world:
        await cluster.apply(world, StoreRevision(replace(wanted(world), hash="old", number=1)))
        old = (await cluster.world()).revisions["uid-chat"][0].name
        pods = {pod.name: (pod.name, pod.uid, pod.resource_version) for pod in world.pods}
        outcome = await cluster.apply(
            world,
            DeleteRevision(old),
            DeletePod(*pods["drained"], reason="drained"),
            StartDrain(*pods["serving"], reason="surplus"),
            create(world),
            CancelDrain(*pods["draining"]),
            AdoptPod(*pods["orphan"]),
            children(world),
            StoreRevision(replace(wanted(world), number=2)),
        )
        assert cluster.written() == [
            f"create controllerrevisions team/chat-uidch-{wanted(world).hash}",
            "create services team/chat",
            "create poddisruptionbudgets team/chat",
            "patch pods team/serving",
            "delete pods team/drained",
            "patch pods team/orphan",
            "patch pods team/draining",
            "create pods team/chat-0",
            f"delete controllerrevisions team/{old}",
        ]
        assert (outcome.failures, outcome.races, outcome.leadership_lost) == ((), 0, False)
        assert outcome.calls == {
            ("create", "controllerrevisions"): 1,
            ("get", "services"): 1,
            ("create", "services"): 1,
            ("get", "poddisruptionbudgets"): 1,
            ("create", "poddisruptionbudgets"): 1,
            ("patch", "pods"): 3,
            ("create", "pods"): 1,
            ("delete", "pods"): 1,
            ("get", "controllerrevisions"): 1,
            ("delete", "controllerrevisions"): 1,
        }


@in_virtual_time
async def test_actions_are_carried_out_as_the_plan_lists_them():
    cluster = ClusterInMemory()
    cluster.api.put(PODS, a_stored_pod("serving", cluster.owner))
    async with cluster.running() as world:
        serving = world.pods[0]
        drain = StartDrain(serving.name, serving.uid, serving.resource_version, reason="surplus")
        listed = a_plan(world, drain, create(world))
        assert [type(action) for action in listed.actions] == [StartDrain, CreatePod]
        turned_round = replace(listed, actions=listed.actions[::-1])
        cluster.api.calls.clear()
        await cluster.applier.apply(Plan((turned_round,)), NOW + now())
        assert cluster.written() == ["create pods team/chat-0", "patch pods team/serving"]


@in_virtual_time
async def test_a_plan_that_is_held_does_nothing():
    cluster = ClusterInMemory()
    async with cluster.running() as world:
        cluster.api.calls.clear()
        held = Plan((a_plan(world, create(world)),), held="no nodes where there were many")
        assert (await cluster.applier.apply(held, NOW)).calls == {}
        assert cluster.api.calls == []


@in_virtual_time
async def test_a_dry_run_calls_nothing(caplog):
    caplog.set_level("INFO")
    cluster = ClusterInMemory(dry_run=True)
    async with cluster.running() as world:
        outcome = await cluster.apply(world, create(world), children(world), DeleteRevision("x"))
        assert (cluster.api.calls, outcome.calls) == ([], {})
    assert "team/chat: would create chat-0" in caplog.messages


# Leadership.


@in_virtual_time
async def test_a_standby_writes_nothing():
    cluster = ClusterInMemory(leading=False)
    async with cluster.running() as world:
        outcome = await cluster.apply(world, create(world), DeleteRevision("x"))
        assert (cluster.written(), outcome.leadership_lost, outcome.failures) == ([], True, ())


@in_virtual_time
async def test_lost_leadership_skips_the_remaining_actions():
    cluster = ClusterInMemory(at_once=1)
    async with cluster.running() as world:

        def depose(call: FakeCall) -> None:
            if call.plural == PODS.plural:
                cluster.leading = False

        cluster.api.after = depose
        outcome = await cluster.apply(world, *(create(world, f"chat-{number}") for number in range(5)), children(world))
        assert cluster.written() == [
            "create services team/chat",
            "create poddisruptionbudgets team/chat",
            "create pods team/chat-0",
        ]
        assert outcome.leadership_lost


@in_virtual_time
async def test_concurrent_calls_are_limited():
    cluster = ClusterInMemory(at_once=3)
    under_way, most = 0, 0

    async with cluster.running() as world:
        real = cluster.api.create

        async def slow(*arguments: Any, **named: Any) -> bytes:
            nonlocal under_way, most
            under_way += 1
            most = max(most, under_way)
            await asyncio.sleep(0.1)
            under_way -= 1
            return await real(*arguments, **named)

        cluster.api.create = slow  # type: ignore[method-assign]
        begun = now()
        await cluster.apply(world, *(create(world, f"chat-{number}") for number in range(9)))
        assert most == 3
        assert now() - begun == pytest.approx(0.3)


# Failures stay with their service.


@in_virtual_time
async def test_a_failed_call_affects_only_its_own_service():
    cluster = ClusterInMemory()
    async with cluster.running() as world:
        other = a_plan(world, create(world, "other-0"))
        cluster.api.before = fails("create", CONTROLLER_REVISIONS.plural, ApiError(500, "InternalError", "etcd"))
        mine = a_plan(world, StoreRevision(wanted(world)), create(world), children(world))
        outcome = await cluster.applier.apply(Plan((mine, replace(other, uid="uid-other"))), NOW)
        assert cluster.api.all(SERVICES) == []
        assert [pod["metadata"]["name"] for pod in cluster.api.all(PODS)] == ["other-0"]
        (failure,) = outcome.failures
        assert (str(failure.key), failure.uid, failure.action, str(failure.error)) == (
            "team/chat",
            "uid-chat",
            mine.actions[0],
            "500 InternalError: etcd",
        )


@in_virtual_time
async def test_no_pod_is_created_if_its_service_cannot_be_written():
    cluster = ClusterInMemory()
    cluster.api.put(PODS, a_stored_pod("surplus", cluster.owner))
    async with cluster.running() as world:
        cluster.api.before = fails("create", SERVICES.plural, ApiError(500, "InternalError", "etcd"))
        pod = world.pods[0]
        drain = StartDrain(pod.name, pod.uid, pod.resource_version, "surplus")
        outcome = await cluster.apply(world, create(world), drain, children(world))
        assert cluster.written() == ["create services team/chat", "patch pods team/surplus"]
        assert len(outcome.failures) == 1


@in_virtual_time
async def test_an_internal_error_fails_only_that_action(caplog):
    cluster = ClusterInMemory()
    async with cluster.running() as world:
        listed = a_plan(world, create(world), create(world, "chat-1"))
        first, second = listed.actions
        assert isinstance(first, CreatePod)
        broken = replace(first, body={})
        cluster.api.calls.clear()
        outcome = await cluster.applier.apply(Plan((replace(listed, actions=(broken, second)),)), NOW + now())
        assert [pod["metadata"]["name"] for pod in cluster.api.all(PODS)] == ["chat-1"]
        assert [failure.action for failure in outcome.failures] == [broken]


@pytest.mark.parametrize("remove", [StartDrain, DeletePod])
@in_virtual_time
async def test_no_pod_is_created_if_a_drain_or_deletion_failed(remove):
    """Else there would be one replica more than the plan allows."""
    cluster = ClusterInMemory()
    cluster.api.put(PODS, a_stored_pod("serving", cluster.owner))
    async with cluster.running() as world:
        outcome = await cluster.apply(world, create(world), remove("serving", world.pods[0].uid, "7", reason="surplus"))
        assert (outcome.races, [call for call in cluster.written() if call.startswith("create")]) == (1, [])


def test_every_type_of_action_is_in_the_order():
    assert set(ACTION_ORDER) == set(get_args(Action))
    assert len(ACTION_ORDER) == len(set(ACTION_ORDER))
