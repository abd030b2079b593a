"""An observer and an applier on an API server in memory, and objects as the API server stores them."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from forebay.api import labels
from forebay.cluster.client.kube_api import INFERENCE_SERVICES, NODES, PODS, ApiError
from forebay.cluster.read.observer import Observer
from forebay.cluster.write.apply import Applier, ApplyOutcome
from forebay.workloads.objects.action_objects import with_objects
from forebay.workloads.objects.ownership import Owner, owner_reference
from forebay.workloads.objects.ranks import hostnames_of
from forebay.world.plan import Action, ApplyChildren, CreatePod, Plan, ServicePlan, in_order
from forebay.world.settings import Settings
from forebay.world.world import Revision, ServiceKey, World
from tests.builders.world import NOW
from tests.cluster.fake_api import FakeApi, FakeCall
from tests.controller.virtual_time import now

SPEC: Mapping[str, Any] = {"model": {"source": "hf://org/name"}, "scaling": {"minReplicas": 1, "maxReplicas": 2}}


def a_stored_service(name: str = "chat", spec: Mapping[str, Any] = SPEC, **metadata: Any) -> dict[str, Any]:
    return {
        "metadata": {"namespace": "team", "name": name, "uid": f"uid-{name}", "generation": 1, **metadata},
        "spec": dict(spec),
    }


def a_stored_node(name: str, **allocatable: str) -> dict[str, Any]:
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": f"host-of-{name}"}},
        "status": {"allocatable": allocatable or {"nvidia.com/gpu": "8"}, "conditions": [ready]},
    }


def a_stored_pod(name: str, owner: Owner | None, **metadata: Any) -> dict[str, Any]:
    ours = {labels.SERVICE: "chat", labels.SERVICE_UID: "uid-chat", labels.SERVING: "true", labels.REVISION: "r"}
    return {
        "metadata": {
            "namespace": "team",
            "name": name,
            "labels": ours,
            "ownerReferences": [owner_reference(owner)] if owner else [],
            **metadata,
        },
        "spec": {"containers": [{"name": "engine", "ports": [{"name": "http", "containerPort": 8000}]}]},
        "status": {"phase": "Running", "podIP": "10.0.0.7"},
    }


@dataclass
class ClusterInMemory:
    api: FakeApi = field(default_factory=FakeApi)
    leading: bool = True
    dry_run: bool = False
    at_once: int = 16
    woken: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.observer = Observer(
            self.api, settings=Settings(), wake=self.woken.append, monotonic=now, jitter=lambda: 0.5
        )
        self.applier = Applier(
            self.api,
            self.observer,
            is_leader=lambda: self.leading,
            dry_run=self.dry_run,
            at_once=self.at_once,
        )
        self.api.put(INFERENCE_SERVICES, a_stored_service())
        self.api.put(NODES, a_stored_node("n1"))

    owner = Owner(ServiceKey("team", "chat"), "uid-chat")

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[World]:
        """Fill the caches; gives the World at that time."""
        task = asyncio.create_task(self.observer.run())
        try:
            await asyncio.sleep(0.001)
            yield await self.world()
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def world(self) -> World:
        return await self.observer.observe({}, NOW + now())

    async def apply(self, world: World, *actions: Action, uid: str = "uid-chat") -> ApplyOutcome:
        """Carry out these actions for the service `chat`."""
        self.api.calls.clear()
        return await self.applier.apply(Plan((a_plan(world, *actions, uid=uid),)), NOW + now())

    def written(self) -> list[str]:
        """The writes since the last `apply` began, in order."""
        reads = ("list", "watch", "get")
        return [f"{call.verb} {call.plural} {call.name}" for call in self.api.calls if call.verb not in reads]

    def pod(self, name: str) -> dict[str, Any]:
        stored = self.api.find(PODS, "team", name)
        assert stored is not None
        return stored


def a_plan(world: World, *actions: Action, uid: str = "uid-chat", name: str = "chat") -> ServicePlan:
    """The actions as the planner would list them: in order, and with the objects that they write."""
    status = next(service.status for service in world.services if service.key.name == name)
    key = ServiceKey("team", name)
    finished = with_objects(in_order(actions), Owner(key, uid), hostnames_of(world.nodes), NOW + now())
    return ServicePlan(key, uid, finished, status)


def children(world: World, *kinds: str, name: str = "chat") -> ApplyChildren:
    """Writes the service's own objects, all of them or those of these kinds."""
    service = next(service for service in world.services if service.key.name == name)
    bodies = (child.body for child in service.children if child.kind in kinds or not kinds)
    return ApplyChildren(kinds, tuple(body for body in bodies if body is not None))


def wanted(world: World, name: str = "chat") -> Revision:
    revision = next(service.wanted for service in world.services if service.key.name == name)
    assert revision is not None
    return revision


def create(world: World, name: str = "chat-0", **fields: Any) -> CreatePod:
    return CreatePod(replace(wanted(world), number=1), 0, 0, name, **fields)


def fails(verb: str, plural: str, error: ApiError) -> Callable[[FakeCall], None]:
    """A `FakeApi.before` that raises the error for these calls."""

    def before(call: FakeCall) -> None:
        if (call.verb, call.plural) == (verb, plural):
            raise error

    return before
