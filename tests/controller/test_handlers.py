import asyncio
import io
import logging
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import kopf
import pytest
from kubernetes.aio.client import Configuration

from forebay.controller.handlers import KOPF_LOG_LEVELS, IntentTracker, build_registry, connection_info
from forebay.controller.service_watch import ServiceWatch
from forebay.runtime.log_format import LogFormat, LogLevel, configure
from tests.controller.scripted_server import ScriptedServer, a_service

WAKE_TIMEOUT_SECONDS = 10.0
"""A wake that takes longer counts as lost; the tests run the real kopf, on a thread."""


class Wakes:
    """Collects wakes from kopf's thread; the test waits for them on its own thread."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._arrived: asyncio.Queue[str] = asyncio.Queue()

    def wake(self, reason: str) -> None:
        self._loop.call_soon_threadsafe(self._arrived.put_nowait, reason)

    async def next(self) -> str:
        return await asyncio.wait_for(self._arrived.get(), WAKE_TIMEOUT_SECONDS)

    @property
    def unread(self) -> int:
        return self._arrived.qsize()


@asynccontextmanager
async def a_watch(
    server: ScriptedServer, wakes: Wakes, before_start: Callable[[], None] = lambda: None
) -> AsyncIterator[ServiceWatch]:
    """`before_start` runs in the task in which kopf then runs."""

    def registry() -> kopf.OperatorRegistry:
        before_start()
        return build_registry(server, wakes.wake)  # type: ignore[arg-type]

    watch = ServiceWatch(registry, None, restart_seconds=0.01)
    watch.start()
    try:
        yield watch
    finally:
        watch.stop()
        await asyncio.to_thread(watch.join, WAKE_TIMEOUT_SECONDS)
        assert not watch.alive


async def test_only_a_new_generation_wakes_the_loop_and_kopf_writes_nothing():
    wakes = Wakes()
    async with ScriptedServer() as server, a_watch(server, wakes) as watch:
        server.services = [a_service(1)]
        watch.allow_start()
        assert await wakes.next() == "service"
        server.stream("MODIFIED", {**a_service(1, version="2"), "status": {"replicas": {"ready": 1}}})
        server.stream("MODIFIED", a_service(2, version="3"))
        assert await wakes.next() == "service"
        assert wakes.unread == 0
        server.stream("DELETED", a_service(2, version="4"))
        assert await wakes.next() == "service"
    assert {method for method, _ in server.requests} == {"GET"}


async def test_a_failed_watch_restarts_after_a_successful_list():
    wakes = Wakes()
    async with ScriptedServer() as server, a_watch(server, wakes) as watch:
        server.services = [a_service(1)]
        watch.allow_start()
        await wakes.next()
        server.stream("ERROR", {"kind": "Status", "code": 500, "message": "etcd is unwell"})
        server.services = [a_service(2)]
        await asyncio.to_thread(watch.waiting_for_list.wait, WAKE_TIMEOUT_SECONDS)
        assert server.lists == 1
        watch.allow_start()
        assert await wakes.next() == "service"
        assert server.lists == 2


async def test_a_cancelled_watch_restarts_and_can_be_stopped():
    wakes, cancelled = Wakes(), threading.Event()

    def cancel_the_first() -> None:
        task = asyncio.current_task()
        if not cancelled.is_set() and task is not None:
            task.cancel()
            cancelled.set()

    async with ScriptedServer() as server, a_watch(server, wakes, cancel_the_first) as watch:
        server.services = [a_service(1)]
        watch.allow_start()
        assert await asyncio.to_thread(cancelled.wait, WAKE_TIMEOUT_SECONDS)
        assert await asyncio.to_thread(watch.waiting_for_list.wait, WAKE_TIMEOUT_SECONDS)
        assert watch.alive
        watch.allow_start()
        assert await wakes.next() == "service"


async def test_the_watch_waits_for_the_first_list_and_can_be_stopped():
    wakes = Wakes()
    async with ScriptedServer() as server, a_watch(server, wakes):
        pass
    assert server.requests == []


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"generation": 2}, id="a new spec"),
        pytest.param({"deletionTimestamp": "2026-01-01T00:00:00Z"}, id="a deletion"),
        pytest.param({"annotations": {"forebay.dev/restarted-at": "now"}}, id="a restart asked for"),
        pytest.param({"uid": "another"}, id="a namesake of a service that went unseen"),
    ],
)
def test_changes_that_wake_the_loop(change: dict[str, object]):
    intents = IntentTracker()
    metadata = {"namespace": "team-a", "name": "chat", "uid": "one", "generation": 1}
    assert intents.changed(None, metadata)
    assert intents.changed("MODIFIED", metadata | change)
    assert not intents.changed("MODIFIED", metadata | change)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"resourceVersion": "7"}, id="a status write"),
        pytest.param({"annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}"}}, id="a foreign note"),
        pytest.param({"managedFields": [{}]}, id="bookkeeping"),
    ],
)
def test_changes_that_do_not_wake_the_loop(change: dict[str, object]):
    intents = IntentTracker()
    metadata = {"namespace": "team-a", "name": "chat", "uid": "one", "generation": 1}
    intents.changed("ADDED", metadata)
    assert not intents.changed("MODIFIED", metadata | change)


def test_a_deletion_always_wakes():
    assert IntentTracker().changed("DELETED", {"namespace": "team-a", "name": "chat"})


def test_only_handlers_that_write_nothing_are_used():
    registry = build_registry(ScriptedServer(), lambda _: None)  # type: ignore[arg-type]
    assert [handler.id for handler in registry._watching.get_all_handlers()] == ["wake"]
    for marking in (registry._changing, registry._spawning, registry._indexing, registry._webhooks):
        assert list(marking.get_all_handlers()) == []


@pytest.mark.parametrize("token", ["abc", "Bearer abc"])
async def test_kopf_gets_the_token_however_the_client_keeps_it(token: str):
    configuration = Configuration(host="https://127.0.0.1:6443")
    configuration.api_key["BearerToken"] = token
    assert (await connection_info(configuration)).as_http_headers() == {"Authorization": "Bearer abc"}


async def test_kopf_gets_the_client_certificate():
    configuration = Configuration(host="https://127.0.0.1:6443")
    configuration.cert_file, configuration.key_file, configuration.ssl_ca_cert = "crt", "key", "ca"
    info = await connection_info(configuration)
    assert (info.certificate_path, info.private_key_path, info.ca_path) == ("crt", "key", "ca")
    assert info.as_http_headers() == {}


async def test_kopf_watches_without_a_user_name(monkeypatch: pytest.MonkeyPatch):
    """The image runs as a numeric user without an entry in the passwd file."""

    def nobody() -> str:
        raise KeyError("getpwuid(): uid not found: 65532")

    monkeypatch.setattr("getpass.getuser", nobody)
    wakes = Wakes()
    async with ScriptedServer() as server, a_watch(server, wakes) as watch:
        server.services = [a_service(1)]
        watch.allow_start()
        assert await wakes.next() == "service"


@pytest.fixture
def _root_logger_as_before():
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.mark.usefixtures("_root_logger_as_before")
def test_kopf_logs_warnings_but_no_line_per_event():
    stream = io.StringIO()
    configure(LogLevel.DEBUG, LogFormat.PLAIN, stream, library_levels=KOPF_LOG_LEVELS)
    logging.getLogger("kopf.objects").info("Handler 'wake' succeeded.")
    logging.getLogger("kopf.objects").warning("Handler 'wake' failed.")
    assert [line.split(" ", 2)[2] for line in stream.getvalue().splitlines()] == ["Handler 'wake' failed."]
