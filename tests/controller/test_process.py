import asyncio
import logging
import socket
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from forebay.controller.assembly import EXIT_LEASE_LOST
from forebay.controller.options import OperatorOptions, PortOptions
from forebay.controller.process import EXIT_ACCESS, STOP_SECONDS, _run_parts, run
from forebay.runtime.log_format import LogFormat
from forebay.runtime.shutdown import EXIT_BROKEN, EXIT_OK, Cause, Shutdown
from tests.controller.virtual_time import in_virtual_time, now

SCRAPER_SECONDS = 1.0
"""How long a stop waits for a scraper that does not end."""


@dataclass
class Parts:
    """Stands in for all parts of the operator, and records what happens to them in which order."""

    tick_seconds: float = 3.0
    """How long the running tick takes after it is told to stop."""
    events: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.observer = self.signal_source = self.loop = self.wake = self.leader = self.service_watch = self
        self._stopping = asyncio.Event()

    async def run(self) -> None:
        """The loop and the observer."""
        await self._stopping.wait()
        await asyncio.sleep(self.tick_seconds)
        self.events.append(f"tick finished at {now():g} s")

    async def scrape(self) -> None:
        await asyncio.Event().wait()

    def start(self) -> None:
        """The leader and the service watch."""

    def join(self, seconds: float) -> None:
        """The service watch."""


@dataclass
class Wake:
    parts: Parts

    def stop(self) -> None:
        self.parts._stopping.set()


@dataclass
class StopRecorder:
    """A part that only records its `stop`."""

    parts: Parts
    name: str

    def stop(self) -> None:
        self.parts.events.append(f"{self.name} stopped")

    def start(self) -> None:
        pass

    def join(self, seconds: float) -> None:
        pass


@dataclass
class Endless:
    error: BaseException | None = None

    async def run(self) -> None:
        await asyncio.sleep(1.0)
        if self.error is not None:
            raise self.error
        await asyncio.Event().wait()


def some_parts(tick_seconds: float = 3.0, observer_error: BaseException | None = None) -> Parts:
    parts = Parts(tick_seconds)
    parts.wake = Wake(parts)  # type: ignore[assignment]
    parts.observer = Endless(observer_error)  # type: ignore[assignment]
    for name in ("leader", "signal_source", "service_watch"):
        setattr(parts, name, StopRecorder(parts, name))
    return parts


def a_shutdown() -> Shutdown:
    return Shutdown(kill=lambda code: None, hard_stop_seconds=3600.0)


@in_virtual_time
async def test_a_graceful_stop_finishes_the_tick_before_it_releases_the_lease():
    parts, shutdown = some_parts(tick_seconds=3.0), a_shutdown()
    asyncio.get_running_loop().call_later(2.0, shutdown.end, EXIT_OK, "SIGTERM received")
    cause = await _run_parts(parts, shutdown)  # type: ignore[arg-type]
    assert cause == Cause(EXIT_OK, "SIGTERM received")
    assert parts.events == ["service_watch stopped", "tick finished at 5 s", "leader stopped", "signal_source stopped"]


@in_virtual_time
async def test_a_hanging_tick_does_not_prevent_the_release_of_the_lease():
    parts, shutdown = some_parts(tick_seconds=3600.0), a_shutdown()
    shutdown.end(EXIT_OK, "SIGTERM received")
    assert (await _run_parts(parts, shutdown)).code == EXIT_OK  # type: ignore[arg-type]
    assert now() == STOP_SECONDS + SCRAPER_SECONDS
    assert parts.events == ["service_watch stopped", "leader stopped", "signal_source stopped"]


@in_virtual_time
async def test_a_lost_lease_ends_the_process_without_further_writes():
    parts, shutdown = some_parts(), a_shutdown()
    asyncio.get_running_loop().call_later(2.0, shutdown.end, EXIT_LEASE_LOST, "the lease is lost")
    assert (await _run_parts(parts, shutdown)).code == EXIT_LEASE_LOST  # type: ignore[arg-type]
    assert now() == 2.0 + SCRAPER_SECONDS
    assert parts.events == ["service_watch stopped", "signal_source stopped"]


@in_virtual_time
async def test_a_failing_part_ends_the_process(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.ERROR)
    parts, shutdown = some_parts(observer_error=ValueError("a bug")), a_shutdown()
    assert await _run_parts(parts, shutdown) == Cause(EXIT_BROKEN, "the observer ended")  # type: ignore[arg-type]
    assert caplog.records[0].message == "the observer failed"


@in_virtual_time
async def test_a_part_cancelled_without_a_stop_ends_the_process():
    parts, shutdown = some_parts(observer_error=asyncio.CancelledError()), a_shutdown()
    async with asyncio.timeout(60.0):
        assert await _run_parts(parts, shutdown) == Cause(EXIT_BROKEN, "the observer ended")  # type: ignore[arg-type]


@pytest.fixture
def _root_logger_as_before():
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.mark.usefixtures("_root_logger_as_before")
def test_without_a_cluster_the_process_logs_it_and_ends(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    missing = tmp_path / "kubeconfig"
    options = OperatorOptions(kubeconfig=missing, ports=PortOptions(health=0, metrics=0), log_format=LogFormat.PLAIN)
    assert run(options) == EXIT_ACCESS
    assert f"There is no kubeconfig at {missing}" in capsys.readouterr().err


@pytest.mark.usefixtures("_root_logger_as_before")
def test_a_port_in_use_is_reported_with_its_flag(capsys: pytest.CaptureFixture[str]):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        options = OperatorOptions(ports=PortOptions("127.0.0.1", port, 0), log_format=LogFormat.PLAIN)
        assert run(options) == EXIT_ACCESS
    assert f"--health-port {port} is not available: " in capsys.readouterr().err
