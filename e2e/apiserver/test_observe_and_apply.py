"""From a World to calls and back on a real API server: actions, refusals, status, events, and the verbs it takes."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from typing import Any

import pytest

from e2e.apiserver.cluster_scene import a_namespace, a_service, running, until
from e2e.harness import ControlPlane, eventually
from forebay.api import labels
from forebay.api.inference_service import InferenceServiceStatus
from forebay.api.reasons import Reason
from forebay.cluster.client.access import Access
from forebay.cluster.client.kubernetes_client import KubernetesClient, connect
from forebay.cluster.read.observer import Observer
from forebay.cluster.write.apply import Applier, ApplyOutcome
from forebay.cluster.write.event_recorder import EventRecorder
from forebay.cluster.write.status_writer import StatusWriter
from forebay.planner.memory import State
from forebay.planner.planner import plan
from forebay.workloads.objects.action_objects import with_objects
from forebay.workloads.objects.ownership import Owner
from forebay.workloads.objects.ranks import hostnames_of
from forebay.world.plan import (
    AdoptPod,
    ApplyChildren,
    CancelDrain,
    CreatePod,
    DeletePod,
    DeleteRevision,
    EventRecord,
    Plan,
    ServicePlan,
    StartDrain,
    StoreRevision,
    in_order,
)
from forebay.world.settings import Settings
from forebay.world.world import PodView, ServiceKey, ServiceView, World

NAMESPACE = "observe-and-apply"
VERBS = {
    "inferenceservices": {"list", "watch"},
    "performanceprofiles": {"list"},
    "inferenceservices/status": {"patch"},
    "pods": {"list", "watch", "get", "create", "patch", "delete"},
    "nodes": {"list", "watch"},
    "resourcequotas": {"list", "watch"},
    "services": {"list", "watch", "get", "create", "patch"},
    "poddisruptionbudgets": {"list", "watch", "get", "create", "patch"},
    "controllerrevisions": {"list", "watch", "get", "create", "patch", "delete"},
    "events": {"create"},
}
"""What the package may ask of an API server, its lease aside. A second operator's lease needs get, create and patch."""


