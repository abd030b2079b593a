"""The direct scraper: scrapes every engine in rounds and keeps the last result of each pod.

vLLM answers `/metrics` in the process that serves requests, so frequent scrapes slow it down. The interval is never
below 5 s and grows with the fleet, and a pod is never scraped twice at the same time. A slow pod does not delay the
others: results are reported while the round still waits for the rest, a round that outlasts its interval finishes in
the background, and pods whose last scrape failed share a small number of slots, apart from those of the healthy pods.
"""

import asyncio
import logging
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import aiohttp

from forebay.scaling.load.signals import EngineSample, PodSignals
from forebay.telemetry.direct.fetch import fetch, metrics_session
from forebay.telemetry.direct.scrape_lane import Lanes, ScrapeLane
from forebay.telemetry.direct.url_template import UrlTemplate
from forebay.telemetry.engine_sample import NotAnEngine, SignalMissing, sample_of
from forebay.telemetry.metric_catalogue import catalogue_for
from forebay.telemetry.scrape_failure import ScrapeFailed, ScrapeFailure
from forebay.telemetry.scrape_statistics import ScrapeStatistics, ScrapeTally
from forebay.telemetry.signal_source import SHORTEST_INTERVAL_SECONDS, Clock, ScrapeTarget
from forebay.telemetry.text_format import MalformedMetrics

logger = logging.getLogger(__name__)

SCRAPES_PER_SECOND = 125
"""What one operator can scrape beside its other work, at 2 to 3 ms of CPU per scrape: 625 pods keep the shortest
interval."""


def interval_seconds(
    pod_count: int, at_least: float = SHORTEST_INTERVAL_SECONDS, per_second: float = SCRAPES_PER_SECOND
) -> float:
    """Seconds between the starts of two rounds."""
    return max(SHORTEST_INTERVAL_SECONDS, at_least, pod_count / per_second)


@dataclass(frozen=True, slots=True)
class ScrapeSettings:
    concurrency: int = 64
    """Slots for all other pods."""
    concurrency_after_failure: int = 16
    """Slots for pods whose last scrape failed."""
    timeout_seconds: float = 3.0
    """The limit of one scrape, from connecting to the last byte."""
    report_every_seconds: float = 1.5
    """The longest time before results are reported while a round goes on."""
    interval_seconds: float = SHORTEST_INTERVAL_SECONDS
    """The shortest time between two rounds; it grows with the fleet."""
    per_second: float = SCRAPES_PER_SECOND
    """The most scrapes in a second, averaged over a round."""
    max_bytes: int = 1 << 20
    """vLLM answers with about 20 KB, and 16 KB more per data-parallel engine; 16 engines stay below 300 KB."""

    def round_seconds(self, pod_count: int) -> float:
        """Seconds between the starts of two rounds over so many pods."""
        return interval_seconds(pod_count, self.interval_seconds, self.per_second)


