"""A plan becomes calls: in a safe order, each service by itself, and harmless when it comes too late."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from forebay.api import labels
from forebay.cluster.kube_api import CONTROLLER_REVISIONS, DISRUPTION_BUDGETS, PODS, SERVICES, ApiError
from forebay.planner.plan import (
    AdoptPod,
    ApplyChildren,
    CancelDrain,
    CreatePod,
    DeletePod,
    DeleteRevision,
    Plan,
    StartDrain,
    StoreRevision,
)
from forebay.planner.world import World
from forebay.workloads.ownership import Owner
from tests.builders.world import NOW
from tests.cluster.fake_api import FakeApi, FakeCall, lost_answer
from tests.cluster.scene import Scene, a_plan, a_stored_pod, wanted
from tests.shell.virtual_time import in_virtual_time, now

STRANGER = Owner(Scene.owner.key, "uid-of-a-stranger")


def create(world: World, name: str = "chat-0", **fields: Any) -> CreatePod:
    return CreatePod(replace(wanted(world), number=1), 0, 0, name, **fields)


def fails(verb: str, plural: str, error: ApiError) -> Any:
    def before(call: FakeCall) -> None:
        if (call.verb, call.plural) == (verb, plural):
            raise error

    return before


@in_virtual_time
async def test_stages_come_in_an_order_that_is_safe_to_break_off():
    scene = Scene()
    for name in ("orphan", "draining", "serving", "drained"):
        scene.api.put(PODS, a_stored_pod(name, scene.owner if name != "orphan" else None))
    async with scene.running() as world:
        await scene.apply(world, StoreRevision(replace(wanted(world), hash="old", number=1)))
        old = (await scene.world()).revisions["uid-chat"][0].name
        pods = {pod.name: (pod.name, pod.uid, pod.resource_version) for pod in world.pods}
        outcome = await scene.apply(
            world,
            DeleteRevision(old),
            DeletePod(*pods["drained"], reason="drained"),
            StartDrain(*pods["serving"], reason="surplus"),
            create(world),
            CancelDrain(*pods["draining"]),
            AdoptPod(*pods["orphan"]),
            ApplyChildren(3),
            StoreRevision(replace(wanted(world), number=2)),
        )
        assert scene.written() == [
            f"create controllerrevisions team/chat-uidch-{wanted(world).hash}",
            "apply services team/chat",
            "apply poddisruptionbudgets team/chat",
            "patch pods team/orphan",
            "patch pods team/draining",
            "create pods team/chat-0",
            "patch pods team/serving",
            "delete pods team/drained",
            f"delete controllerrevisions team/{old}",
        ]
        assert (outcome.failures, outcome.races, outcome.deposed) == ((), 0, False)
        assert outcome.calls == {
            ("create", "controllerrevisions"): 1,
            ("get", "services"): 1,
            ("patch", "services"): 1,
            ("get", "poddisruptionbudgets"): 1,
            ("patch", "poddisruptionbudgets"): 1,
            ("patch", "pods"): 3,
            ("create", "pods"): 1,
            ("delete", "pods"): 1,
            ("get", "controllerrevisions"): 1,
            ("delete", "controllerrevisions"): 1,
        }


@in_virtual_time
async def test_a_plan_that_is_held_does_nothing():
    scene = Scene()
    async with scene.running() as world:
        scene.api.calls.clear()
        held = Plan((a_plan(world, create(world)),), held="no nodes where there were many")
        assert (await scene.applier.apply(held, world, NOW)).calls == {}
        assert scene.api.calls == []


@in_virtual_time
async def test_a_dry_run_calls_nothing(caplog):
    caplog.set_level("INFO")
    scene = Scene(dry_run=True)
    async with scene.running() as world:
        outcome = await scene.apply(world, create(world), ApplyChildren(3), DeleteRevision("x"))
        assert (scene.api.calls, outcome.calls) == ([], {})
    assert "team/chat: would create chat-0" in caplog.messages


# Leadership.


@in_virtual_time
async def test_who_does_not_lead_writes_nothing():
    scene = Scene(leading=False)
    async with scene.running() as world:
        outcome = await scene.apply(world, create(world), DeleteRevision("x"))
        assert (scene.written(), outcome.deposed, outcome.failures) == ([], True, ())


@in_virtual_time
async def test_leadership_lost_half_way_stops_the_rest():
    scene = Scene(at_once=1)
    async with scene.running() as world:

        def depose(call: FakeCall) -> None:
            if call.plural == PODS.plural:
                scene.leading = False

        scene.api.after = depose
        outcome = await scene.apply(world, *(create(world, f"chat-{number}") for number in range(5)), ApplyChildren(3))
        assert scene.written() == [
            "apply services team/chat",
            "apply poddisruptionbudgets team/chat",
            "create pods team/chat-0",
        ]
        assert outcome.deposed


@in_virtual_time
async def test_calls_under_way_are_bounded():
    scene = Scene(at_once=3)
    under_way, most = 0, 0

    async with scene.running() as world:
        real = scene.api.create

        async def slow(*arguments: Any, **named: Any) -> bytes:
            nonlocal under_way, most
            under_way += 1
            most = max(most, under_way)
            await asyncio.sleep(0.1)
            under_way -= 1
            return await real(*arguments, **named)

        scene.api.create = slow  # type: ignore[method-assign]
        begun = now()
        await scene.apply(world, *(create(world, f"chat-{number}") for number in range(9)))
        assert most == 3
        assert now() - begun == pytest.approx(0.3)


# Failures stay with their service.


@in_virtual_time
async def test_a_failed_call_holds_its_own_service_only():
    scene = Scene()
    async with scene.running() as world:
        other = a_plan(world, create(world, "other-0"))
        scene.api.before = fails("create", CONTROLLER_REVISIONS.plural, ApiError(500, "InternalError", "etcd"))
        mine = a_plan(world, StoreRevision(wanted(world)), create(world), ApplyChildren(3))
        outcome = await scene.applier.apply(Plan((mine, replace(other, uid="uid-other"))), world, NOW)
        assert scene.api.all(SERVICES) == []
        assert [pod["metadata"]["name"] for pod in scene.api.all(PODS)] == ["other-0"]
        (failure,) = outcome.failures
        assert (str(failure.key), failure.uid, failure.action, str(failure.error)) == (
            "team/chat",
            "uid-chat",
            mine.actions[0],
            "500 InternalError: etcd",
        )


@in_virtual_time
async def test_no_pod_is_made_while_its_service_cannot_be_written():
    scene = Scene()
    scene.api.put(PODS, a_stored_pod("surplus", scene.owner))
    async with scene.running() as world:
        scene.api.before = fails("apply", SERVICES.plural, ApiError(500, "InternalError", "etcd"))
        pod = world.pods[0]
        drain = StartDrain(pod.name, pod.uid, pod.resource_version, "surplus")
        outcome = await scene.apply(world, create(world), drain, ApplyChildren(3))
        assert scene.written() == ["apply services team/chat", "patch pods team/surplus"]
        assert len(outcome.failures) == 1


@in_virtual_time
async def test_a_fault_of_our_own_is_a_failure_of_that_action(caplog):
    scene = Scene()
    async with scene.running() as world:
        broken = replace(create(world), revision=replace(wanted(world), data="{"))
        outcome = await scene.apply(world, broken, create(world, "chat-1"))
        assert scene.written() == ["create pods team/chat-1"]
        assert [failure.action for failure in outcome.failures] == [broken]


# Pods.


@in_virtual_time
async def test_a_new_pod_is_known_before_the_watch_tells():
    scene = Scene()
    async with scene.running() as world:
        scene.api.silence()
        await scene.apply(world, create(world, avoid_nodes=("n1", "gone")))
        (pod,) = (await scene.world()).pods
        assert (pod.name, pod.owner_uid, pod.serving, pod.gpus) == ("chat-0", "uid-chat", True, 1)
    affinity = scene.pod("chat-0")["spec"]["affinity"]["nodeAffinity"]
    terms = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert terms[0]["matchExpressions"][0]["values"] == ["gone", "host-of-n1"]


@in_virtual_time
async def test_a_create_whose_answer_was_lost_succeeds_at_the_second_try():
    scene = Scene()

    def lose(call: FakeCall) -> None:
        if call.verb == "create":
            raise lost_answer()

    async with scene.running() as world:
        scene.api.silence()
        scene.api.after = lose
        outcome = await scene.apply(world, create(world))
        assert [failure.error.status for failure in outcome.failures] == [0]
        assert (await scene.world()).refusals == ()
        scene.api.after = lambda call: None
        outcome = await scene.apply(world, create(world))
        assert outcome.failures == ()
        assert [pod.name for pod in (await scene.world()).pods] == ["chat-0"]


@in_virtual_time
async def test_a_name_that_is_somebody_elses_is_left_and_told():
    scene = Scene()
    scene.api.put(PODS, a_stored_pod("chat-0", STRANGER))
    async with scene.running() as world:
        outcome = await scene.apply(world, create(world))
        assert [failure.error.reason for failure in outcome.failures] == ["NameTaken"]
        (refusal,) = (await scene.world()).refusals
        assert (refusal.service_uid, refusal.pod_name, refusal.reason) == ("uid-chat", "chat-0", "NameTaken")


@in_virtual_time
async def test_a_name_whose_pod_still_ends_is_waited_for():
    scene = Scene()
    scene.api.put(PODS, a_stored_pod("chat-0", scene.owner, deletionTimestamp="2026-01-01T00:00:00Z"))
    async with scene.running() as world:
        outcome = await scene.apply(world, create(world))
        assert [failure.error.reason for failure in outcome.failures] == ["Terminating"]
        assert (await scene.world()).refusals == ()


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        pytest.param(
            ApiError(403, "Forbidden", 'pods "chat-0" is forbidden: exceeded quota: gpus, requested: 1'),
            "QuotaExceeded",
            id="a quota",
        ),
        pytest.param(ApiError(403, "Forbidden", "violates PodSecurity"), "Refused", id="a policy"),
        pytest.param(ApiError(422, "Invalid", "spec.containers[0].env"), "Refused", id="an invalid pod"),
        pytest.param(ApiError(400, "BadRequest", "admission webhook denied"), "Refused", id="a webhook"),
        pytest.param(ApiError(409, "Conflict", "resourcequotas changed"), None, id="two creates met in a quota"),
        pytest.param(ApiError(500, "InternalError", "etcd"), None, id="a fault of the server"),
        pytest.param(ApiError(0, "Timeout", "no answer in time"), None, id="no answer"),
    ],
)
@in_virtual_time
async def test_a_refusal_is_remembered_for_the_planner(error, reason):
    scene = Scene()
    async with scene.running() as world:
        scene.api.before = fails("create", PODS.plural, error)
        await scene.apply(world, create(world))
        refusals = (await scene.world()).refusals
        assert [(refusal.reason, refusal.message) for refusal in refusals] == (
            [(reason, error.message)] if reason else []
        )
        await asyncio.sleep(601.0)
        scene.api.before = lambda call: None
        await asyncio.sleep(31.0)
        assert (await scene.world()).refusals == ()


@in_virtual_time
async def test_a_pod_that_could_be_made_ends_earlier_refusals_of_its_service():
    scene = Scene()
    async with scene.running() as world:
        scene.api.before = fails("create", PODS.plural, ApiError(403, "Forbidden", "exceeded quota: gpus"))
        await scene.apply(world, create(world, "chat-0"), create(world, "chat-1"))
        assert len((await scene.world()).refusals) == 2
        await asyncio.sleep(5.0)
        scene.api.before = lambda call: None
        await scene.apply(world, create(world, "chat-2"))
        assert (await scene.world()).refusals == ()


@in_virtual_time
async def test_a_refusal_beside_a_success_of_the_same_tick_stands():
    scene = Scene(at_once=1)
    async with scene.running() as world:

        def only_one_fits(call: FakeCall) -> None:
            if call.verb == "create" and call.name == "team/chat-0":
                raise ApiError(403, "Forbidden", "exceeded quota: gpus")

        scene.api.before = only_one_fits
        await scene.apply(world, create(world, "chat-0"), create(world, "chat-1"))
        assert [refusal.pod_name for refusal in (await scene.world()).refusals] == ["chat-0"]


@in_virtual_time
async def test_a_drain_and_its_end_are_one_write_each():
    scene = Scene()
    scene.api.put(PODS, a_stored_pod("chat-0", scene.owner))
    async with scene.running() as world:
        scene.api.silence()
        pod = world.pods[0]
        await scene.apply(world, StartDrain(pod.name, pod.uid, pod.resource_version, "surplus"))
        (draining,) = (await scene.world()).pods
        assert (draining.serving, draining.drain_reason) == (False, "surplus")
        assert draining.drain_started_at == pytest.approx(NOW, abs=1.0)
        await scene.apply(world, CancelDrain(pod.name, pod.uid, draining.resource_version))
        (serving,) = (await scene.world()).pods
        assert (serving.serving, serving.drain_reason, serving.drain_started_at) == (True, None, None)


@pytest.mark.parametrize(
    "act",
    [
        pytest.param(lambda pod: StartDrain(pod.name, pod.uid, pod.resource_version, "surplus"), id="drain"),
        pytest.param(lambda pod: CancelDrain(pod.name, pod.uid, pod.resource_version), id="cancel"),
        pytest.param(lambda pod: DeletePod(pod.name, pod.uid, pod.resource_version, "drained"), id="delete"),
        pytest.param(lambda pod: AdoptPod(pod.name, pod.uid, pod.resource_version), id="adopt"),
    ],
)
@pytest.mark.parametrize(
    "stale",
    [
        pytest.param(lambda pod: replace(pod, uid="7"), id="another object of the name"),
        pytest.param(lambda pod: replace(pod, resource_version="7"), id="another version"),
    ],
)
@in_virtual_time
async def test_a_decision_about_another_version_of_a_pod_is_a_race_and_nothing_happens(act, stale):
    scene = Scene()
    scene.api.put(PODS, a_stored_pod("chat-0", scene.owner))
    async with scene.running() as world:
        before = scene.pod("chat-0")
        outcome = await scene.apply(world, act(stale(world.pods[0])))
        assert (outcome.failures, outcome.races) == ((), 1)
        assert scene.pod("chat-0") == before


@in_virtual_time
async def test_a_pod_that_is_gone_already_is_deleted():
    scene = Scene(FakeApi(graceful=False))
    scene.api.put(PODS, a_stored_pod("chat-0", scene.owner))
    async with scene.running() as world:
        scene.api.silence()
        scene.api.remove(PODS, "team", "chat-0")
        pod = world.pods[0]
        outcome = await scene.apply(world, DeletePod(pod.name, pod.uid, pod.resource_version, "drained"))
        assert outcome.failures == ()
        assert (await scene.world()).pods == ()


@pytest.mark.parametrize("drain", [None, "surplus"])
@in_virtual_time
async def test_an_orphan_is_adopted_in_one_write(drain):
    scene = Scene()
    foreign = {labels.SERVICE: "chat", labels.SERVICE_UID: "uid-before", labels.SERVING: "true"}
    scene.api.put(PODS, a_stored_pod("orphan", None, labels=foreign))
    async with scene.running() as world:
        scene.api.silence()
        pod = world.pods[0]
        await scene.apply(world, AdoptPod(pod.name, pod.uid, pod.resource_version, drain))
        assert scene.written() == ["patch pods team/orphan"]
        (adopted,) = (await scene.world()).pods
        assert (adopted.owner_uid, adopted.service_uid) == ("uid-chat", "uid-chat")
        assert (adopted.serving, adopted.drain_reason) == (drain is None, drain)


# Children and revisions.


@pytest.mark.parametrize(
    ("owner", "metadata", "reason"),
    [
        pytest.param(STRANGER, {}, "NameTaken", id="somebody else's"),
        pytest.param(None, {}, "NameTaken", id="nobody's"),
        pytest.param(Scene.owner, {"deletionTimestamp": "2026-01-01T00:00:00Z"}, "Terminating", id="still ending"),
    ],
)
@in_virtual_time
async def test_a_service_of_the_name_that_is_not_ours_is_not_taken_over(owner, metadata, reason):
    scene = Scene()
    before = scene.api.put(SERVICES, a_stored_pod("chat", owner, **metadata) | {"spec": {"selector": {"app": "web"}}})
    async with scene.running() as world:
        outcome = await scene.apply(world, ApplyChildren(3, ("Service",)))
        assert [failure.error.reason for failure in outcome.failures] == [reason]
        assert scene.written() == []
        assert scene.api.find(SERVICES, "team", "chat") == before
        if reason == "NameTaken":
            (child,) = (await scene.world()).children
            assert (child.kind, child.name, child.owner_uid) == ("Service", "chat", owner and owner.uid)
            await asyncio.sleep(61.0)
            assert (await scene.world()).children == ()


@in_virtual_time
async def test_a_child_that_was_changed_by_hand_is_put_right():
    scene = Scene()
    async with scene.running() as world:
        await scene.apply(world, ApplyChildren(3))
        edited = scene.api.find(DISRUPTION_BUDGETS, "team", "chat")
        assert edited is not None
        scene.api.put(DISRUPTION_BUDGETS, {**edited, "spec": {**edited["spec"], "minAvailable": 0}})
        await asyncio.sleep(0.001)
        found = await scene.world()
        assert set(found.children) != set(found.services[0].children)
        await scene.apply(world, ApplyChildren(3, ("PodDisruptionBudget",)))
        assert scene.written() == ["apply poddisruptionbudgets team/chat"]
        found = await scene.world()
        assert set(found.children) == set(found.services[0].children)


@in_virtual_time
async def test_a_revision_is_stored_once_and_numbered_again_when_it_returns():
    scene = Scene()
    async with scene.running() as world:
        revision = replace(wanted(world), number=1)
        await scene.apply(world, StoreRevision(revision))
        (stored,) = (await scene.world()).revisions["uid-chat"]
        await scene.apply(world, StoreRevision(replace(stored, number=4, spec_hash="later")))
        assert scene.written() == [f"patch controllerrevisions team/{stored.name}"]
        (again,) = (await scene.world()).revisions["uid-chat"]
        assert (again.number, again.spec_hash, again.data) == (4, "later", stored.data)


@in_virtual_time
async def test_a_revision_whose_answer_was_lost_is_found_again():
    scene = Scene()
    async with scene.running() as world:
        revision = replace(wanted(world), number=1)
        await scene.apply(world, StoreRevision(revision))
        outcome = await scene.apply(world, StoreRevision(replace(revision, number=2)))
        assert outcome.failures == ()
        assert [stored.number for stored in (await scene.world()).revisions["uid-chat"]] == [2]


@in_virtual_time
async def test_a_revision_of_somebody_else_is_neither_changed_nor_deleted():
    scene = Scene()
    async with scene.running() as world:
        await scene.apply(world, StoreRevision(replace(wanted(world), number=1)))
        (stored,) = scene.api.all(CONTROLLER_REVISIONS)
        stored["metadata"]["ownerReferences"][0]["uid"] = "uid-of-a-stranger"
        name = stored["metadata"]["name"]
        outcome = await scene.apply(world, StoreRevision(replace(wanted(world), number=2)))
        assert [failure.error.reason for failure in outcome.failures] == ["NameTaken"]
        outcome = await scene.apply(world, DeleteRevision(name))
        assert [failure.error.reason for failure in outcome.failures] == ["NameTaken"]
        assert scene.api.find(CONTROLLER_REVISIONS, "team", name) == stored
        assert (await scene.apply(world, DeleteRevision("gone"))).failures == ()
