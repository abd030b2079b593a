"""A large fleet is scraped by processes of the operator's own. They are real here, and scrape a real server."""

import asyncio
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import pytest
import pytest_asyncio

from forebay.controller import scrape_worker
from forebay.runtime.log_format import LogFormat, LogLevel
from forebay.scaling.load.signals import PodSignals
from forebay.telemetry.direct import fleet_scraper, worker_process
from forebay.telemetry.direct.fleet_scraper import FleetScraper
from forebay.telemetry.direct.scrape_workers import AIM_SECONDS, ScrapeWorkers, WorkerOptions, shards, workers_for
from forebay.telemetry.direct.scraper import ScrapeSettings
from forebay.telemetry.direct.worker_pipe import Targets, frame, read_message
from forebay.telemetry.scrape_failure import ScrapeFailure
from forebay.telemetry.scrape_statistics import ScrapeTally, together
from forebay.telemetry.signal_source import Clock, ScrapeTarget
from tests.builders.world import a_sample
from tests.telemetry.engine_server import EngineServer, an_engine_server

WORKER = scrape_worker.command(LogLevel.INFO, LogFormat.PLAIN)
AN_HOUR = 3600.0
LIMIT_SECONDS = 30.0
"""The time-out of one awaited step; it passes only when a test fails."""


@pytest_asyncio.fixture
async def server() -> AsyncIterator[EngineServer]:
    async with an_engine_server() as engines:
        yield engines


def a_target(pod: str, port: int = 0, service: str = "chat") -> ScrapeTarget:
    return ScrapeTarget(f"uid-{pod}", "default", pod, "127.0.0.1", port, "0.32.0", service=service)


@dataclass
class Source:
    """A running source, and its news."""

    scraper: Any
    targets: list[ScrapeTarget]
    news: asyncio.Event = field(default_factory=asyncio.Event)

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(LIMIT_SECONDS):
            while not holds():
                self.news.clear()
                await self.news.wait()

    def pod(self, name: str) -> PodSignals:
        signals: Mapping[str, PodSignals] = self.scraper.signals()
        return signals.get(f"uid-{name}", PodSignals(sample=None))

    def read(self, name: str) -> bool:
        return self.pod(name).sample is not None


def some_workers(
    *,
    command: tuple[str, ...] = WORKER,
    clock: Clock | None = None,
    signals: dict[str, PodSignals] | None = None,
    interval_seconds: float = 5.0,
) -> ScrapeWorkers:
    return ScrapeWorkers(
        "http://{ip}:{port}/{namespace}/{pod}",
        WorkerOptions(command, 4),
        settings=ScrapeSettings(timeout_seconds=30.0, interval_seconds=interval_seconds),
        clock=clock or Clock(),
        signals=signals or {},
        statistics=ScrapeTally(5.0).snapshot(),
    )


@asynccontextmanager
async def running(scraper: Any, targets: Sequence[ScrapeTarget]) -> AsyncIterator[Source]:
    source = Source(scraper, list(targets))
    work = asyncio.create_task(scraper.run(lambda: source.targets, source.news.set))
    try:
        yield source
        scraper.stop()
        await asyncio.wait_for(work, LIMIT_SECONDS)
    finally:
        work.cancel()
        with suppress(asyncio.CancelledError):
            await work


async def test_a_worker_reads_pods_and_the_operator_dates_their_samples(server):
    ahead = Clock(now=lambda: time.time() + AN_HOUR)
    targets = [a_target("engine-0", server.port), a_target("broken-0", server.port)]
    began = time.time()
    async with running(some_workers(clock=ahead), targets) as source:
        await source.until(lambda: source.read("engine-0") and source.pod("broken-0").error is not None)
        sample, error = source.pod("engine-0").sample, source.pod("broken-0").error
        assert sample is not None
        assert sample.running_requests == 4.0
        assert began <= sample.taken_at - AN_HOUR <= time.time()
        assert error == f"http://127.0.0.1:{server.port}/default/broken-0: answered HTTP 500 Internal Server Error"
        statistics = source.scraper.statistics()
        assert (statistics.scrapes, statistics.failures[ScrapeFailure.STATUS]) == (2, 1)
        assert (statistics.workers, statistics.interval_seconds) == (1, 5.0)


