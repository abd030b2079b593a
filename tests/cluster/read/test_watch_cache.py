"""The view follows the cluster through everything a watch can do wrong. All times are virtual."""

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
class Scene:
    """A cache of pods (uid → name and phase) on a server in memory."""

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
    """Let time pass on a healthy server that says every minute that nothing happened."""
    end = now() + seconds
    while now() < end:
        await asyncio.sleep(min(60.0, end - now()))
        api.bookmark()
        await a_moment()


@in_virtual_time
async def test_it_lists_then_follows():
    scene = Scene()
    scene.api.put(PODS, a_pod("a"))
    assert (scene.cache.synced, scene.cache.age) == (False, float("inf"))
    async with scene.running():
        assert (scene.pods, scene.cache.synced) == (["a Running"], True)
        scene.api.put(PODS, a_pod("b", "Pending"))
        scene.api.put(PODS, a_pod("a", "Failed"))
        await a_moment()
        assert scene.pods == ["a Failed", "b Pending"]
        scene.api.remove(PODS, "team", "a")
        await a_moment()
        assert scene.pods == ["b Pending"]
    assert (scene.lists(), scene.watches()) == (1, 1)


@in_virtual_time
async def test_an_object_that_leaves_the_selector_leaves_the_view():
    scene = Scene()
    scene.api.put(PODS, a_pod("a"))
    async with scene.running():
        scene.api.put(PODS, a_pod("a", labels={"app": "other"}))
        await a_moment()
        assert scene.pods == []


@in_virtual_time
async def test_a_list_of_many_pages_is_one_view():
    scene = Scene(FakeApi(page_size=2))
    for name in "abcde":
        scene.api.put(PODS, a_pod(name))
    async with scene.running():
        assert len(scene.pods) == 5


@in_virtual_time
async def test_only_news_wakes():
    scene = Scene()
    scene.api.put(PODS, a_pod("a"))
    async with scene.running():
        assert len(scene.woken_at) == 1
        scene.api.put(PODS, a_pod("a", annotations={"of": "no interest"}))
        scene.api.bookmark()
        await a_moment()
        assert len(scene.woken_at) == 1
        scene.api.put(PODS, a_pod("a", "Failed"))
        await a_moment()
        assert len(scene.woken_at) == 2
        await bookmarks(scene.api, 700.0)
        assert (scene.lists(), len(scene.woken_at)) == (2, 2)


@pytest.mark.parametrize("in_stream", [pytest.param(True, id="inside the stream"), pytest.param(False, id="as status")])
@in_virtual_time
async def test_an_expired_state_is_listed_again_and_ghosts_vanish(in_stream):
    scene = Scene()
    scene.api.put(PODS, a_pod("a"))
    scene.api.put(PODS, a_pod("ghost"))
    async with scene.running():
        scene.api.silence()
        scene.api.remove(PODS, "team", "ghost")
        scene.api.expire(in_stream=in_stream)
        if not in_stream:
            scene.api.end_watches()
        await asyncio.sleep(2.0)
        assert (scene.pods, scene.lists()) == (["a Running"], 2)


@in_virtual_time
async def test_a_server_that_expires_every_watch_is_not_stormed():
    scene = Scene()
    scene.api.compacted = 10**9
    async with scene.running():
        await asyncio.sleep(120.0)
    assert 4 <= scene.lists() <= 12
    assert scene.cache.age < 31.0


@in_virtual_time
async def test_a_silent_watch_is_given_up_after_90_s():
    scene = Scene()
    async with scene.running():
        await bookmarks(scene.api, 60.0)
        scene.api.silence()
        scene.api.put(PODS, a_pod("unheard"))
        await asyncio.sleep(89.0)
        assert scene.pods == []
        assert scene.cache.age == pytest.approx(89.0, abs=0.1)
        await asyncio.sleep(2.0)
        assert scene.pods == ["unheard Running"]
    assert (scene.lists(), scene.watches(), scene.cache.watch_failures) == (1, 2, 1)


