"""ScrapeWorkers: a signal source that scrapes a large fleet in several processes.

Each worker scrapes a part of the services with the rules of `Scraper`. The operator keeps the signals, so the last good
samples outlive a worker, and it alone turns the workers' stamps into the time of the API server.
"""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final
from zlib import crc32

from forebay.scaling.load.signals import PodSignals
from forebay.telemetry.direct.scraper import ScrapeSettings
from forebay.telemetry.direct.worker_pipe import Start
from forebay.telemetry.direct.worker_process import WorkerProcess
from forebay.telemetry.scrape_statistics import ScrapeStatistics, together
from forebay.telemetry.signal_source import Clock, ScrapeTarget

PODS_PER_WORKER: Final = 5000
WORKER_SCRAPES_PER_SECOND: Final = 200.0
"""Half of a core and 25 s a round for so many pods."""
AIM_SECONDS: Final = 5.0
"""How often the workers are told of pods that have come or gone."""


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    command: tuple[str, ...]
    """Starts a worker, whose pipes are its standard input and output."""
    most: int
    """The most workers that may run; 0 to scrape in the operator's own process, whatever the size of the fleet."""


def workers_for(pod_count: int, most: int) -> int:
    return min(most, -(-pod_count // PODS_PER_WORKER))


class ScrapeWorkers:
    """Used from one event loop, as `Scraper` is."""

    def __init__(
        self,
        url_template: str,
        options: WorkerOptions,
        *,
        settings: ScrapeSettings,
        clock: Clock,
        signals: Mapping[str, PodSignals],
        statistics: ScrapeStatistics,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`signals` and `statistics` are those of the source that this one follows. `monotonic` is the clock of the
        workers' stamps."""
        self._start = Start(url_template, replace(settings, per_second=WORKER_SCRAPES_PER_SECOND))
        self._options = options
        self._clock = clock
        self._monotonic = monotonic
        self._signals = dict(signals)
        self._before = statistics
        self._workers: list[WorkerProcess] = []
        self._shards: list[tuple[ScrapeTarget, ...]] = []
        self._wanted: frozenset[str] = frozenset(signals)
        self._on_news: Callable[[], None] = lambda: None
        self._stopping = asyncio.Event()

    @property
    def pids(self) -> tuple[int, ...]:
        return tuple(worker.pid for worker in self._workers if worker.pid is not None)

    def signals(self) -> Mapping[str, PodSignals]:
        """The signals of all pods that are scraped, by pod uid; a pod without any result yet is absent."""
        return dict(self._signals)

    def statistics(self) -> ScrapeStatistics:
        running = [part for worker in self._workers for part in worker.statistics()]
        merged = together((self._before.totals, *running))
        return replace(
            merged,
            interval_seconds=self._start.settings.round_seconds(max(map(len, self._shards), default=0)),
            workers=len(self._workers),
            worker_ends=sum(worker.ends for worker in self._workers),
        )

    def forget(self) -> None:
        """Drop all signals, when their times can no longer be compared with the present."""
        self._signals = {}

    def stop(self) -> None:
        """Make `run` return soon."""
        self._stopping.set()
        for worker in self._workers:
            worker.stop()

    async def run(self, targets: Callable[[], Sequence[ScrapeTarget]], on_news: Callable[[], None]) -> None:
        """Scrape until `stop`."""
        self._on_news = on_news
        async with asyncio.TaskGroup() as tasks:
            while not self._stopping.is_set():
                for worker in self._aim(targets()):
                    tasks.create_task(worker.run(), name=f"scrape worker {worker.number}")
                await self._clock.pause(AIM_SECONDS, self._stopping)

    def _aim(self, targets: Sequence[ScrapeTarget]) -> list[WorkerProcess]:
        """Give each worker its part of the targets. Returns the workers that are new; none ever goes."""
        self._wanted = frozenset(target.uid for target in targets)
        self._signals = {uid: signals for uid, signals in self._signals.items() if uid in self._wanted}
        count = max(1, len(self._workers), workers_for(len(targets), self._options.most))
        new = [self._worker(number) for number in range(len(self._workers), count)]
        self._workers += new
        self._shards = shards(targets, count)
        for worker, shard in zip(self._workers, self._shards, strict=True):
            worker.aim(shard)
        return new

    def _worker(self, number: int) -> WorkerProcess:
        return WorkerProcess(
            number,
            self._options.command,
            self._start,
            clock=self._clock,
            on_news=self._receive,
            on_end=lambda why: self._mourn(number, why),
        )

    def _receive(self, news: Mapping[str, PodSignals]) -> None:
        ahead_seconds = self._clock.now() - self._monotonic()
        for uid, signals in news.items():
            if uid in self._wanted:
                self._signals[uid] = self._dated(uid, signals, ahead_seconds)
        self._on_news()

    def _dated(self, uid: str, signals: PodSignals, ahead_seconds: float) -> PodSignals:
        """The signals in the time of the API server. A worker that has never read the pod itself knows no sample; the
        one that another worker read last is kept."""
        sample = signals.sample
        if sample is not None:
            return replace(signals, sample=replace(sample, taken_at=sample.taken_at + ahead_seconds))
        known = self._signals.get(uid)
        return signals if known is None else replace(signals, sample=known.sample)

    def _mourn(self, number: int, why: str) -> None:
        """The pods of a worker that has ended keep their last samples, which age, and say why nobody reads them."""
        error = f"the operator's process that scrapes this pod {why}; it is started again"
        for target in self._shards[number]:
            known = self._signals.get(target.uid, PodSignals(sample=None))
            self._signals[target.uid] = replace(known, error=error)
        self._on_news()


def shards(targets: Sequence[ScrapeTarget], count: int) -> list[tuple[ScrapeTarget, ...]]:
    """The targets of each of `count` workers. All pods of a service go to one worker, whatever other services there
    are."""
    parts: list[list[ScrapeTarget]] = [[] for _ in range(count)]
    for target in targets:
        parts[crc32(f"{target.namespace}/{target.service}".encode()) % count].append(target)
    return [tuple(part) for part in parts]
