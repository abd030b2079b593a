"""The observer reads the objects of a cluster into one World."""

import asyncio
from dataclasses import replace

import pytest

from forebay.api import labels
from forebay.cluster.client.kube_api import (
    CONTROLLER_REVISIONS,
    DISRUPTION_BUDGETS,
    INFERENCE_SERVICES,
    NODES,
    POD_TEMPLATES,
    PODS,
    RESOURCE_QUOTAS,
    SERVICES,
    ApiError,
)
from forebay.cluster.read.observer import EngineAddress
from forebay.cluster.write.status_writer import StatusWriter
from forebay.world.plan import Plan, ServicePlan, StoreRevision
from tests.builders.world import NOW
from tests.cluster.cluster_in_memory import (
    SPEC,
    ClusterInMemory,
    a_stored_node,
    a_stored_pod,
    a_stored_service,
    children,
    wanted,
)
from tests.cluster.fake_api import FakeCall
from tests.controller.virtual_time import in_virtual_time

JANUARY = 1767225600.0
"""The creation time of all objects of the API server in memory."""


@in_virtual_time
async def test_a_world_contains_all_kinds_of_objects():
    cluster = ClusterInMemory()
    cluster.api.put(PODS, a_stored_pod("chat-0", cluster.owner))
    cluster.api.put(PODS, {"metadata": {"namespace": "team", "name": "a-stranger"}})
    async with cluster.running() as world:
        (service,) = world.services
        assert (str(service.key), service.uid, service.generation) == ("team/chat", "uid-chat", 1)
        assert service.spec is not None
        assert service.spec.scaling.max_replicas == 2
        assert service.problems == ()
        assert [child.kind for child in service.children] == ["Service", "PodDisruptionBudget"]
        assert [pod.name for pod in world.pods] == ["chat-0"]
        assert [(node.name, node.gpus) for node in world.nodes] == [("n1", {"nvidia.com/gpu": 8})]
        assert (world.children, world.revisions, world.refusals) == ((), {}, ())


@in_virtual_time
async def test_no_world_before_every_cache_was_listed():
    cluster = ClusterInMemory()
    with pytest.raises(ApiError, match="StaleCache: pods have not been listed yet"):
        await cluster.world()
    assert not cluster.observer.synced
    async with cluster.running():
        assert cluster.observer.synced


@in_virtual_time
async def test_no_world_from_a_cache_unconfirmed_for_three_minutes():
    cluster = ClusterInMemory()
    async with cluster.running():

        def watches_fail(call: FakeCall) -> None:
            if call.plural == NODES.plural:
                raise ApiError(0, "ClientConnectorError", "connection refused")

        cluster.api.before = watches_fail
        cluster.api.end_watches()
        await asyncio.sleep(170.0)
        await cluster.world()
        await asyncio.sleep(20.0)
        with pytest.raises(ApiError, match=r"StaleCache: .*nodes for 19") as raised:
            await cluster.world()
        assert raised.value.status == 0
        cluster.api.before = lambda call: None
        await asyncio.sleep(31.0)
        await cluster.world()


@in_virtual_time
async def test_no_world_from_an_api_server_that_refuses_services():
    cluster = ClusterInMemory()
    async with cluster.running():

        def refuse(call: FakeCall) -> None:
            raise ApiError(403, "Forbidden", "no")

        cluster.api.before = refuse
        with pytest.raises(ApiError, match="403 Forbidden"):
            await cluster.world()


@in_virtual_time
async def test_services_are_listed_once_and_ordered_by_name():
    cluster = ClusterInMemory()
    async with cluster.running():
        cluster.api.put(INFERENCE_SERVICES, a_stored_service("b"))
        cluster.api.put(INFERENCE_SERVICES, a_stored_service("a"))
        await asyncio.sleep(0.001)
        cluster.api.calls.clear()
        world = await cluster.world()
        assert [service.key.name for service in world.services] == ["a", "b", "chat"]
        assert [(call.verb, call.plural) for call in cluster.api.calls] == [("list", "inferenceservices")]
        cluster.api.remove(INFERENCE_SERVICES, "team", "b")
        await asyncio.sleep(0.001)
        assert [service.key.name for service in (await cluster.world()).services] == ["a", "chat"]