@in_virtual_time
async def test_everything_is_listed_again_after_ten_minutes():
    scene = Scene()
    async with scene.running():
        scene.api.objects.clear()
        scene.api.version += 1
        scene.api.objects[("pods", "team", "missed")] = a_pod("missed", uid="u", resourceVersion="101")
        await bookmarks(scene.api, 629.0)
        assert scene.pods == []
        await bookmarks(scene.api, 2.0)
        assert (scene.pods, scene.lists()) == (["missed Running"], 2)


@in_virtual_time
async def test_a_broken_watch_resumes_where_it_was():
    scene = Scene()
    async with scene.running():
        scene.api.put(PODS, a_pod("a"))
        await a_moment()
        scene.api.end_watches(ApiError(0, "ServerDisconnectedError", "Server disconnected"))
        scene.api.silence()
        scene.api.put(PODS, a_pod("b"))
        await asyncio.sleep(1.0)
        assert scene.pods == ["a Running", "b Running"]
    assert (scene.lists(), [call.name for call in scene.api.calls if call.verb == "watch"]) == (1, ["100", "101"])


@in_virtual_time
@pytest.mark.parametrize("verb", ["list", "watch"])
async def test_a_cancellation_inside_the_client_breaks_the_watch_but_not_the_view(verb):
    scene, left = Scene(), 1

    def cancelled_once(call: FakeCall) -> None:
        nonlocal left
        if call.verb == verb and left:
            left -= 1
            raise asyncio.CancelledError

    scene.api.before = cancelled_once
    async with scene.running():
        await asyncio.sleep(1.0)
        scene.api.put(PODS, a_pod("a"))
        await a_moment()
        assert scene.pods == ["a Running"]
        assert scene.cache.watch_failures == 1


@in_virtual_time
async def test_a_cancellation_of_the_task_ends_the_watch():
    scene = Scene()
    task = asyncio.create_task(scene.cache.run())
    await a_moment()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert scene.cache.watch_failures == 0


@in_virtual_time
async def test_an_outage_is_met_with_patience_and_its_end_is_seen():
    scene = Scene()
    scene.api.put(PODS, a_pod("a"))

    def down(call: FakeCall) -> None:
        raise ApiError(0, "ClientConnectorError", "connection refused")

    async with scene.running():
        scene.api.before = down
        scene.api.end_watches()
        calls = len(scene.api.calls)
        await asyncio.sleep(300.0)
        attempts = len(scene.api.calls) - calls
        assert 10 <= attempts <= 25
        assert scene.pods == ["a Running"]
        assert scene.cache.age == pytest.approx(300.0, abs=1.0)
        scene.api.before = lambda call: None
        scene.api.put(PODS, a_pod("b"))
        await asyncio.sleep(31.0)
        assert scene.pods == ["a Running", "b Running"]
        assert scene.cache.age < 31.0


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
async def test_what_is_no_event_breaks_the_watch_but_not_the_view(line):
    scene = Scene()
    scene.api.put(PODS, a_pod("a"))
    async with scene.running():
        scene.api.say(line)
        await asyncio.sleep(1.0)
        scene.api.put(PODS, a_pod("b"))
        await a_moment()
        assert scene.pods == ["a Running", "b Running"]
    assert (scene.watches(), scene.cache.watch_failures) == (2, 1)


@in_virtual_time
async def test_an_object_that_cannot_be_read_is_named_and_costs_no_other():
    scene = Scene()
    scene.api.put(PODS, a_pod("good"))
    scene.api.put(PODS, a_pod("bad") | {"status": {"phase": ["not", "text"]}})
    async with scene.running():
        assert scene.pods == ["good Running"]
        assert [str(fault) for fault in scene.cache.unreadable] == [
            "team/bad cannot be read: status.phase: Input should be a valid string"
        ]
        scene.api.put(PODS, a_pod("bad"))
        await a_moment()
        assert scene.pods == ["bad Running", "good Running"]
        assert not scene.cache.unreadable
        scene.api.put(PODS, a_pod("bad") | {"status": {"phase": 7}})
        await a_moment()
        assert scene.pods == ["bad Running", "good Running"]
        assert len(scene.cache.unreadable) == 1
        await bookmarks(scene.api, 700.0)
        assert scene.lists() == 2
        assert scene.pods == ["bad Running", "good Running"]
        scene.api.remove(PODS, "team", "bad")
        await a_moment()
        assert scene.pods == ["good Running"]
        assert not scene.cache.unreadable


