"""Each action by itself: what is written, what it depends on, and what is left alone."""

import asyncio
from dataclasses import replace

import pytest

from forebay.api import labels
from forebay.cluster.client.kube_api import CONTROLLER_REVISIONS, DISRUPTION_BUDGETS, PODS, SERVICES, ApiError
from forebay.workloads.objects.ownership import Owner
from forebay.world.plan import (
    AdoptPod,
    CancelDrain,
    DeletePod,
    DeleteRevision,
    LiftGate,
    StartDrain,
    StoreRevision,
)
from tests.builders.world import NOW
from tests.cluster.cluster_in_memory import Scene, a_stored_pod, children, create, fails, wanted
from tests.cluster.fake_api import FakeApi, FakeCall, lost_answer
from tests.controller.virtual_time import in_virtual_time

STRANGER = Owner(Scene.owner.key, "uid-of-a-stranger")


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


@in_virtual_time
async def test_the_gate_of_a_group_is_lifted_and_those_of_others_stay():
    scene = Scene()
    stored = a_stored_pod("chat-0", scene.owner)
    stored["spec"]["schedulingGates"] = [{"name": "example.com/quota"}, {"name": labels.GROUP_GATE}]
    scene.api.put(PODS, stored)
    async with scene.running() as world:
        scene.api.silence()
        pod = world.pods[0]
        assert pod.held
        await scene.apply(world, LiftGate(pod.name, pod.uid, pod.resource_version, ("example.com/quota",)))
        assert scene.written() == ["patch pods team/chat-0"]
        (lifted,) = (await scene.world()).pods
        assert lifted.gates == ("example.com/quota",)
    assert scene.pod("chat-0")["spec"]["schedulingGates"] == [{"name": "example.com/quota"}]
    assert scene.pod("chat-0")["spec"]["containers"] == stored["spec"]["containers"]


@pytest.mark.parametrize(
    "act",
    [
        pytest.param(lambda pod: LiftGate(pod.name, pod.uid, pod.resource_version), id="lift a gate"),
        pytest.param(lambda pod: StartDrain(pod.name, pod.uid, pod.resource_version, "surplus"), id="drain"),
        pytest.param(lambda pod: CancelDrain(pod.name, pod.uid, pod.resource_version), id="cancel"),
        pytest.param(lambda pod: DeletePod(pod.name, pod.uid, pod.resource_version, "drained"), id="delete"),
        pytest.param(lambda pod: AdoptPod(pod.name, pod.uid, pod.resource_version), id="adopt"),
    ],
)
@in_virtual_time
async def test_a_decision_about_another_version_of_a_pod_is_a_race_and_nothing_happens(act):
    scene = Scene()
    scene.api.put(PODS, a_stored_pod("chat-0", scene.owner))
    async with scene.running() as world:
        before = scene.pod("chat-0")
        outcome = await scene.apply(world, act(replace(world.pods[0], resource_version="7")))
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
        outcome = await scene.apply(world, children(world, "Service"))
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
        await scene.apply(world, children(world))
        edited = scene.api.find(DISRUPTION_BUDGETS, "team", "chat")
        assert edited is not None
        scene.api.put(DISRUPTION_BUDGETS, {**edited, "spec": {**edited["spec"], "minAvailable": 0}})
        await asyncio.sleep(0.001)
        found = await scene.world()
        assert set(found.children) != set(found.services[0].children)
        await scene.apply(world, children(world, "PodDisruptionBudget"))
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


@pytest.mark.parametrize("grace_seconds", [None, 10])
@in_virtual_time
async def test_a_grace_period_is_only_sent_when_it_is_not_the_pods_own(grace_seconds):
    scene = Scene()
    scene.api.put(PODS, a_stored_pod("chat-0", scene.owner))
    async with scene.running() as world:
        pod = world.pods[0]
        await scene.apply(world, DeletePod(pod.name, pod.uid, pod.resource_version, "any", grace_seconds))
    (call,) = [call for call in scene.api.calls if call.verb == "delete"]
    assert call.body["gracePeriodSeconds"] == grace_seconds