class Scraper:
    """Used from one event loop: `run` in a task, `signals` from the planner loop."""

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
        self._tally = ScrapeTally(self._settings.round_seconds(0))
        self._signals: dict[str, PodSignals] = {}
        self._stopping = asyncio.Event()

    def signals(self) -> Mapping[str, PodSignals]:
        """The signals of the pods of the last round, by pod uid; a pod without any result yet is absent."""
        return dict(self._signals)

    def statistics(self) -> ScrapeStatistics:
        return self._tally.snapshot()

    def forget(self) -> None:
        """Drop all signals, when their times can no longer be compared with the present."""
        self._signals = {}

    def stop(self) -> None:
        """Make `run` return soon; scrapes in flight are cancelled."""
        self._stopping.set()

    async def run(self, targets: Callable[[], Sequence[ScrapeTarget]], on_news: Callable[[], None]) -> None:
        """Run rounds until `stop`.

        `targets` is called at the start of each round; `on_news` when it ends, and now and then while it lasts.
        """
        settings = self._settings
        stopping = asyncio.ensure_future(self._stopping.wait())
        async with metrics_session(settings.concurrency + settings.concurrency_after_failure) as session:
            lanes = Lanes(
                healthy=ScrapeLane(settings.concurrency, partial(self._scrape, session)),
                after_failure=ScrapeLane(settings.concurrency_after_failure, partial(self._scrape, session)),
            )
            try:
                while not self._stopping.is_set():
                    started = self._clock.monotonic()
                    try:
                        await self._round(lanes, targets(), on_news, stopping)
                    except Exception:
                        logger.exception("a scrape round failed; signals age until one succeeds")
                    elapsed = self._clock.monotonic() - started
                    await self._clock.wait(self._tally.interval_seconds - elapsed, stopping)
            finally:
                stopping.cancel()
                await lanes.keep(())

    async def _round(
        self,
        lanes: Lanes,
        targets: Sequence[ScrapeTarget],
        on_news: Callable[[], None],
        stopping: asyncio.Future[Any],
    ) -> None:
        started = self._clock.monotonic()
        by_uid = {target.uid: target for target in targets}
        interval = self._settings.round_seconds(len(by_uid))
        self._tally.interval_seconds = interval
        self._forget_all_but(by_uid)
        await lanes.keep(by_uid)
        for target in by_uid.values():
            lanes.add(target, failed=self._previous(target).error is not None)
        scrapes = asyncio.ensure_future(lanes.empty())
        try:
            while lanes.busy and not stopping.done():
                remaining = started + interval - self._clock.monotonic()
                if remaining <= 0:
                    break
                await self._clock.wait(min(remaining, self._settings.report_every_seconds), stopping, scrapes)
                on_news()
        finally:
            scrapes.cancel()
        self._tally.rounds += 1
        self._tally.last_round_pods = len(by_uid)
        self._tally.last_round_seconds = self._clock.monotonic() - started

    async def _scrape(self, session: aiohttp.ClientSession, target: ScrapeTarget) -> None:
        failure: ScrapeFailure | None = None
        started = self._clock.monotonic()
        try:
            signals = PodSignals(sample=await self._sample(session, target))
        except ScrapeFailed as error:
            failure = error.failure
            signals = PodSignals(sample=self._previous(target).sample, error=str(error))
        except Exception as error:
            logger.exception("scraping pod %s/%s failed in the operator itself", target.namespace, target.pod)
            failure = ScrapeFailure.INTERNAL
            reason = f"the operator could not read it: {error!r}"
            signals = PodSignals(sample=self._previous(target).sample, error=reason)
        self._tally.scraped(self._clock.monotonic() - started, failure)
        self._signals[target.uid] = signals

    def _previous(self, target: ScrapeTarget) -> PodSignals:
        return self._signals.get(target.uid, PodSignals(sample=None))

    async def _sample(self, session: aiohttp.ClientSession, target: ScrapeTarget) -> EngineSample:
        """The sample of one pod. Raises ScrapeFailed.

        `taken_at` is the time of the request, so an age is never understated. It is computed from the time of the
        answer, since the clock may be set in between.
        """
        catalogue = catalogue_for(target.engine_version)
        self._tally.note_version(target.engine_version)
        try:
            url = self._urls.url(target)
        except ValueError as error:
            raise ScrapeFailed(ScrapeFailure.ADDRESS, f"the pod has no usable address: {error}") from error
        asked_at = self._clock.monotonic()
        try:
            async with asyncio.timeout(self._settings.timeout_seconds):
                body = await fetch(session, url, self._settings.max_bytes)
            return sample_of(body, catalogue, self._clock.now() - (self._clock.monotonic() - asked_at))
        except ScrapeFailed as error:
            raise ScrapeFailed(error.failure, f"{url}: {error}") from error
        except TimeoutError as error:
            message = f"{url}: no answer within {self._settings.timeout_seconds:g} s"
            raise ScrapeFailed(ScrapeFailure.TIMEOUT, message) from error
        except MalformedMetrics as error:
            raise ScrapeFailed(ScrapeFailure.MALFORMED, f"{url}: {error}") from error
        except NotAnEngine as error:
            raise ScrapeFailed(ScrapeFailure.NOT_AN_ENGINE, f"{url}: {error}") from error
        except SignalMissing as error:
            raise ScrapeFailed(ScrapeFailure.SIGNAL_MISSING, f"{url}: {error}") from error

    def _forget_all_but(self, uids: Container[str]) -> None:
        """Drop the signals of deleted pods, so that their last values do not stay."""
        self._signals = {uid: signals for uid, signals in self._signals.items() if uid in uids}