@in_virtual_time
async def test_a_status_that_was_written_is_known_before_its_watch_event():
    cluster = ClusterInMemory()
    async with cluster.running() as world:
        cluster.api.silence()
        (service,) = world.services
        status = service.status.model_copy(update={"url": "http://chat"})
        writer = StatusWriter(cluster.api, cluster.observer, is_leader=lambda: True)
        cluster.woken.clear()
        for generation in (1, 2):
            changed = status.model_copy(update={"observed_generation": generation})
            outcome = await writer.write(Plan((ServicePlan(service.key, service.uid, (), changed),)), world, NOW)
            assert (outcome.failures, outcome.races) == ((), 0)
            world = await cluster.world()
            assert world.services[0].status == changed
        assert cluster.woken == []


@in_virtual_time
async def test_a_changed_spec_wakes_and_a_changed_status_does_not():
    cluster = ClusterInMemory()
    async with cluster.running():
        cluster.woken.clear()
        cluster.api.put(INFERENCE_SERVICES, a_stored_service() | {"status": {"url": "x"}})
        await asyncio.sleep(0.001)
        assert cluster.woken == []
        cluster.api.put(INFERENCE_SERVICES, a_stored_service(generation=2))
        await asyncio.sleep(0.001)
        assert cluster.woken == ["inferenceservices"]


@in_virtual_time
async def test_what_has_not_changed_is_the_identical_object_at_the_next_tick():
    cluster = ClusterInMemory()
    cluster.api.put(NODES, a_stored_node("n2", **{"nvidia.com/gpu": "4", "rdma/hca": "16"}))
    cluster.api.put(INFERENCE_SERVICES, a_stored_service("other"))
    cluster.api.put(PODS, a_stored_pod("chat-0", cluster.owner))
    async with cluster.running() as world:
        await cluster.apply(world, StoreRevision(replace(wanted(world), number=1)), children(world))
        before = await cluster.world()
        cluster.api.put(INFERENCE_SERVICES, a_stored_service("other", generation=2))
        cluster.api.put(NODES, a_stored_node("n1"))
        await asyncio.sleep(0.001)
        after = await cluster.world()
        assert [id(node) for node in after.nodes] == [id(node) for node in before.nodes], "a heartbeat changes nothing"
        assert after.services[0] is before.services[0]
        assert after.services[1] is not before.services[1]
        assert after.revisions["uid-chat"] is before.revisions["uid-chat"]
        assert [id(child) for child in after.children] == [id(child) for child in before.children]
        assert [id(pod) for pod in after.pods] == [id(pod) for pod in before.pods]


@in_virtual_time
async def test_a_spec_is_resolved_once_per_generation():
    cluster = ClusterInMemory()
    for number in range(200):
        cluster.api.put(INFERENCE_SERVICES, a_stored_service(f"s{number}"))
    async with cluster.running() as world:
        resolved = cluster.observer._services.resolutions
        assert (len(world.services), resolved) == (201, 201)
        await cluster.world()
        assert cluster.observer._services.resolutions == resolved
        cluster.api.put(INFERENCE_SERVICES, a_stored_service("s7", generation=2) | {"status": {"url": "x"}})
        changed = await cluster.world()
        assert cluster.observer._services.resolutions == resolved + 1
        assert next(s.status.url for s in changed.services if s.key.name == "s7") == "x"
        before = wanted(changed, "s7")
        annotations = {labels.RESTARTED_AT: "2026-01-01"}
        cluster.api.put(INFERENCE_SERVICES, a_stored_service("s7", generation=2, annotations=annotations))
        assert wanted(await cluster.world(), "s7").spec_hash != before.spec_hash