@pytest.fixture(scope="module")
def plane(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    with a_namespace(control_plane, NAMESPACE):
        yield control_plane


class Operator:
    """Observer, applier, status and events on one client, ticked by hand."""

    def __init__(self, api: KubernetesClient) -> None:
        self.observer = Observer(api, settings=Settings(), namespace=NAMESPACE)
        self.applier = Applier(api, self.observer, is_leader=lambda: True)
        self.status = StatusWriter(api, self.observer, is_leader=lambda: True)
        self.events = EventRecorder(api, instance="test")
        self.state = State.empty(time.time())

    async def world(self) -> World:
        return await self.observer.observe({}, time.time())

    async def tick(self) -> tuple[Plan, ApplyOutcome, ApplyOutcome]:
        now = time.time()
        world = await self.world()
        done, self.state = plan(world, self.state, now)
        applied = await self.applier.apply(done, now)
        written = await self.status.write(done, world, now)
        await self.events.record(done, now)
        return done, applied, written

    async def apply(self, world: World, name: str, *actions: Any) -> ApplyOutcome:
        service = next(service for service in world.services if service.key.name == name)
        hostnames = hostnames_of(world.nodes)
        finished = with_objects(in_order(actions), Owner(service.key, service.uid), hostnames, time.time())
        share = ServicePlan(service.key, service.uid, finished, service.status)
        return await self.applier.apply(Plan((share,)), time.time())


def children(world: World, name: str, *kinds: str) -> ApplyChildren:
    """Writes the service's own objects, all of them or those of these kinds."""
    bodies = (child.body for child in service_of(world, name).children if child.kind in kinds or not kinds)
    return ApplyChildren(kinds, tuple(body for body in bodies if body is not None))


@pytest.fixture
async def operator(plane: ControlPlane) -> AsyncIterator[Operator]:
    async with await connect(Access(str(plane.kubeconfig)), purpose="observe-and-apply") as api:
        made = Operator(api)
        async with running(made.observer.run()):
            await until(lambda: made.observer.synced, "the caches are filled")
            yield made


def service_of(world: World, name: str) -> ServiceView:
    return next(service for service in world.services if service.key.name == name)


def create(world: World, name: str, pod_name: str) -> CreatePod:
    revision = service_of(world, name).wanted
    assert revision is not None
    return CreatePod(replace(revision, number=1), 0, 0, pod_name)


async def pods_of(operator: Operator, name: str) -> list[PodView]:
    return [pod for pod in (await operator.world()).pods if pod.key.name == name]


async def test_applying_a_plan_leaves_nothing_to_plan(plane, operator):
    """Two hundred ticks later the service is the same to the byte: no write, no new version."""
    plane.add_gpu_nodes(1, prefix="observe-and-apply")
    a_service(plane, NAMESPACE, "settles", replicas=3)
    quiet = 0
    deadline = time.monotonic() + 120.0
    while quiet < 3:
        done, applied, written = await operator.tick()
        assert (applied.failures, written.failures, done.held) == ((), (), None)
        share = next(share for share in done.services if share.key.name == "settles")
        quiet = quiet + 1 if share.status.replicas.ready == 3 and not applied.calls and not written.calls else 0
        assert time.monotonic() < deadline, share
        await asyncio.sleep(0.5)
    before = plane.kubectl.get("infs", "settles", NAMESPACE)
    for _ in range(200):
        done, applied, written = await operator.tick()
        assert [action for share in done.services for action in share.actions] == []
        assert (applied.calls, written.calls) == ({}, {})
    assert plane.kubectl.get("infs", "settles", NAMESPACE) == before
    plane.kubectl("delete", "infs", "settles", "-n", NAMESPACE)


async def test_each_action_is_written_and_known_at_once(plane, operator):
    uid = a_service(
        plane,
        NAMESPACE,
        "acts",
        gpu={"product": "none-of-this-kind"},
        engine={"env": [{"name": "ODD", "value": '<&> "é"'}]},
    )
    world = await operator.world()
    revision = service_of(world, "acts").wanted
    assert revision is not None
    actions = StoreRevision(replace(revision, number=1)), children(world, "acts"), create(world, "acts", "acts-0")
    assert (await operator.apply(world, "acts", *actions)).failures == ()
    world = await operator.world()
    assert {child for child in world.children if child.name == "acts"} == set(service_of(world, "acts").children)
    assert [stored.hash for stored in world.revisions[uid]] == [revision.hash]
    assert [pod.name for pod in world.pods if pod.key.name == "acts"] == ["acts-0"]

    plane.kubectl("patch", "pdb", "acts", "-n", NAMESPACE, "--type=merge", "-p", '{"spec":{"minAvailable":0}}')
    plane.kubectl(
        "patch", "service", "acts", "-n", NAMESPACE, "--type=merge", "-p", '{"spec":{"selector":{"app":"x"}}}'
    )
    assert (await operator.apply(world, "acts", children(world, "acts"))).failures == ()
    world = await operator.world()
    assert {child for child in world.children if child.name == "acts"} == set(service_of(world, "acts").children)

    async def unschedulable() -> PodView:
        """The pod once the scheduler has said its word, after which nobody but us writes to it."""
        deadline = time.monotonic() + 30.0
        while (pod := (await pods_of(operator, "acts"))[0]).blocked is None:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.02)
        return pod

    pod = await unschedulable()
    assert (pod.owner_uid, pod.serving, pod.blocked, pod.gpus) == (uid, True, "Unschedulable", 1)
    drain = StartDrain(pod.name, pod.uid, pod.resource_version, "surplus")
    outcome = await operator.apply(world, "acts", drain)
    assert (outcome.failures, outcome.races) == ((), 0)
    (draining,) = await pods_of(operator, "acts")
    assert (draining.serving, draining.drain_reason) == (False, "surplus")
    assert draining.drain_started_at == pytest.approx(time.time(), abs=30.0)
    assert plane.kubectl.list("pods", NAMESPACE, f"{labels.SERVING}=true,{labels.SERVICE}=acts") == []
    assert (await operator.apply(world, "acts", drain)).races == 1

    cancel = CancelDrain(draining.name, draining.uid, draining.resource_version)
    assert (await operator.apply(world, "acts", cancel)).failures == ()
    (serving,) = await pods_of(operator, "acts")
    assert (serving.serving, serving.drain_started_at) == (True, None)

    no_owner = '{"metadata":{"ownerReferences":null}}'
    plane.kubectl("patch", "pod", "acts-0", "-n", NAMESPACE, "--type=merge", "-p", no_owner)
    deadline = time.monotonic() + 30.0
    while (orphan := (await pods_of(operator, "acts"))[0]).owner_uid is not None:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.02)
    adopt = AdoptPod(orphan.name, orphan.uid, orphan.resource_version, "not needed")
    assert (await operator.apply(world, "acts", adopt)).failures == ()
    (adopted,) = await pods_of(operator, "acts")
    assert (adopted.owner_uid, adopted.serving, adopted.drain_reason) == (uid, False, "not needed")

    delete = DeletePod(adopted.name, adopted.uid, adopted.resource_version, "drained")
    stored = world.revisions[uid][0]
    again = StoreRevision(replace(stored, number=2))
    outcome = await operator.apply(world, "acts", delete, again, DeleteRevision(stored.name))
    assert (outcome.failures, outcome.races) == ((), 0)
    assert (await operator.world()).revisions.get(uid, ()) == ()
    plane.kubectl("delete", "infs", "acts", "-n", NAMESPACE)


