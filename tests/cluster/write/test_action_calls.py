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
from tests.cluster.cluster_in_memory import ClusterInMemory, a_stored_pod, children, create, fails, wanted
from tests.cluster.fake_api import FakeApi, FakeCall, lost_answer
from tests.controller.virtual_time import in_virtual_time

STRANGER = Owner(ClusterInMemory.owner.key, "uid-of-a-stranger")


# Pods.


@in_virtual_time
async def test_a_created_pod_is_known_before_its_watch_event():
    cluster = ClusterInMemory()
    async with cluster.running() as world:
        cluster.api.silence()
        await cluster.apply(world, create(world, avoid_nodes=("n1", "gone")))
        (pod,) = (await cluster.world()).pods
        assert (pod.name, pod.owner_uid, pod.serving, pod.gpus) == ("chat-0", "uid-chat", True, 1)
    affinity = cluster.pod("chat-0")["spec"]["affinity"]["nodeAffinity"]
    terms = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert terms[0]["matchExpressions"][0]["values"] == ["gone", "host-of-n1"]


@in_virtual_time
async def test_a_create_whose_answer_was_lost_succeeds_on_retry():
    cluster = ClusterInMemory()

    def lose(call: FakeCall) -> None:
        if call.verb == "create":
            raise lost_answer()

    async with cluster.running() as world:
        cluster.api.silence()
        cluster.api.after = lose
        outcome = await cluster.apply(world, create(world))
        assert [failure.error.status for failure in outcome.failures] == [0]
        assert (await cluster.world()).refusals == ()
        cluster.api.after = lambda call: None
        outcome = await cluster.apply(world, create(world))
        assert outcome.failures == ()
        assert [pod.name for pod in (await cluster.world()).pods] == ["chat-0"]


@in_virtual_time
async def test_a_pod_of_another_owner_is_left_alone_and_reported():
    cluster = ClusterInMemory()
    cluster.api.put(PODS, a_stored_pod("chat-0", STRANGER))
    async with cluster.running() as world:
        outcome = await cluster.apply(world, create(world))
        assert [failure.error.reason for failure in outcome.failures] == ["NameTaken"]
        (refusal,) = (await cluster.world()).refusals
        assert (refusal.service_uid, refusal.pod_name, refusal.reason) == ("uid-chat", "chat-0", "NameTaken")


@in_virtual_time
async def test_a_name_is_not_reused_while_its_pod_terminates():
    cluster = ClusterInMemory()
    cluster.api.put(PODS, a_stored_pod("chat-0", cluster.owner, deletionTimestamp="2026-01-01T00:00:00Z"))
    async with cluster.running() as world:
        outcome = await cluster.apply(world, create(world))
        assert [failure.error.reason for failure in outcome.failures] == ["Terminating"]
        assert (await cluster.world()).refusals == ()


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
    cluster = ClusterInMemory()
    async with cluster.running() as world:
        cluster.api.before = fails("create", PODS.plural, error)
        await cluster.apply(world, create(world))
        refusals = (await cluster.world()).refusals
        assert [(refusal.reason, refusal.message) for refusal in refusals] == (
            [(reason, error.message)] if reason else []
        )
        await asyncio.sleep(601.0)
        cluster.api.before = lambda call: None
        await asyncio.sleep(31.0)
        assert (await cluster.world()).refusals == ()


@in_virtual_time
async def test_a_created_pod_clears_earlier_refusals_of_its_service():
    cluster = ClusterInMemory()
    async with cluster.running() as world:
        cluster.api.before = fails("create", PODS.plural, ApiError(403, "Forbidden", "exceeded quota: gpus"))
        await cluster.apply(world, create(world, "chat-0"), create(world, "chat-1"))
        assert len((await cluster.world()).refusals) == 2
        await asyncio.sleep(5.0)
        cluster.api.before = lambda call: None
        await cluster.apply(world, create(world, "chat-2"))
        assert (await cluster.world()).refusals == ()


@in_virtual_time
async def test_a_refusal_in_the_same_tick_as_a_success_is_kept():
    cluster = ClusterInMemory(at_once=1)
    async with cluster.running() as world:

        def only_one_fits(call: FakeCall) -> None:
            if call.verb == "create" and call.name == "team/chat-0":
                raise ApiError(403, "Forbidden", "exceeded quota: gpus")

        cluster.api.before = only_one_fits
        await cluster.apply(world, create(world, "chat-0"), create(world, "chat-1"))
        assert [refusal.pod_name for refusal in (await cluster.world()).refusals] == ["chat-0"]