@in_virtual_time
async def test_an_unreadable_spec_is_a_problem_of_its_service():
    cluster = ClusterInMemory()
    bad = {**SPEC, "scaling": {"maxReplicas": "many"}}
    cluster.api.put(INFERENCE_SERVICES, a_stored_service("bad", spec=bad))
    async with cluster.running() as world:
        by_name = {service.key.name: service for service in world.services}
        assert (by_name["bad"].spec, by_name["bad"].wanted, by_name["bad"].children) == (None, None, ())
        (problem,) = by_name["bad"].problems
        assert problem.reason == "SpecInvalid"
        assert problem.message.startswith('spec.scaling.maxReplicas: "many" is not a whole number')
        assert by_name["chat"].wanted is not None


@in_virtual_time
async def test_a_service_without_uid_is_reported_and_the_others_are_read():
    cluster = ClusterInMemory()
    cluster.api.objects[("inferenceservices", "team", "odd")] = {
        "metadata": {"namespace": "team", "name": "odd", "uid": 7}
    }
    async with cluster.running() as world:
        assert [service.key.name for service in world.services] == ["chat"]
        assert cluster.observer.problems() == (
            "InferenceService team/odd cannot be read: metadata.uid: Input should be a valid string",
        )


@in_virtual_time
async def test_an_unreadable_status_is_replaced():
    cluster = ClusterInMemory()
    cluster.api.put(INFERENCE_SERVICES, a_stored_service() | {"status": {"replicas": "three"}})
    async with cluster.running() as world:
        assert world.services[0].status.replicas.desired == 0


@in_virtual_time
async def test_a_service_that_is_being_deleted_wants_no_children():
    cluster = ClusterInMemory()
    cluster.api.put(INFERENCE_SERVICES, a_stored_service(deletionTimestamp="2026-01-01T00:00:00Z"))
    async with cluster.running() as world:
        assert (world.services[0].deleting, world.services[0].children) == (True, ())


@in_virtual_time
async def test_written_children_match_the_wanted_ones():
    cluster = ClusterInMemory()
    async with cluster.running() as world:
        cluster.api.silence()
        revision = replace(wanted(world), number=1)
        outcome = await cluster.apply(world, StoreRevision(revision), children(world))
        assert outcome.failures == ()
        again = await cluster.world()
        (stored,) = again.revisions["uid-chat"]
        assert (stored.hash, stored.spec_hash, stored.data, stored.number) == (
            revision.hash,
            revision.spec_hash,
            revision.data,
            1,
        )
        assert sorted(again.children, key=str) == sorted(again.services[0].children, key=str)


@in_virtual_time
async def test_stored_revisions_come_oldest_first():
    cluster = ClusterInMemory()
    async with cluster.running() as world:
        for number, hash_ in ((2, "ccc"), (1, "bbb"), (2, "aaa")):
            await cluster.apply(world, StoreRevision(replace(wanted(world), hash=hash_, number=number)))
        again = await cluster.world()
        assert [revision.hash for revision in again.revisions["uid-chat"]] == ["bbb", "aaa", "ccc"]


@in_virtual_time
async def test_extended_resources_that_no_revision_requests_are_ignored():
    cluster = ClusterInMemory()
    cluster.api.put(NODES, a_stored_node("n2", **{"nvidia.com/gpu": "4", "rdma/hca": "16"}))
    async with cluster.running() as world:
        assert {node.name: node.gpus for node in world.nodes} == {
            "n1": {"nvidia.com/gpu": 8},
            "n2": {"nvidia.com/gpu": 4},
        }


@in_virtual_time
async def test_engines_are_running_pods_of_rank_0_with_an_address():
    cluster = ClusterInMemory()
    async with cluster.running() as world:
        revision = replace(wanted(world), number=1)
        await cluster.apply(world, StoreRevision(revision))
        ours = {labels.SERVICE: "chat", labels.SERVICE_UID: "uid-chat", labels.REVISION: revision.hash}
        cluster.api.put(PODS, a_stored_pod("serves", cluster.owner, uid="1", labels=ours))
        cluster.api.put(PODS, a_stored_pod("orphan", None, uid="2"))
        cluster.api.put(PODS, a_stored_pod("rank-1", cluster.owner, labels={**ours, labels.RANK: "1"}))
        cluster.api.put(PODS, a_stored_pod("pending", cluster.owner) | {"status": {"phase": "Pending"}})
        await asyncio.sleep(0.001)
        assert sorted(cluster.observer.engines(), key=lambda engine: engine.uid) == [
            EngineAddress("1", "team", "serves", "10.0.0.7", 8000, "0.32.0", JANUARY, "chat"),
            EngineAddress("2", "team", "orphan", "10.0.0.7", 8000, None, JANUARY, "chat"),
        ]


