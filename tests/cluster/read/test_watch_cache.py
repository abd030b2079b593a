"""The cache follows the cluster through every failure of a watch. All times are virtual."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from forebay.cluster.client.kube_api import PODS, ApiError
from forebay.cluster.read.projections import PodObject
from forebay.cluster.read.watch_cache import WatchCache, Watched
from tests.cluster.fake_api import FakeApi, FakeCall
from tests.controller.virtual_time import in_virtual_time, now


def a_pod(name: str, phase: str = "Running", **metadata: Any) -> dict[str, Any]:
    return {
        "metadata": {"namespace": "team", "name": name, "labels": {"app": "engine"}, **metadata},
        "status": {"phase": phase},
    }


@dataclass
class CachedPods:
    """A cache of pods (uid → name and phase) on an API server in memory."""

    api: FakeApi = field(default_factory=FakeApi)
    woken_at: list[float] = field(default_factory=list)
    view: Callable[[PodObject], str] = lambda pod: f"{pod.metadata.name} {pod.status.phase}"

    def __post_init__(self) -> None:
        self.cache = WatchCache(
            self.api,
            Watched(PODS, PodObject, self.view, label_selector="app=engine"),
            wake=lambda _: self.woken_at.append(now()),
            jitter=lambda: 0.5,
            clock=now,
        )

    @property
    def pods(self) -> list[str]:
        return sorted(self.cache.views.values())

    def lists(self) -> int:
        return sum(call.verb == "list" for call in self.api.calls)

    def watches(self) -> int:
        return sum(call.verb == "watch" for call in self.api.calls)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.cache.run())
        try:
            await a_moment()
            yield
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


async def a_moment() -> None:
    await asyncio.sleep(0.001)


async def bookmarks(api: FakeApi, seconds: float) -> None:
    """Let time pass on a healthy API server that sends a bookmark every minute."""
    end = now() + seconds
    while now() < end:
        await asyncio.sleep(min(60.0, end - now()))
        api.bookmark()
        await a_moment()


@in_virtual_time
async def test_a_cache_lists_and_then_watches():
    cached = CachedPods()
    cached.api.put(PODS, a_pod("a"))
    assert (cached.cache.synced, cached.cache.age) == (False, float("inf"))
    async with cached.running():
        assert (cached.pods, cached.cache.synced) == (["a Running"], True)
        cached.api.put(PODS, a_pod("b", "Pending"))
        cached.api.put(PODS, a_pod("a", "Failed"))
        await a_moment()
        assert cached.pods == ["a Failed", "b Pending"]
        cached.api.remove(PODS, "team", "a")
        await a_moment()
        assert cached.pods == ["b Pending"]
    assert (cached.lists(), cached.watches()) == (1, 1)


@in_virtual_time
async def test_an_object_that_leaves_the_selector_leaves_the_view():
    cached = CachedPods()
    cached.api.put(PODS, a_pod("a"))
    async with cached.running():
        cached.api.put(PODS, a_pod("a", labels={"app": "other"}))
        await a_moment()
        assert cached.pods == []


@in_virtual_time
async def test_a_list_of_many_pages_is_one_view():
    cached = CachedPods(FakeApi(page_size=2))
    for name in "abcde":
        cached.api.put(PODS, a_pod(name))
    async with cached.running():
        assert len(cached.pods) == 5


@in_virtual_time
async def test_only_changes_wake_the_loop():
    cached = CachedPods()
    cached.api.put(PODS, a_pod("a"))
    async with cached.running():
        assert len(cached.woken_at) == 1
        cached.api.put(PODS, a_pod("a", annotations={"of": "no interest"}))
        cached.api.bookmark()
        await a_moment()
        assert len(cached.woken_at) == 1
        cached.api.put(PODS, a_pod("a", "Failed"))
        await a_moment()
        assert len(cached.woken_at) == 2
        await bookmarks(cached.api, 700.0)
        assert (cached.lists(), len(cached.woken_at)) == (2, 2)


@pytest.mark.parametrize("in_stream", [pytest.param(True, id="inside the stream"), pytest.param(False, id="as status")])
@in_virtual_time
async def test_an_expired_version_causes_a_list_that_drops_deleted_objects(in_stream):
    cached = CachedPods()
    cached.api.put(PODS, a_pod("a"))
    cached.api.put(PODS, a_pod("ghost"))
    async with cached.running():
        cached.api.silence()
        cached.api.remove(PODS, "team", "ghost")
        cached.api.expire(in_stream=in_stream)
        if not in_stream:
            cached.api.end_watches()
        await asyncio.sleep(2.0)
        assert (cached.pods, cached.lists()) == (["a Running"], 2)


@in_virtual_time
async def test_a_server_that_expires_every_watch_is_asked_with_backoff():
    cached = CachedPods()
    cached.api.compacted = 10**9
    async with cached.running():
        await asyncio.sleep(120.0)
    assert 4 <= cached.lists() <= 12
    assert cached.cache.age < 31.0


@in_virtual_time
async def test_a_silent_watch_is_abandoned_after_90_s():
    cached = CachedPods()
    async with cached.running():
        await bookmarks(cached.api, 60.0)
        cached.api.silence()
        cached.api.put(PODS, a_pod("unheard"))
        await asyncio.sleep(89.0)
        assert cached.pods == []
        assert cached.cache.age == pytest.approx(89.0, abs=0.1)
        await asyncio.sleep(2.0)
        assert cached.pods == ["unheard Running"]
    assert (cached.lists(), cached.watches(), cached.cache.watch_failures) == (1, 2, 1)


@in_virtual_time
async def test_everything_is_listed_again_after_ten_minutes():
    cached = CachedPods()
    async with cached.running():
        cached.api.objects.clear()
        cached.api.version += 1
        cached.api.objects[("pods", "team", "missed")] = a_pod("missed", uid="u", resourceVersion="101")
        await bookmarks(cached.api, 629.0)
        assert cached.pods == []
        await bookmarks(cached.api, 2.0)
        assert (cached.pods, cached.lists()) == (["missed Running"], 2)
        (before,) = cached.cache.views.values()
        await bookmarks(cached.api, 660.0)
        assert (next(iter(cached.cache.views.values())) is before, cached.lists()) == (True, 3)


@in_virtual_time
async def test_a_broken_watch_resumes_where_it_was():
    cached = CachedPods()
    async with cached.running():
        cached.api.put(PODS, a_pod("a"))
        await a_moment()
        cached.api.end_watches(ApiError(0, "ServerDisconnectedError", "Server disconnected"))
        cached.api.silence()
        cached.api.put(PODS, a_pod("b"))
        await asyncio.sleep(1.0)
        assert cached.pods == ["a Running", "b Running"]
    assert (cached.lists(), [call.name for call in cached.api.calls if call.verb == "watch"]) == (1, ["100", "101"])


@in_virtual_time
@pytest.mark.parametrize("verb", ["list", "watch"])
async def test_a_cancellation_inside_the_client_breaks_the_watch_but_not_the_view(verb):
    cached, left = CachedPods(), 1

    def cancelled_once(call: FakeCall) -> None:
        nonlocal left
        if call.verb == verb and left:
            left -= 1
            raise asyncio.CancelledError

    cached.api.before = cancelled_once
    async with cached.running():
        await asyncio.sleep(1.0)
        cached.api.put(PODS, a_pod("a"))
        await a_moment()
        assert cached.pods == ["a Running"]
        assert cached.cache.watch_failures == 1


@in_virtual_time
async def test_a_cancellation_of_the_task_ends_the_watch():
    cached = CachedPods()
    task = asyncio.create_task(cached.cache.run())
    await a_moment()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert cached.cache.watch_failures == 0


@in_virtual_time
async def test_an_outage_is_retried_with_backoff_until_it_ends():
    cached = CachedPods()
    cached.api.put(PODS, a_pod("a"))

    def down(call: FakeCall) -> None:
        raise ApiError(0, "ClientConnectorError", "connection refused")

    async with cached.running():
        cached.api.before = down
        cached.api.end_watches()
        calls = len(cached.api.calls)
        await asyncio.sleep(300.0)
        attempts = len(cached.api.calls) - calls
        assert 10 <= attempts <= 25
        assert cached.pods == ["a Running"]
        assert cached.cache.age == pytest.approx(300.0, abs=1.0)
        cached.api.before = lambda call: None
        cached.api.put(PODS, a_pod("b"))
        await asyncio.sleep(31.0)
        assert cached.pods == ["a Running", "b Running"]
        assert cached.cache.age < 31.0


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(b"<html>gateway timeout</html>", id="no JSON"),
        pytest.param(b'{"type":"MODIFIED","object":{"metadata":{"na', id="half a line"),
        pytest.param(b"[]", id="JSON, but no event"),
        pytest.param(b'{"type":"ERROR","object":{"code":500,"message":"etcdserver: leader changed"}}', id="an error"),
    ],
)
@in_virtual_time
async def test_an_invalid_event_breaks_the_watch_but_keeps_the_views(line):
    cached = CachedPods()
    cached.api.put(PODS, a_pod("a"))
    async with cached.running():
        cached.api.say(line)
        await asyncio.sleep(1.0)
        cached.api.put(PODS, a_pod("b"))
        await a_moment()
        assert cached.pods == ["a Running", "b Running"]
    assert (cached.watches(), cached.cache.watch_failures) == (2, 1)


@in_virtual_time
async def test_an_unreadable_object_is_named_and_the_others_are_kept():
    cached = CachedPods()
    cached.api.put(PODS, a_pod("good"))
    cached.api.put(PODS, a_pod("bad") | {"status": {"phase": ["not", "text"]}})
    async with cached.running():
        assert cached.pods == ["good Running"]
        assert [str(fault) for fault in cached.cache.unreadable] == [
            "team/bad cannot be read: status.phase: Input should be a valid string"
        ]
        cached.api.put(PODS, a_pod("bad"))
        await a_moment()
        assert cached.pods == ["bad Running", "good Running"]
        assert not cached.cache.unreadable
        cached.api.put(PODS, a_pod("bad") | {"status": {"phase": 7}})
        await a_moment()
        assert cached.pods == ["bad Running", "good Running"]
        assert len(cached.cache.unreadable) == 1
        await bookmarks(cached.api, 700.0)
        assert cached.lists() == 2
        assert cached.pods == ["bad Running", "good Running"]
        cached.api.remove(PODS, "team", "bad")
        await a_moment()
        assert cached.pods == ["good Running"]
        assert not cached.cache.unreadable


@in_virtual_time
async def test_an_internal_error_makes_only_that_object_unreadable():
    def view(pod: PodObject) -> str:
        if pod.status.phase == "Odd":
            raise LookupError("no such phase")
        return f"{pod.metadata.name} {pod.status.phase}"

    cached = CachedPods(view=view)
    cached.api.put(PODS, a_pod("odd", "Odd"))
    cached.api.put(PODS, a_pod("good"))
    async with cached.running():
        assert cached.pods == ["good Running"]
        assert [str(fault) for fault in cached.cache.unreadable] == [
            "team/odd cannot be read: LookupError('no such phase')"
        ]


@in_virtual_time
async def test_an_own_write_is_known_before_its_watch_event():
    cached = CachedPods()
    async with cached.running():
        cached.api.silence()
        cached.cache.store_answer(await cached.api.create(PODS, "team", a_pod("mine", "Pending")))
        assert cached.pods == ["mine Pending"]
        assert cached.woken_at == []


@in_virtual_time
async def test_an_outdated_answer_to_an_own_write_changes_nothing():
    cached = CachedPods()
    async with cached.running():
        answer = await cached.api.create(PODS, "team", a_pod("mine", "Pending"))
        cached.api.put(PODS, a_pod("mine", "Running"))
        await a_moment()
        cached.cache.store_answer(answer)
        assert cached.pods == ["mine Running"]
        cached.api.remove(PODS, "team", "mine")
        await a_moment()
        cached.cache.store_answer(answer)
        assert cached.pods == []


@in_virtual_time
async def test_an_own_write_survives_a_list_that_was_taken_before_it():
    cached = CachedPods(FakeApi(list_seconds=4.0))
    cached.api.put(PODS, a_pod("a"))
    async with cached.running():
        await asyncio.sleep(5.0)
        cached.api.silence()
        cached.api.expire()
        cached.api.end_watches()
        await asyncio.sleep(3.0)
        assert (cached.lists(), cached.cache.relists) == (2, 1)
        cached.cache.store_answer(await cached.api.create(PODS, "team", a_pod("mine")))
        await asyncio.sleep(3.0)
        assert (cached.lists(), cached.cache.relists) == (2, 2)
        assert cached.pods == ["a Running", "mine Running"]


@in_virtual_time
async def test_a_stored_answer_of_a_deleted_object_vanishes_at_the_next_list():
    cached = CachedPods()
    async with cached.running():
        cached.api.silence()
        cached.cache.store_answer(await cached.api.create(PODS, "team", a_pod("mine")))
        cached.api.remove(PODS, "team", "mine")
        cached.api.expire()
        cached.api.end_watches()
        await asyncio.sleep(2.0)
        assert cached.pods == []


@pytest.mark.parametrize("graceful", [pytest.param(True, id="it ends in its own time"), pytest.param(False, id="gone")])
@in_virtual_time
async def test_the_answer_to_an_own_delete_is_stored(graceful):
    cached = CachedPods(FakeApi(graceful=graceful), view=lambda pod: str(pod.metadata.deletion_timestamp is not None))
    uid = cached.api.put(PODS, a_pod("a"))["metadata"]["uid"]
    async with cached.running():
        cached.api.silence()
        cached.cache.store_deletion(uid, await cached.api.delete(PODS, "team", "a", uid=uid))
        assert cached.pods == (["True"] if graceful else [])


@in_virtual_time
async def test_versions_that_are_not_numbers_are_stored_in_arrival_order():
    cached = CachedPods()
    async with cached.running():
        for version, phase in (("b7", "Pending"), ("a3", "Running")):
            cached.api.say({"type": "MODIFIED", "object": a_pod("a", phase, uid="u", resourceVersion=version)})
        await a_moment()
        assert cached.pods == ["a Running"]