async def test_a_pod_without_news_keeps_its_very_signals(server):
    targets = [a_target("engine-0", server.port), a_target("slow-0", server.port)]
    async with running(some_workers(interval_seconds=600.0), targets) as source:
        await source.until(lambda: source.read("engine-0"))
        first = source.pod("engine-0")
        server.release.set()
        await source.until(lambda: source.read("slow-0"))
        assert source.pod("engine-0") is first


async def test_a_pod_that_is_gone_is_forgotten(server):
    targets = [a_target("engine-0", server.port), a_target("engine-1", server.port)]
    async with running(some_workers(), targets) as source:
        await source.until(lambda: source.read("engine-0") and source.read("engine-1"))
        del source.targets[1]
        await source.until(lambda: "uid-engine-1" not in source.scraper.signals())
        assert source.read("engine-0")


async def test_a_worker_that_dies_is_replaced_and_its_pods_keep_their_samples_meanwhile(server):
    async with running(some_workers(), [a_target("engine-0", server.port)]) as source:
        await source.until(lambda: source.read("engine-0"))
        before = source.pod("engine-0")
        (pid,) = source.scraper.pids
        os.kill(pid, signal.SIGKILL)
        await source.until(lambda: source.pod("engine-0").error is not None)
        assert source.pod("engine-0").sample == before.sample
        assert source.pod("engine-0").error == (
            "the operator's process that scrapes this pod ended with status -9; it is started again"
        )
        await source.until(lambda: source.pod("engine-0").error is None)
        assert source.scraper.pids != (pid,)
        statistics = source.scraper.statistics()
        assert (statistics.scrapes, statistics.worker_ends) == (2, 1)


async def test_a_sample_that_another_process_read_outlives_failures_of_the_next_one(server):
    known = PodSignals(a_sample(at=1000.0))
    scraper = some_workers(signals={"uid-broken-0": known})
    async with running(scraper, [a_target("broken-0", server.port)]) as source:
        await source.until(lambda: source.pod("broken-0").error is not None)
        assert source.pod("broken-0").sample == known.sample


async def test_signals_are_forgotten_when_their_times_mean_nothing_any_more(server):
    async with running(some_workers(), [a_target("engine-0", server.port)]) as source:
        await source.until(lambda: source.read("engine-0"))
        source.scraper.forget()
        assert source.scraper.signals() == {}


class Pauses:
    """A clock whose sleeps take no time and are remembered, up to the last one, which lasts."""

    def __init__(self, most: int) -> None:
        self.seconds: list[float] = []
        self.done = asyncio.Event()
        self._most = most

    async def sleep(self, seconds: float) -> None:
        if seconds == AIM_SECONDS:
            await asyncio.Event().wait()
        self.seconds.append(seconds)
        if len(self.seconds) >= self._most:
            self.done.set()
            await asyncio.Event().wait()


@pytest.mark.parametrize(
    ("command", "why"),
    [
        pytest.param((sys.executable, "-c", "raise SystemExit(3)"), "ended with status 3", id="it ends at once"),
        pytest.param(("/no/such/program",), "could not be started", id="it cannot be started"),
        pytest.param((sys.executable, "-c", "import signal; signal.pause()"), "said nothing for 0.2 s", id="it hangs"),
    ],
)
async def test_a_worker_that_ends_again_and_again_is_started_ever_less_often(command, why, monkeypatch):
    monkeypatch.setattr(worker_process, "SILENT_SECONDS", 0.2)
    pauses = Pauses(most=4)
    scraper = some_workers(command=command, clock=Clock(sleep=pauses.sleep))
    async with running(scraper, [a_target("engine-0")]) as source:
        await asyncio.wait_for(pauses.done.wait(), LIMIT_SECONDS)
        assert pauses.seconds == [1.0, 2.0, 4.0, 8.0]
        assert why in (source.pod("engine-0").error or "")
        assert source.scraper.statistics().worker_ends == 4