@in_virtual_time
async def test_pods_wake_and_own_writes_do_not():
    cluster = ClusterInMemory()
    async with cluster.running() as world:
        cluster.woken.clear()
        await cluster.apply(world, StoreRevision(wanted(world)))
        await asyncio.sleep(0.001)
        assert cluster.woken == []
        cluster.api.put(PODS, a_stored_pod("chat-0", cluster.owner))
        await asyncio.sleep(0.001)
        assert cluster.woken == ["pods"]


WITH_TEMPLATE = {**SPEC, "pod": {"templateRef": "extras"}}


def a_template(**metadata: str) -> dict[str, object]:
    template = {"metadata": {"annotations": {"example.com/a": "b"}}, "spec": {"containers": []}}
    return {"metadata": {"namespace": "team", "name": "extras"}, "template": template}


@in_virtual_time
async def test_a_named_template_is_read_once_a_minute():
    cluster = ClusterInMemory()
    cluster.api.put(INFERENCE_SERVICES, a_stored_service(spec=WITH_TEMPLATE))
    async with cluster.running() as world:
        assert [problem.reason for problem in world.services[0].problems] == ["PodTemplateNotFound"]
        cluster.api.put(POD_TEMPLATES, a_template())
        assert (await cluster.world()).services[0].wanted is None
        await asyncio.sleep(61.0)
        assert (await cluster.world()).services[0].wanted is not None
        reads = [call for call in cluster.api.calls if call.plural == POD_TEMPLATES.plural]
        assert len(reads) == 2


@in_virtual_time
async def test_an_unreadable_template_affects_only_its_service():
    cluster = ClusterInMemory()
    cluster.api.put(INFERENCE_SERVICES, a_stored_service("other", spec=WITH_TEMPLATE))
    cluster.api.put(POD_TEMPLATES, a_template())

    def forbid(call: FakeCall) -> None:
        if call.plural == POD_TEMPLATES.plural:
            raise ApiError(403, "Forbidden", "no verb get")

    cluster.api.before = forbid
    async with cluster.running() as world:
        problems = {service.key.name: [p.reason for p in service.problems] for service in world.services}
        assert problems == {"chat": [], "other": ["PodTemplateUnreadable"]}
        cluster.api.before = lambda call: None
        await asyncio.sleep(61.0)
        resolved = await cluster.world()
        assert wanted(resolved, "other")
        cluster.api.before = forbid
        await asyncio.sleep(61.0)
        assert wanted(await cluster.world(), "other") == wanted(resolved, "other")


@in_virtual_time
async def test_only_our_children_are_watched():
    cluster = ClusterInMemory()
    cluster.api.put(SERVICES, {"metadata": {"namespace": "team", "name": "someone"}, "spec": {}})
    async with cluster.running() as world:
        assert world.children == ()
    assert {call.plural for call in cluster.api.calls if call.verb == "watch"} == {
        PODS.plural,
        NODES.plural,
        INFERENCE_SERVICES.plural,
        CONTROLLER_REVISIONS.plural,
        SERVICES.plural,
        DISRUPTION_BUDGETS.plural,
        RESOURCE_QUOTAS.plural,
    }


@in_virtual_time
async def test_an_unknown_newer_version_is_only_a_warning():
    cluster = ClusterInMemory()
    spec = {**SPEC, "engine": {**SPEC.get("engine", {}), "version": "0.99.0"}}
    cluster.api.put(INFERENCE_SERVICES, a_stored_service("new", spec))
    async with cluster.running() as world:
        service = next(service for service in world.services if service.key.name == "new")
        assert (service.problems, [warning.reason for warning in service.warnings]) == ((), ["EngineVersionUnknown"])
