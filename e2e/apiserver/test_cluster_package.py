"""The cluster package against a real API server: what the fake of the unit tests assumes, and what it cannot show."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from typing import Any

import pytest

from e2e.apiserver.cluster_scene import a_namespace, a_service, running, until
from e2e.harness import ControlPlane, eventually
from forebay.api.instants import unix_seconds
from forebay.cluster.client import kubernetes_client
from forebay.cluster.client.access import Access
from forebay.cluster.client.kube_api import (
    INFERENCE_SERVICES,
    LEASES,
    NODES,
    PODS,
    SERVICES,
    ApiError,
    Resource,
)
from forebay.cluster.client.kubernetes_client import KubernetesClient, connect
from forebay.cluster.client.lease import Leadership, LeaseTimes
from forebay.cluster.client.server_clock import ServerClock
from forebay.cluster.read.projections import KubernetesObject, PodObject, Reader, WatchEvent
from forebay.cluster.read.watch_cache import WatchCache, Watched

NAMESPACE = "cluster-package"


@pytest.fixture(scope="module")
def plane(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    with a_namespace(control_plane, NAMESPACE):
        yield control_plane


@pytest.fixture
async def api(plane: ControlPlane) -> AsyncIterator[KubernetesClient]:
    async with await connect(Access(str(plane.kubeconfig)), purpose="cluster-package") as client:
        yield client


def a_pod(name: str, **metadata: Any) -> dict[str, Any]:
    """A gated pod, so that the scheduler does not write to it during a test."""
    container = {"name": "engine", "image": "engine:1"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"of": "this-test"}, **metadata},
        "spec": {"containers": [container], "schedulingGates": [{"name": "forebay.dev/test"}]},
    }


def read(body: bytes) -> PodObject:
    return Reader(PodObject).one(body)


async def test_a_clock_an_hour_off_agrees_with_the_stamps_of_the_api_server(plane: ControlPlane):
    clock = ServerClock(wall=lambda: time.time() + 3600.0)
    async with await connect(Access(str(plane.kubeconfig)), purpose="cluster-package", server_clock=clock) as client:
        created = read(await client.create(PODS, NAMESPACE, a_pod("stamped")))
        created_at = unix_seconds(created.metadata.creation_timestamp or "")
        assert created_at is not None
        assert abs(clock.now() - created_at) <= 2.0
        await client.delete(PODS, NAMESPACE, "stamped", uid=created.metadata.uid)


# The client.


async def test_a_list_in_pages_shows_one_state(api, monkeypatch):
    monkeypatch.setattr(kubernetes_client, "PAGE", 2)
    for number in range(5):
        await api.create(PODS, NAMESPACE, a_pod(f"page-{number}", labels={"of": "pages"}))
    pages = await api.list(PODS, namespace=NAMESPACE, label_selector="of=pages")
    assert len(pages) == 3
    listed = [Reader(PodObject).listed([page]) for page in pages]
    assert [pod.metadata.name for each in listed for pod in each.items] == [f"page-{number}" for number in range(5)]
    assert len({each.resource_version for each in listed}) == 1


async def test_a_watch_continues_after_the_list(api):
    maps = Resource("api/v1", "configmaps", "ConfigMap")
    reader = Reader(KubernetesObject)
    version = reader.listed(await api.list(maps, namespace=NAMESPACE)).resource_version
    watch = api.watch(maps, resource_version=version, namespace=NAMESPACE, label_selector="of=this-test")
    body = {"metadata": {"name": "watched", "labels": {"of": "this-test"}}, "data": {"html": "<&>é"}}
    created = reader.one(await api.create(maps, NAMESPACE, body))
    line = await anext(watch)
    assert reader.event(line) == WatchEvent("ADDED", created)
    assert json.loads(line)["object"]["data"] == {"html": "<&>é"}
    await api.delete(maps, NAMESPACE, "watched", uid=created.metadata.uid)
    event = reader.event(await anext(watch))
    assert (event.type, event.object and event.object.metadata.uid) == ("DELETED", created.metadata.uid)
    await watch.aclose()


async def test_a_delete_requires_the_uid_that_was_read(api):
    pod = read(await api.create(PODS, NAMESPACE, a_pod("precious"))).metadata
    for uid, version in (("00000000-0000-0000-0000-000000000000", None), (pod.uid, "1")):
        with pytest.raises(ApiError) as raised:
            await api.delete(PODS, NAMESPACE, "precious", uid=uid, resource_version=version)
        assert (raised.value.status, raised.value.reason) == (409, "Conflict")
    await api.delete(PODS, NAMESPACE, "precious", uid=pod.uid, resource_version=pod.resource_version)
    with pytest.raises(ApiError) as raised:
        await api.get(PODS, NAMESPACE, "precious")
    assert (raised.value.status, raised.value.reason) == (404, "NotFound")


async def test_a_patch_requires_the_version_that_was_read(api):
    pod = read(await api.create(PODS, NAMESPACE, a_pod("patched"))).metadata
    with pytest.raises(ApiError) as raised:
        await api.patch(PODS, NAMESPACE, "patched", {"metadata": {"resourceVersion": "1", "labels": {"of": None}}})
    assert (raised.value.status, raised.value.reason) == (409, "Conflict")
    change = {"metadata": {"resourceVersion": pod.resource_version, "labels": {"of": None, "new": "1"}}}
    assert read(await api.patch(PODS, NAMESPACE, "patched", change)).metadata.labels == {"new": "1"}
    with pytest.raises(ApiError) as raised:
        await api.patch(PODS, NAMESPACE, "patched", {"metadata": {"uid": "00000000-0000-0000-0000-000000000000"}})
    assert (raised.value.status, raised.value.reason) == (422, "Invalid")


async def test_an_apply_creates_is_idempotent_and_reverts_manual_changes(api, plane):
    body = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "applied"},
        "spec": {"selector": {"app": "a"}, "ports": [{"name": "http", "port": 80, "protocol": "TCP"}]},
    }
    first = read(await api.apply(SERVICES, NAMESPACE, "applied", body)).metadata
    again = read(await api.apply(SERVICES, NAMESPACE, "applied", body)).metadata
    assert again.resource_version == first.resource_version
    plane.kubectl("patch", "service", "applied", "-n", NAMESPACE, "-p", '{"spec":{"selector":{"app":"by-hand"}}}')
    back = json.loads(await api.apply(SERVICES, NAMESPACE, "applied", body))
    assert back["spec"]["selector"] == {"app": "a"}
    managers = {entry["manager"]: entry["operation"] for entry in back["metadata"]["managedFields"]}
    assert managers["forebay"] == "Apply"
    stale = {**body, "metadata": {"name": "applied", "resourceVersion": "1"}}
    with pytest.raises(ApiError) as raised:
        await api.apply(SERVICES, NAMESPACE, "applied", stale)
    assert (raised.value.status, raised.value.reason) == (409, "Conflict")


async def test_a_refusal_has_the_message_of_the_server(api):
    with pytest.raises(ApiError) as raised:
        await api.create(PODS, NAMESPACE, a_pod("no_name"))
    assert (raised.value.status, raised.value.reason) == (422, "Invalid")
    assert "metadata.name" in raised.value.message
    with pytest.raises(ApiError) as raised:
        await api.create(PODS, "no-such-namespace", a_pod("a"))
    assert (raised.value.status, raised.value.reason) == (404, "NotFound")


async def test_a_wrong_token_is_unauthorized(plane, tmp_path):
    config = plane.kubectl.json("config", "view", "--raw", "--flatten")
    config["users"] = [{"name": config["users"][0]["name"], "user": {"token": "of-nobody"}}]
    path = tmp_path / "kubeconfig"
    path.write_text(json.dumps(config))
    async with await connect(Access(str(path))) as stranger:
        with pytest.raises(ApiError) as raised:
            await stranger.get(PODS, NAMESPACE, "a")
    assert (raised.value.status, raised.value.reason) == (401, "Unauthorized")


# The watch cache.


class FromThePast:
    """The real API, except that the first watch begins at an expired version."""

    def __init__(self, api: KubernetesClient) -> None:
        self._api = api
        self._sent_back = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._api, name)

    def watch(self, resource: Resource, *, resource_version: str, **named: Any) -> AsyncGenerator[bytes, None]:
        version, self._sent_back = (resource_version, True) if self._sent_back else ("1", True)
        return self._api.watch(resource, resource_version=version, **named)


async def test_an_expired_state_is_listed_again(plane, api):
    """The server's own history of a custom resource begins when its definition is made, long after version 1."""
    watched = Watched(INFERENCE_SERVICES, KubernetesObject, lambda found: found.metadata.name, namespace=NAMESPACE)
    cache = WatchCache(FromThePast(api), watched, wake=lambda _: None, jitter=lambda: 0.0)
    async with running(cache.run()):
        await until(lambda: cache.relists == 2, "the second list")
        a_service(plane, NAMESPACE, "after-the-past")
        await until(lambda: list(cache.views.values()) == ["after-the-past"], "the new watch tells")
    assert (cache.relists, cache.watch_failures) == (2, 0)
    plane.kubectl("delete", "infs", "after-the-past", "-n", NAMESPACE)