@in_virtual_time
async def test_a_drain_and_its_end_are_one_write_each():
    cluster = ClusterInMemory()
    cluster.api.put(PODS, a_stored_pod("chat-0", cluster.owner))
    async with cluster.running() as world:
        cluster.api.silence()
        pod = world.pods[0]
        await cluster.apply(world, StartDrain(pod.name, pod.uid, pod.resource_version, "surplus"))
        (draining,) = (await cluster.world()).pods
        assert (draining.serving, draining.drain_reason) == (False, "surplus")
        assert draining.drain_started_at == pytest.approx(NOW, abs=1.0)
        await cluster.apply(world, CancelDrain(pod.name, pod.uid, draining.resource_version))
        (serving,) = (await cluster.world()).pods
        assert (serving.serving, serving.drain_reason, serving.drain_started_at) == (True, None, None)


@in_virtual_time
async def test_only_the_group_gate_is_removed():
    cluster = ClusterInMemory()
    stored = a_stored_pod("chat-0", cluster.owner)
    stored["spec"]["schedulingGates"] = [{"name": "example.com/quota"}, {"name": labels.GROUP_GATE}]
    cluster.api.put(PODS, stored)
    async with cluster.running() as world:
        cluster.api.silence()
        pod = world.pods[0]
        assert pod.gated
        await cluster.apply(world, LiftGate(pod.name, pod.uid, pod.resource_version, ("example.com/quota",)))
        assert cluster.written() == ["patch pods team/chat-0"]
        (lifted,) = (await cluster.world()).pods
        assert lifted.gates == ("example.com/quota",)
    assert cluster.pod("chat-0")["spec"]["schedulingGates"] == [{"name": "example.com/quota"}]
    assert cluster.pod("chat-0")["spec"]["containers"] == stored["spec"]["containers"]


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
async def test_a_stale_pod_version_is_a_race_and_changes_nothing(act):
    cluster = ClusterInMemory()
    cluster.api.put(PODS, a_stored_pod("chat-0", cluster.owner))
    async with cluster.running() as world:
        before = cluster.pod("chat-0")
        outcome = await cluster.apply(world, act(replace(world.pods[0], resource_version="7")))
        assert (outcome.failures, outcome.races) == ((), 1)
        assert cluster.pod("chat-0") == before


@in_virtual_time
async def test_deleting_a_missing_pod_succeeds():
    cluster = ClusterInMemory(FakeApi(graceful=False))
    cluster.api.put(PODS, a_stored_pod("chat-0", cluster.owner))
    async with cluster.running() as world:
        cluster.api.silence()
        cluster.api.remove(PODS, "team", "chat-0")
        pod = world.pods[0]
        outcome = await cluster.apply(world, DeletePod(pod.name, pod.uid, pod.resource_version, "drained"))
        assert outcome.failures == ()
        assert (await cluster.world()).pods == ()


@pytest.mark.parametrize("drain", [None, "surplus"])
@in_virtual_time
async def test_an_orphan_is_adopted_in_one_write(drain):
    cluster = ClusterInMemory()
    foreign = {labels.SERVICE: "chat", labels.SERVICE_UID: "uid-before", labels.SERVING: "true"}
    cluster.api.put(PODS, a_stored_pod("orphan", None, labels=foreign))
    async with cluster.running() as world:
        cluster.api.silence()
        pod = world.pods[0]
        await cluster.apply(world, AdoptPod(pod.name, pod.uid, pod.resource_version, drain))
        assert cluster.written() == ["patch pods team/orphan"]
        (adopted,) = (await cluster.world()).pods
        assert (adopted.owner_uid, adopted.service_uid) == ("uid-chat", "uid-chat")
        assert (adopted.serving, adopted.drain_reason) == (drain is None, drain)


# Children and revisions.


