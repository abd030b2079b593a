"""From objects in a cluster to one World."""

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
    SERVICES,
    ApiError,
)
from forebay.cluster.read.observer import EngineAddress
from forebay.world.plan import StoreRevision
from tests.cluster.cluster_in_memory import SPEC, Scene, a_stored_node, a_stored_pod, a_stored_service, children, wanted
from tests.cluster.fake_api import FakeCall
from tests.controller.virtual_time import in_virtual_time

JANUARY = 1767225600.0
"""When the stand-in for the API server says that things were created."""


@in_virtual_time
async def test_a_world_has_everything_in_it():
    scene = Scene()
    scene.api.put(PODS, a_stored_pod("chat-0", scene.owner))
    scene.api.put(PODS, {"metadata": {"namespace": "team", "name": "a-stranger"}})
    async with scene.running() as world:
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
async def test_nothing_is_seen_before_everything_was_listed():
    scene = Scene()
    with pytest.raises(ApiError, match="StaleCache: pods have not been listed yet"):
        await scene.world()
    assert not scene.observer.synced
    async with scene.running():
        assert scene.observer.synced


@in_virtual_time
async def test_what_was_not_confirmed_for_three_minutes_is_no_world():
    scene = Scene()
    async with scene.running():

        def watches_fail(call: FakeCall) -> None:
            if call.plural == NODES.plural:
                raise ApiError(0, "ClientConnectorError", "connection refused")

        scene.api.before = watches_fail
        scene.api.end_watches()
        await asyncio.sleep(170.0)
        await scene.world()
        await asyncio.sleep(20.0)
        with pytest.raises(ApiError, match=r"StaleCache: .*nodes for 19") as raised:
            await scene.world()
        assert raised.value.status == 0
        scene.api.before = lambda call: None
        await asyncio.sleep(31.0)
        await scene.world()


@in_virtual_time
async def test_no_list_of_services_is_no_world():
    scene = Scene()
    async with scene.running():

        def refuse(call: FakeCall) -> None:
            raise ApiError(403, "Forbidden", "no")

        scene.api.before = refuse
        with pytest.raises(ApiError, match="403 Forbidden"):
            await scene.world()


@in_virtual_time
async def test_a_spec_is_resolved_once_per_generation():
    scene = Scene()
    for number in range(200):
        scene.api.put(INFERENCE_SERVICES, a_stored_service(f"s{number}"))
    async with scene.running() as world:
        resolved = scene.observer._services.resolutions
        assert (len(world.services), resolved) == (201, 201)
        await scene.world()
        assert scene.observer._services.resolutions == resolved
        scene.api.put(INFERENCE_SERVICES, a_stored_service("s7", generation=2) | {"status": {"url": "x"}})
        changed = await scene.world()
        assert scene.observer._services.resolutions == resolved + 1
        assert next(s.status.url for s in changed.services if s.key.name == "s7") == "x"
        before = wanted(changed, "s7")
        annotations = {labels.RESTARTED_AT: "2026-01-01"}
        scene.api.put(INFERENCE_SERVICES, a_stored_service("s7", generation=2, annotations=annotations))
        assert wanted(await scene.world(), "s7").spec_hash != before.spec_hash


@in_virtual_time
async def test_a_spec_that_cannot_be_read_is_that_services_problem():
    scene = Scene()
    bad = {**SPEC, "scaling": {"maxReplicas": "many"}}
    scene.api.put(INFERENCE_SERVICES, a_stored_service("bad", spec=bad))
    async with scene.running() as world:
        by_name = {service.key.name: service for service in world.services}
        assert (by_name["bad"].spec, by_name["bad"].wanted, by_name["bad"].children) == (None, None, ())
        (problem,) = by_name["bad"].problems
        assert problem.reason == "SpecInvalid"
        assert problem.message.startswith('spec.scaling.maxReplicas: "many" is not a whole number')
        assert by_name["chat"].wanted is not None


@in_virtual_time
async def test_a_service_without_identity_is_named_and_the_rest_is_seen():
    scene = Scene()
    scene.api.objects[("inferenceservices", "team", "odd")] = {
        "metadata": {"namespace": "team", "name": "odd", "uid": 7}
    }
    async with scene.running() as world:
        assert [service.key.name for service in world.services] == ["chat"]
        assert scene.observer.problems() == (
            "InferenceService team/odd cannot be read: metadata.uid: Input should be a valid string",
        )


@in_virtual_time
async def test_a_status_that_cannot_be_read_is_written_anew():
    scene = Scene()
    scene.api.put(INFERENCE_SERVICES, a_stored_service() | {"status": {"replicas": "three"}})
    async with scene.running() as world:
        assert world.services[0].status.replicas.desired == 0


@in_virtual_time
async def test_a_service_that_is_being_deleted_wants_no_children():
    scene = Scene()
    scene.api.put(INFERENCE_SERVICES, a_stored_service(deletionTimestamp="2026-01-01T00:00:00Z"))
    async with scene.running() as world:
        assert (world.services[0].deleting, world.services[0].children) == (True, ())


@in_virtual_time
async def test_what_was_written_is_found_as_it_was_wanted():
    scene = Scene()
    async with scene.running() as world:
        scene.api.silence()
        revision = replace(wanted(world), number=1)
        outcome = await scene.apply(world, StoreRevision(revision), children(world))
        assert outcome.failures == ()
        again = await scene.world()
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
    scene = Scene()
    async with scene.running() as world:
        for number, hash_ in ((2, "ccc"), (1, "bbb"), (2, "aaa")):
            await scene.apply(world, StoreRevision(replace(wanted(world), hash=hash_, number=number)))
        again = await scene.world()
        assert [revision.hash for revision in again.revisions["uid-chat"]] == ["bbb", "aaa", "ccc"]