async def test_a_cache_outlives_an_outage(tmp_path):
    with ControlPlane.start(tmp_path / "plane") as plane:
        eventually(lambda: plane.kubectl.get("serviceaccount", "default", "default"), within=30, what="an account")
        async with await connect(Access(str(plane.kubeconfig))) as api:
            watched = Watched(PODS, PodObject, lambda pod: pod.metadata.name, "of=this-cache")
            cache = WatchCache(api, watched, wake=lambda _: None, jitter=lambda: 0.0)
            await api.create(PODS, "default", a_pod("kept", labels={"of": "this-cache"}))
            ghost = read(await api.create(PODS, "default", a_pod("ghost", labels={"of": "this-cache"}))).metadata
            async with running(cache.run()):
                await until(lambda: sorted(cache.views.values()) == ["ghost", "kept"], "the first list")
                plane.daemon("kube-apiserver").kill()
                await until(lambda: cache.watch_failures > 0, "the outage is noticed")
                assert sorted(cache.views.values()) == ["ghost", "kept"]
                await asyncio.to_thread(ControlPlane.start, plane.directory)
                await api.delete(PODS, "default", "ghost", uid=ghost.uid)
                await api.create(PODS, "default", a_pod("born-later", labels={"of": "this-cache"}))
                await until(lambda: sorted(cache.views.values()) == ["born-later", "kept"], "the view after it", 60.0)
                assert cache.age < 60.0