async def test_a_create_with_a_lost_answer_is_recognised_and_a_terminating_name_is_not_reused(plane, operator):
    a_service(plane, NAMESPACE, "repeats", gpu={"product": "none-of-this-kind"})
    world = await operator.world()
    action = create(world, "repeats", "repeats-0")
    assert (await operator.apply(world, "repeats", action)).failures == ()
    assert (await operator.apply(world, "repeats", action)).failures == ()
    held, free = '{"metadata":{"finalizers":["forebay.dev/test"]}}', '{"metadata":{"finalizers":null}}'
    plane.kubectl("patch", "pod", "repeats-0", "-n", NAMESPACE, "--type=merge", "-p", held)
    plane.kubectl("delete", "pod", "repeats-0", "-n", NAMESPACE, "--wait=false")
    outcome = await operator.apply(world, "repeats", action)
    assert [failure.error.reason for failure in outcome.failures] == ["Terminating"]
    plane.kubectl("patch", "pod", "repeats-0", "-n", NAMESPACE, "--type=merge", "-p", free)
    plane.kubectl("delete", "infs", "repeats", "-n", NAMESPACE)


async def test_a_quota_becomes_a_refusal_that_names_it(plane, operator):
    a_service(plane, NAMESPACE, "bounded", gpu={"product": "none-of-this-kind"})
    quota = {"hard": {"requests.nvidia.com/gpu": "0"}}
    plane.kubectl.apply(
        {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "gpus", "namespace": NAMESPACE},
            "spec": quota,
        }
    )
    eventually(
        lambda: plane.kubectl.get("resourcequota", "gpus", NAMESPACE),
        lambda found: found and found.get("status", {}).get("hard"),
        within=30,
        what="the quota counts",
    )
    world = await operator.world()
    outcome = await operator.apply(world, "bounded", create(world, "bounded", "bounded-0"))
    assert [failure.error.status for failure in outcome.failures] == [403]
    (refusal,) = (await operator.world()).refusals
    assert (refusal.reason, refusal.pod_name) == ("QuotaExceeded", "bounded-0")
    assert "exceeded quota: gpus" in refusal.message
    plane.kubectl("delete", "resourcequota", "gpus", "-n", NAMESPACE)
    plane.kubectl("delete", "infs", "bounded", "-n", NAMESPACE)


async def test_a_service_of_another_owner_is_left_alone(plane, operator):
    theirs = {"selector": {"app": "web"}, "ports": [{"port": 80}]}
    plane.kubectl.apply(
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "claimed", "namespace": NAMESPACE}, "spec": theirs}
    )
    before = plane.kubectl.get("service", "claimed", NAMESPACE)
    a_service(plane, NAMESPACE, "claimed")
    world = await operator.world()
    outcome = await operator.apply(world, "claimed", children(world, "claimed", "Service"))
    assert [failure.error.reason for failure in outcome.failures] == ["NameTaken"]
    assert plane.kubectl.get("service", "claimed", NAMESPACE) == before
    assert ("Service", None) in [(child.kind, child.owner_uid) for child in (await operator.world()).children]
    plane.kubectl("delete", "infs,service", "claimed", "-n", NAMESPACE)


async def test_no_status_is_written_to_a_recreated_service(plane, operator):
    a_service(plane, NAMESPACE, "renewed")
    now = time.time()
    world = await operator.world()
    done, _ = plan(world, State.empty(now), now)
    plane.kubectl("delete", "infs", "renewed", "-n", NAMESPACE)
    a_service(plane, NAMESPACE, "renewed")
    share = next(share for share in done.services if share.key.name == "renewed")
    outcome = await operator.status.write(Plan((share,)), world, now)
    assert (outcome.failures, outcome.races) == ((), 1)
    found = plane.kubectl.get("infs", "renewed", NAMESPACE)
    assert found is not None
    assert "status" not in found
    plane.kubectl("delete", "infs", "renewed", "-n", NAMESPACE)


async def test_events_are_shown_by_describe(plane, operator):
    uid = a_service(plane, NAMESPACE, "told")
    said = EventRecord("Warning", Reason.QUOTA_EXCEEDED, "chat-0 was refused: exceeded quota: gpus")
    share = ServicePlan(ServiceKey(NAMESPACE, "told"), uid, (), InferenceServiceStatus(), (said,))
    await operator.events.record(Plan((share,)), time.time())
    assert (operator.events.recorded, operator.events.failed) == (1, 0)
    described = plane.kubectl("describe", "infs", "told", "-n", NAMESPACE)
    assert "QuotaExceeded" in described
    assert said.message in described
    plane.kubectl("delete", "infs", "told", "-n", NAMESPACE)


def test_exactly_these_verbs_were_used(plane):
    """By everything above that runs as the operator does; the cluster's role must grant these and no others."""
    used: dict[str, set[str]] = {}
    for line in plane.audit_log.read_text().splitlines():
        entry = json.loads(line)
        if entry.get("userAgent", "").startswith("forebay-observe-and-apply/"):
            about = entry["objectRef"]
            name = "/".join(filter(None, (about["resource"], about.get("subresource"))))
            used.setdefault(name, set()).add(entry["verb"])
    assert used == VERBS