@pytest.mark.parametrize(
    ("owner", "metadata", "reason"),
    [
        pytest.param(STRANGER, {}, "NameTaken", id="somebody else's"),
        pytest.param(None, {}, "NameTaken", id="nobody's"),
        pytest.param(
            ClusterInMemory.owner, {"deletionTimestamp": "2026-01-01T00:00:00Z"}, "Terminating", id="still ending"
        ),
    ],
)
@in_virtual_time
async def test_a_service_of_another_owner_is_not_taken_over(owner, metadata, reason):
    cluster = ClusterInMemory()
    before = cluster.api.put(SERVICES, a_stored_pod("chat", owner, **metadata) | {"spec": {"selector": {"app": "web"}}})
    async with cluster.running() as world:
        outcome = await cluster.apply(world, children(world, "Service"))
        assert [failure.error.reason for failure in outcome.failures] == [reason]
        assert cluster.written() == []
        assert cluster.api.find(SERVICES, "team", "chat") == before
        if reason == "NameTaken":
            (child,) = (await cluster.world()).children
            assert (child.kind, child.name, child.owner_uid) == ("Service", "chat", owner and owner.uid)
            await asyncio.sleep(61.0)
            assert (await cluster.world()).children == ()


@in_virtual_time
async def test_a_manual_change_of_a_child_is_reverted():
    cluster = ClusterInMemory()
    async with cluster.running() as world:
        await cluster.apply(world, children(world))
        edited = cluster.api.find(DISRUPTION_BUDGETS, "team", "chat")
        assert edited is not None
        cluster.api.put(DISRUPTION_BUDGETS, {**edited, "spec": {**edited["spec"], "minAvailable": 0}})
        await asyncio.sleep(0.001)
        found = await cluster.world()
        assert set(found.children) != set(found.services[0].children)
        await cluster.apply(world, children(world, "PodDisruptionBudget"))
        assert cluster.written() == ["apply poddisruptionbudgets team/chat"]
        found = await cluster.world()
        assert set(found.children) == set(found.services[0].children)


@in_virtual_time
async def test_a_stored_revision_gets_a_new_number_when_it_is_used_again():
    cluster = ClusterInMemory()
    async with cluster.running() as world:
        revision = replace(wanted(world), number=1)
        await cluster.apply(world, StoreRevision(revision))
        (stored,) = (await cluster.world()).revisions["uid-chat"]
        await cluster.apply(world, StoreRevision(replace(stored, number=4, spec_hash="later")))
        assert cluster.written() == [f"patch controllerrevisions team/{stored.name}"]
        (again,) = (await cluster.world()).revisions["uid-chat"]
        assert (again.number, again.spec_hash, again.data) == (4, "later", stored.data)


@in_virtual_time
async def test_a_revision_whose_answer_was_lost_is_found_again():
    cluster = ClusterInMemory()
    async with cluster.running() as world:
        revision = replace(wanted(world), number=1)
        await cluster.apply(world, StoreRevision(revision))
        outcome = await cluster.apply(world, StoreRevision(replace(revision, number=2)))
        assert outcome.failures == ()
        assert [stored.number for stored in (await cluster.world()).revisions["uid-chat"]] == [2]


@in_virtual_time
async def test_a_revision_of_another_owner_is_neither_changed_nor_deleted():
    cluster = ClusterInMemory()
    async with cluster.running() as world:
        await cluster.apply(world, StoreRevision(replace(wanted(world), number=1)))
        (stored,) = cluster.api.all(CONTROLLER_REVISIONS)
        stored["metadata"]["ownerReferences"][0]["uid"] = "uid-of-a-stranger"
        name = stored["metadata"]["name"]
        outcome = await cluster.apply(world, StoreRevision(replace(wanted(world), number=2)))
        assert [failure.error.reason for failure in outcome.failures] == ["NameTaken"]
        outcome = await cluster.apply(world, DeleteRevision(name))
        assert [failure.error.reason for failure in outcome.failures] == ["NameTaken"]
        assert cluster.api.find(CONTROLLER_REVISIONS, "team", name) == stored
        assert (await cluster.apply(world, DeleteRevision("gone"))).failures == ()


@pytest.mark.parametrize("grace_seconds", [None, 10])
@in_virtual_time
async def test_a_grace_period_is_only_sent_when_it_is_not_the_pods_own(grace_seconds):
    cluster = ClusterInMemory()
    cluster.api.put(PODS, a_stored_pod("chat-0", cluster.owner))
    async with cluster.running() as world:
        pod = world.pods[0]
        await cluster.apply(world, DeletePod(pod.name, pod.uid, pod.resource_version, "any", grace_seconds))
    (call,) = [call for call in cluster.api.calls if call.verb == "delete"]
    assert call.body["gracePeriodSeconds"] == grace_seconds