async def test_bookmarks_keep_a_quiet_watch_alive(plane, api):
    """The longest test here: the server sends a bookmark about once a minute.

    It sends none for a resource of which it has seen no event since it started, so there is one beforehand.
    """
    await asyncio.to_thread(plane.add_gpu_nodes, 1, product="QUIET", prefix="quiet")
    watch = api.watch(NODES, resource_version=json.loads((await api.list(NODES))[0])["metadata"]["resourceVersion"])
    begun = time.monotonic()
    async with asyncio.timeout(90.0):
        async for line in watch:
            if Reader(PodObject).event(line).type == "BOOKMARK":
                break
    assert time.monotonic() - begun < 90.0


# Leadership.


@pytest.mark.alone
async def test_two_operators_take_turns_by_the_lease(plane, api):
    times = LeaseTimes(duration_seconds=3.0, renew_deadline_seconds=2.0, retry_seconds=0.5)
    acquired = {name: threading.Event() for name in "abc"}
    lost: list[str] = []

    def candidate(name: str) -> Leadership:
        return Leadership(
            lambda: connect(Access(str(plane.kubeconfig)), purpose="cluster-package-lease"),
            namespace=NAMESPACE,
            name="turns",
            identity=name,
            on_acquired=acquired[name].set,
            on_lost=lost.append,
            times=times,
        )

    first, second, third = candidate("a"), candidate("b"), candidate("c")
    try:
        first.start()
        assert await asyncio.to_thread(acquired["a"].wait, 20.0)
        second.start()
        assert not await asyncio.to_thread(acquired["b"].wait, 4.0)
        assert (first.leading, second.leading) == (True, False)
        await asyncio.to_thread(first.stop)
        assert not first.leading
        assert await asyncio.to_thread(acquired["b"].wait, 20.0)
        lease = json.loads(await api.get(LEASES, NAMESPACE, "turns"))["spec"]
        assert (lease["holderIdentity"], lease["leaseTransitions"]) == ("b", 1)
        # Another holder takes the lease by force and never renews it.
        await api.patch(LEASES, NAMESPACE, "turns", {"spec": {"holderIdentity": "thief"}})
        await until(lambda: bool(lost), "the loss is told")
        assert not second.leading
        begun = time.monotonic()
        third.start()
        assert await asyncio.to_thread(acquired["c"].wait, 20.0)
        assert time.monotonic() - begun >= 3.0
        assert lost == ["another process holds the lease"]
    finally:
        for each in (first, second, third):
            await asyncio.to_thread(each.stop)
