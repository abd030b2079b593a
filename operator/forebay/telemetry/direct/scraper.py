"""The direct scraper: asks every engine for its metrics, round after round, and keeps the last word of each pod.

vLLM answers `/metrics` from the process that serves requests, so asking often makes it slow (the interval never goes
under 5 s and grows with the fleet) and one pod is never asked twice at a time. A slow pod delays nobody: what came in
is reported while the round still waits for the rest, a round that outlasts its interval is left to finish by itself,
and pods that failed last time wait in a narrow lane of their own so that they cannot fill the slots of the healthy.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import aiohttp

from forebay.scaling.load.signals import EngineSample, PodSignals
from forebay.telemetry.direct.fetch import FetchFailure, ScrapeFailed, fetch, metrics_session
from forebay.telemetry.direct.url_template import ScrapeTarget, UrlTemplate
from forebay.telemetry.engine_sample import NotAnEngine, SignalMissing, sample_of
from forebay.telemetry.metric_catalogue import catalogue_for
from forebay.telemetry.scrape_statistics import ScrapeStatistics, ScrapeTally
from forebay.telemetry.text_format import MalformedMetrics

__all__ = ["Clock", "ScrapeSettings", "ScrapeTarget", "Scraper", "interval_seconds"]

logger = logging.getLogger(__name__)

SHORTEST_INTERVAL_SECONDS = 5.0
SCRAPES_PER_SECOND = 125
"""What one operator can read beside its other work, at 2 to 3 ms of CPU each: 625 pods keep the shortest interval,
2,000 are asked every 16 s."""


def interval_seconds(pod_count: int, at_least: float = SHORTEST_INTERVAL_SECONDS) -> float:
    """Time between the starts of two rounds."""
    return max(SHORTEST_INTERVAL_SECONDS, at_least, pod_count / SCRAPES_PER_SECOND)


@dataclass(frozen=True, slots=True)
class Clock:
    """Time as the scraper sees it; tests bring their own."""

    now: Callable[[], float] = time.time
    """Unix seconds, for `taken_at`."""
    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Coroutine[Any, Any, None]] = asyncio.sleep


@dataclass(frozen=True, slots=True)
class ScrapeSettings:
    concurrency: int = 64
    slow_lane_concurrency: int = 16
    """Slots for pods whose last scrape failed."""
    timeout_seconds: float = 3.0
    """For one scrape, from connecting to the last byte."""
    report_every_seconds: float = 1.5
    """How long news waits for the rest of its round."""
    interval_seconds: float = SHORTEST_INTERVAL_SECONDS
    """At least; it grows with the fleet."""
    max_bytes: int = 1 << 20
    """A vLLM answer has some 20 KB and 16 KB more per engine; sixteen engines stay under 300 KB."""


class Scraper:
    """Use from one event loop: `run` in a task, `signals` from the planner's loop."""

    def __init__(
        self,
        url_template: UrlTemplate,
        *,
        settings: ScrapeSettings | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._urls = url_template
        self._settings = settings or ScrapeSettings()
        self._clock = clock or Clock()
        self._tally = ScrapeTally(interval_seconds(0, self._settings.interval_seconds))
        self._signals: dict[str, PodSignals] = {}
        self._in_flight: dict[str, asyncio.Task[None]] = {}
        self._slots = asyncio.Semaphore(self._settings.concurrency)
        self._slow_lane = asyncio.Semaphore(self._settings.slow_lane_concurrency)
        self._stopping = asyncio.Event()

    def signals(self) -> Mapping[str, PodSignals]:
        """By pod uid, of the pods of the last round; a pod that was not yet answered for is absent."""
        return dict(self._signals)

    def statistics(self) -> ScrapeStatistics:
        return self._tally.snapshot()

    def stop(self) -> None:
        """Ends `run` soon; scrapes in flight are dropped."""
        self._stopping.set()

    async def run(self, targets: Callable[[], Sequence[ScrapeTarget]], on_news: Callable[[], None]) -> None:
        """Rounds until `stop`. `targets` is asked at the start of each; `on_news` is told when one ends, and meanwhile
        while it lasts."""
        connections = self._settings.concurrency + self._settings.slow_lane_concurrency
        stopping = asyncio.ensure_future(self._stopping.wait())
        try:
            async with metrics_session(connections) as session:
                while not self._stopping.is_set():
                    started = self._clock.monotonic()
                    try:
                        await self._round(session, targets(), on_news, stopping)
                    except Exception:
                        logger.exception("a scrape round failed; signals age until one succeeds")
                    elapsed = self._clock.monotonic() - started
                    await self._until(self._tally.interval_seconds - elapsed, stopping)
                await self._drop(list(self._in_flight))
        finally:
            stopping.cancel()
            await self._drop(list(self._in_flight))

    async def _round(
        self,
        session: aiohttp.ClientSession,
        targets: Sequence[ScrapeTarget],
        on_news: Callable[[], None],
        stopping: asyncio.Future[Any],
    ) -> None:
        started = self._clock.monotonic()
        by_uid = {target.uid: target for target in targets}
        interval = interval_seconds(len(by_uid), self._settings.interval_seconds)
        self._tally.interval_seconds = interval
        await self._forget_all_but(by_uid.keys())
        for uid, target in by_uid.items():
            if uid not in self._in_flight:
                self._in_flight[uid] = asyncio.create_task(self._scrape(session, target))
        everyone = asyncio.gather(*self._in_flight.values(), return_exceptions=True)
        while not everyone.done() and not stopping.done():
            left = started + interval - self._clock.monotonic()
            if left <= 0:
                break
            await self._until(min(left, self._settings.report_every_seconds), stopping, everyone)
            on_news()
        self._tally.rounds += 1
        self._tally.last_round_pods = len(by_uid)
        self._tally.last_round_seconds = self._clock.monotonic() - started

    async def _scrape(self, session: aiohttp.ClientSession, target: ScrapeTarget) -> None:
        before = self._signals.get(target.uid, PodSignals(sample=None))
        failure: FetchFailure | None = None
        async with self._slots if before.error is None else self._slow_lane:
            started = self._clock.monotonic()
            try:
                signals = PodSignals(sample=await self._sample(session, target))
            except ScrapeFailed as error:
                failure = error.failure
                signals = PodSignals(sample=before.sample, error=str(error))
            except Exception as error:
                logger.exception("scraping pod %s/%s failed in the operator itself", target.namespace, target.pod)
                failure = FetchFailure.INTERNAL
                signals = PodSignals(sample=before.sample, error=f"the operator could not read it: {error!r}")
            self._tally.scraped(self._clock.monotonic() - started, failure)
        self._signals[target.uid] = signals
        del self._in_flight[target.uid]

    async def _sample(self, session: aiohttp.ClientSession, target: ScrapeTarget) -> EngineSample:
        """`taken_at` is when the question was asked, so that an age is never understated. Raises ScrapeFailed."""
        catalogue = catalogue_for(target.engine_version)
        self._tally.note_version(target.engine_version)
        try:
            url = self._urls.url(target)
        except ValueError as error:
            raise ScrapeFailed(FetchFailure.ADDRESS, f"the pod has no address to ask: {error}") from error
        taken_at = self._clock.now()
        try:
            async with asyncio.timeout(self._settings.timeout_seconds):
                body = await fetch(session, url, self._settings.max_bytes)
            return sample_of(body, catalogue, taken_at)
        except ScrapeFailed as error:
            raise ScrapeFailed(error.failure, f"{url}: {error}") from error
        except TimeoutError as error:
            message = f"{url}: no answer within {self._settings.timeout_seconds:g} s"
            raise ScrapeFailed(FetchFailure.TIMEOUT, message) from error
        except MalformedMetrics as error:
            raise ScrapeFailed(FetchFailure.MALFORMED, f"{url}: {error}") from error
        except NotAnEngine as error:
            raise ScrapeFailed(FetchFailure.NOT_AN_ENGINE, f"{url}: {error}") from error
        except SignalMissing as error:
            raise ScrapeFailed(FetchFailure.SIGNAL_MISSING, f"{url}: {error}") from error

    async def _forget_all_but(self, uids: Collection[str]) -> None:
        """A pod that is gone must leave no frozen gauge behind."""
        self._signals = {uid: signals for uid, signals in self._signals.items() if uid in uids}
        await self._drop([uid for uid in self._in_flight if uid not in uids])

    async def _drop(self, uids: Sequence[str]) -> None:
        tasks = [self._in_flight.pop(uid) for uid in uids]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _until(self, seconds: float, *events: asyncio.Future[Any]) -> None:
        """Returns when the first of the events came or `seconds` have passed."""
        timer = asyncio.ensure_future(self._clock.sleep(seconds))
        try:
            await asyncio.wait([timer, *events], return_when=asyncio.FIRST_COMPLETED)
        finally:
            timer.cancel()