@in_virtual_time
async def test_gpus_that_no_revision_asks_for_are_left_out():
    scene = Scene()
    scene.api.put(NODES, a_stored_node("n2", **{"nvidia.com/gpu": "4", "rdma/hca": "16"}))
    async with scene.running() as world:
        assert {node.name: node.gpus for node in world.nodes} == {
            "n1": {"nvidia.com/gpu": 8},
            "n2": {"nvidia.com/gpu": 4},
        }


@in_virtual_time
async def test_engines_are_where_their_metrics_are_to_be_had():
    scene = Scene()
    async with scene.running() as world:
        revision = replace(wanted(world), number=1)
        await scene.apply(world, StoreRevision(revision))
        ours = {labels.SERVICE: "chat", labels.SERVICE_UID: "uid-chat", labels.REVISION: revision.hash}
        scene.api.put(PODS, a_stored_pod("serves", scene.owner, uid="1", labels=ours))
        scene.api.put(PODS, a_stored_pod("orphan", None, uid="2"))
        scene.api.put(PODS, a_stored_pod("rank-1", scene.owner, labels={**ours, labels.RANK: "1"}))
        scene.api.put(PODS, a_stored_pod("pending", scene.owner) | {"status": {"phase": "Pending"}})
        await asyncio.sleep(0.001)
        assert sorted(scene.observer.engines(), key=lambda engine: engine.uid) == [
            EngineAddress("1", "team", "serves", "10.0.0.7", 8000, "0.32.0", JANUARY),
            EngineAddress("2", "team", "orphan", "10.0.0.7", 8000, None, JANUARY),
        ]


@in_virtual_time
async def test_pods_wake_and_own_writes_do_not():
    scene = Scene()
    async with scene.running() as world:
        scene.woken.clear()
        await scene.apply(world, StoreRevision(wanted(world)))
        await asyncio.sleep(0.001)
        assert scene.woken == []
        scene.api.put(PODS, a_stored_pod("chat-0", scene.owner))
        await asyncio.sleep(0.001)
        assert scene.woken == ["pods"]


WITH_TEMPLATE = {**SPEC, "pod": {"templateRef": "extras"}}


def a_template(**metadata: str) -> dict[str, object]:
    template = {"metadata": {"annotations": {"example.com/a": "b"}}, "spec": {"containers": []}}
    return {"metadata": {"namespace": "team", "name": "extras"}, "template": template}


@in_virtual_time
async def test_a_named_template_is_read_once_a_minute():
    scene = Scene()
    scene.api.put(INFERENCE_SERVICES, a_stored_service(spec=WITH_TEMPLATE))
    async with scene.running() as world:
        assert [problem.reason for problem in world.services[0].problems] == ["PodTemplateNotFound"]
        scene.api.put(POD_TEMPLATES, a_template())
        assert (await scene.world()).services[0].wanted is None
        await asyncio.sleep(61.0)
        assert (await scene.world()).services[0].wanted is not None
        reads = [call for call in scene.api.calls if call.plural == POD_TEMPLATES.plural]
        assert len(reads) == 2


@in_virtual_time
async def test_a_template_that_cannot_be_read_holds_its_service_only():
    scene = Scene()
    scene.api.put(INFERENCE_SERVICES, a_stored_service("other", spec=WITH_TEMPLATE))
    scene.api.put(POD_TEMPLATES, a_template())

    def forbid(call: FakeCall) -> None:
        if call.plural == POD_TEMPLATES.plural:
            raise ApiError(403, "Forbidden", "no verb get")

    scene.api.before = forbid
    async with scene.running() as world:
        problems = {service.key.name: [p.reason for p in service.problems] for service in world.services}
        assert problems == {"chat": [], "other": ["PodTemplateUnreadable"]}
        scene.api.before = lambda call: None
        await asyncio.sleep(61.0)
        resolved = await scene.world()
        assert wanted(resolved, "other")
        scene.api.before = forbid
        await asyncio.sleep(61.0)
        assert wanted(await scene.world(), "other") == wanted(resolved, "other")


@in_virtual_time
async def test_only_our_children_are_watched():
    scene = Scene()
    scene.api.put(SERVICES, {"metadata": {"namespace": "team", "name": "someone"}, "spec": {}})
    async with scene.running() as world:
        assert world.children == ()
    assert {call.plural for call in scene.api.calls if call.verb == "watch"} == {
        PODS.plural,
        NODES.plural,
        CONTROLLER_REVISIONS.plural,
        SERVICES.plural,
        DISRUPTION_BUDGETS.plural,
    }


@in_virtual_time
async def test_a_version_newer_than_what_is_known_is_a_warning_and_no_problem():
    scene = Scene()
    spec = {**SPEC, "engine": {**SPEC.get("engine", {}), "version": "0.99.0"}}
    scene.api.put(INFERENCE_SERVICES, a_stored_service("new", spec))
    async with scene.running() as world:
        service = next(service for service in world.services if service.key.name == "new")
        assert (service.problems, [warning.reason for warning in service.warnings]) == ((), ["EngineVersionUnknown"])