async def test_no_process_is_left_after_a_stop(server):
    async with running(some_workers(), [a_target("engine-0", server.port)]) as source:
        await source.until(lambda: source.read("engine-0"))
        pids = source.scraper.pids
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_a_worker_ends_with_its_operator_however_that_ends():
    script = (
        "import signal, subprocess\n"
        f"worker = subprocess.Popen({WORKER!r}, stdin=subprocess.PIPE, stdout=subprocess.PIPE)\n"
        "print(worker.pid, flush=True)\n"
        "signal.pause()\n"
    )
    operator = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert operator.stdout is not None
    worker = int(operator.stdout.readline())
    watched = os.pidfd_open(worker)
    operator.kill()
    operator.wait()
    with os.fdopen(watched):
        assert select.select([watched], [], [], LIMIT_SECONDS)[0], "the worker still runs"


async def test_the_operator_scrapes_itself_until_the_fleet_outgrows_it(server, monkeypatch):
    monkeypatch.setattr(fleet_scraper, "MOST_PODS_ALONE", 2)
    scraper = FleetScraper(
        "http://{ip}:{port}/{namespace}/{pod}",
        WorkerOptions(WORKER, 4),
        settings=ScrapeSettings(timeout_seconds=30.0),
        clock=Clock(),
    )
    async with running(scraper, [a_target(f"engine-{number}", server.port) for number in range(2)]) as source:
        await source.until(lambda: source.read("engine-0") and source.read("engine-1"))
        assert source.scraper.statistics().workers == 0
        source.targets += [a_target("engine-2", server.port)]
        await source.until(lambda: source.read("engine-2"))
        assert source.read("engine-0")
        statistics = source.scraper.statistics()
        assert statistics.workers == 1
        assert statistics.scrapes >= 3


async def test_a_stop_before_the_fleet_is_outgrown_starts_no_worker(server):
    scraper = FleetScraper(
        "http://{ip}:{port}/", WorkerOptions(("/no/such/program",), 4), settings=ScrapeSettings(), clock=Clock()
    )
    async with running(scraper, []):
        pass
    assert scraper.statistics().workers == 0


def test_all_pods_of_a_service_go_to_one_worker_and_stay_there():
    targets = [a_target(f"s{number}-{pod}", service=f"s{number}") for number in range(200) for pod in range(3)]
    parts = shards(targets, 4)
    assert sorted(target.uid for part in parts for target in part) == sorted(target.uid for target in targets)
    assert sum(len({target.service for target in part}) for part in parts) == 200
    assert min(map(len, parts)) > 100
    fewer = [target for target in targets if target.service != "s7"]
    assert [[t for t in part if t.service != "s7"] for part in parts] == [list(part) for part in shards(fewer, 4)]


@pytest.mark.parametrize(
    ("pods", "most", "workers"), [(626, 4, 1), (5_000, 4, 1), (5_001, 4, 2), (10_000, 1, 1), (100_000, 4, 4)]
)
def test_one_worker_for_every_5000_pods(pods: int, most: int, workers: int):
    assert workers_for(pods, most) == workers


async def test_a_message_is_read_whole_or_not_at_all():
    message = Targets((a_target("engine-0"),))
    reader = asyncio.StreamReader()
    reader.feed_data(frame(message) + frame(message)[:-1])
    reader.feed_eof()
    assert await read_message(reader) == message
    assert await read_message(reader) is None


def test_statistics_of_several_processes_are_added():
    one, other = ScrapeTally(5.0), ScrapeTally(8.0)
    one.scraped(0.1, None)
    one.scraped(3.0, ScrapeFailure.TIMEOUT)
    other.scraped(0.2, ScrapeFailure.TIMEOUT)
    other.last_round_pods, other.last_round_seconds = 7, 4.0
    both = together((one.snapshot(), other.snapshot()))
    assert (both.scrapes, both.failures[ScrapeFailure.TIMEOUT]) == (3, 2)
    assert both.durations.sum == pytest.approx(3.3)
    assert (both.interval_seconds, both.last_round_pods, both.last_round_seconds) == (8.0, 7, 4.0)
    assert other.snapshot().totals.interval_seconds == 0.0