@in_virtual_time
async def test_our_own_failure_to_understand_one_object_costs_that_one():
    def view(pod: PodObject) -> str:
        if pod.status.phase == "Odd":
            raise LookupError("no such phase")
        return f"{pod.metadata.name} {pod.status.phase}"

    scene = Scene(view=view)
    scene.api.put(PODS, a_pod("odd", "Odd"))
    scene.api.put(PODS, a_pod("good"))
    async with scene.running():
        assert scene.pods == ["good Running"]
        assert [str(fault) for fault in scene.cache.unreadable] == [
            "team/odd cannot be read: LookupError('no such phase')"
        ]


@in_virtual_time
async def test_an_own_write_is_seen_before_the_watch_tells():
    scene = Scene()
    async with scene.running():
        scene.api.silence()
        scene.cache.fold(await scene.api.create(PODS, "team", a_pod("mine", "Pending")))
        assert scene.pods == ["mine Pending"]
        assert scene.woken_at == []


@in_virtual_time
async def test_an_own_write_that_was_overtaken_changes_nothing():
    scene = Scene()
    async with scene.running():
        answer = await scene.api.create(PODS, "team", a_pod("mine", "Pending"))
        scene.api.put(PODS, a_pod("mine", "Running"))
        await a_moment()
        scene.cache.fold(answer)
        assert scene.pods == ["mine Running"]
        scene.api.remove(PODS, "team", "mine")
        await a_moment()
        scene.cache.fold(answer)
        assert scene.pods == []


@in_virtual_time
async def test_an_own_write_survives_a_list_that_was_taken_before_it():
    scene = Scene(FakeApi(list_seconds=4.0))
    scene.api.put(PODS, a_pod("a"))
    async with scene.running():
        await asyncio.sleep(5.0)
        scene.api.silence()
        scene.api.expire()
        scene.api.end_watches()
        await asyncio.sleep(3.0)
        assert (scene.lists(), scene.cache.relists) == (2, 1)
        scene.cache.fold(await scene.api.create(PODS, "team", a_pod("mine")))
        await asyncio.sleep(3.0)
        assert (scene.lists(), scene.cache.relists) == (2, 2)
        assert scene.pods == ["a Running", "mine Running"]


@in_virtual_time
async def test_a_folded_ghost_vanishes_at_the_next_list():
    scene = Scene()
    async with scene.running():
        scene.api.silence()
        scene.cache.fold(await scene.api.create(PODS, "team", a_pod("mine")))
        scene.api.remove(PODS, "team", "mine")
        scene.api.expire()
        scene.api.end_watches()
        await asyncio.sleep(2.0)
        assert scene.pods == []


@pytest.mark.parametrize("graceful", [pytest.param(True, id="it ends in its own time"), pytest.param(False, id="gone")])
@in_virtual_time
async def test_an_own_delete_is_folded(graceful):
    scene = Scene(FakeApi(graceful=graceful), view=lambda pod: str(pod.metadata.deletion_timestamp is not None))
    uid = scene.api.put(PODS, a_pod("a"))["metadata"]["uid"]
    async with scene.running():
        scene.api.silence()
        scene.cache.fold_deleted(uid, await scene.api.delete(PODS, "team", "a", uid=uid))
        assert scene.pods == (["True"] if graceful else [])


@in_virtual_time
async def test_versions_that_are_no_numbers_are_taken_in_the_order_they_come():
    scene = Scene()
    async with scene.running():
        for version, phase in (("b7", "Pending"), ("a3", "Running")):
            scene.api.say({"type": "MODIFIED", "object": a_pod("a", phase, uid="u", resourceVersion=version)})
        await a_moment()
        assert scene.pods == ["a Running"]
