"""Prometheus as the source of signals: a few queries tell of the whole fleet, whatever its size.

Every engine is then asked once, by Prometheus, however many want to know. What is read is Prometheus' record of its
scrapes, so a value is as old as its scrape, not as the question: the age is told by Prometheus' own clock and carried
over to ours, and a value that Prometheus repeats is the sample that is known already. Of each round only the scrapes
that are new are read, so asking often costs little. When Prometheus cannot be asked, or says that a scrape failed, the
last good sample of the pod stays and ages.

The same rules as in the direct scraper make a sample of a scrape's readings (`sample.py`).
"""

import asyncio
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from forebay.scaling.load.signals import PodSignals
from forebay.telemetry.direct.fetch import FetchFailure, ScrapeFailed
from forebay.telemetry.direct.scraper import SHORTEST_INTERVAL_SECONDS, Clock
from forebay.telemetry.direct.url_template import ScrapeTarget
from forebay.telemetry.metric_catalogue import wire_names
from forebay.telemetry.prometheus.prometheus_pods import PodRecord, ReadFailure, read_failure, read_pod, unread_scrapes
from forebay.telemetry.prometheus.promql import last_seconds, one_of
from forebay.telemetry.prometheus.range_vectors import (
    PodLabels,
    PodName,
    Readings,
    Target,
    scrape_interval_seconds,
    seconds_of,
    series_of,
    targets_of,
)
from forebay.telemetry.scrape_statistics import ScrapeStatistics, ScrapeTally
from forebay.telemetry.text_format import MalformedMetrics

__all__ = ["Connection", "PrometheusSource"]

logger = logging.getLogger(__name__)

UP_RANGE_SECONDS = 150
"""How far back `up` is asked for: two scrapes at the slowest pace that is of use to scaling, and some."""
MARGIN_SECONDS = 1
"""Prometheus 3 leaves the left end of a range out."""
LONGEST_SPACING_SECONDS = 60.0
"""A fleet that is scraped more rarely is not waited for: its signals are stale at times, and nothing shrinks then."""
NAMES = tuple(sorted(wire_names()))


class Connection(Protocol):
    """Blocks, and is used from one thread at a time. `ask` raises ScrapeFailed."""

    def ask(self, query: str, at: float | None = None) -> object: ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class RoundResult:
    """What one round was told."""

    known: Mapping[str, PodRecord]
    """By pod uid, what is known from now on."""
    targets: Mapping[PodName, Sequence[Target]]


class PrometheusSource:
    """Use from one event loop: `run` in a task, `signals` from the planner's loop."""

    def __init__(
        self,
        connect: Callable[[], Connection],
        *,
        labels: PodLabels | None = None,
        matchers: Sequence[str] = (),
        at_least_seconds: float = SHORTEST_INTERVAL_SECONDS,
        clock: Clock | None = None,
    ) -> None:
        self._connect = connect
        self._labels = labels or PodLabels()
        self._matchers = tuple(matchers)
        self._interval_seconds = max(SHORTEST_INTERVAL_SECONDS, at_least_seconds)
        self._clock = clock or Clock()
        self._tally = ScrapeTally(self._interval_seconds)
        self._known: dict[str, PodRecord] = {}
        self._signals: dict[str, PodSignals] = {}
        self._stopping = asyncio.Event()

    def signals(self) -> Mapping[str, PodSignals]:
        """By pod uid, of the pods of the last round; a pod that is gone leaves nothing behind."""
        return dict(self._signals)

    def statistics(self) -> ScrapeStatistics:
        return self._tally.snapshot()

    def stop(self) -> None:
        """Ends `run` after the query that is under way."""
        self._stopping.set()

    async def run(self, targets: Callable[[], Sequence[ScrapeTarget]], on_news: Callable[[], None]) -> None:
        """Rounds until `stop`. `targets` is asked at the start of each; `on_news` is told when one ends."""
        connection = await asyncio.to_thread(self._connect)
        try:
            while not self._stopping.is_set():
                started = self._clock.monotonic()
                try:
                    await self._round(connection, targets(), started)
                    on_news()
                except Exception:
                    logger.exception("a round of queries failed; signals age until one succeeds")
                elapsed = self._clock.monotonic() - started
                # At most half of the time is spent asking, so that a slow Prometheus is not made slower.
                await self._rest(max(self._interval_seconds - elapsed, elapsed))
        finally:
            connection.close()

    async def _round(self, connection: Connection, pods: Sequence[ScrapeTarget], started: float) -> None:
        self._known = {pod.uid: self._known.get(pod.uid, PodRecord()) for pod in pods}
        self._signals = {uid: signals for uid, signals in self._signals.items() if uid in self._known}
        if pods:
            told = await self._told(connection, pods)
            seconds = self._clock.monotonic() - started
            if isinstance(told, RoundResult):
                self._known = dict(told.known)
                self._learn_pace(told)
            for pod in pods:
                self._show(pod, told, seconds)
        self._tally.rounds += 1
        self._tally.last_round_pods = len(pods)
        self._tally.last_round_seconds = self._clock.monotonic() - started

    async def _told(self, connection: Connection, pods: Sequence[ScrapeTarget]) -> RoundResult | ReadFailure:
        try:
            return await asyncio.to_thread(self._ask, connection, pods, dict(self._known))
        except ScrapeFailed as error:
            return ReadFailure(error.failure, str(error))
        except MalformedMetrics as error:
            return ReadFailure(FetchFailure.MALFORMED, f"Prometheus: {error}")
        except Exception as error:
            logger.exception("asking Prometheus failed in the operator itself")
            return ReadFailure(FetchFailure.INTERNAL, f"the operator could not ask Prometheus: {error!r}")

    def _ask(self, connection: Connection, pods: Sequence[ScrapeTarget], known: Mapping[str, PodRecord]) -> RoundResult:
        """Runs in a thread, and reads of `self` only what never changes. Raises ScrapeFailed or MalformedMetrics.

        All queries are as of one time, or a scrape could slip out of the range between two of them. Our clock is read
        before Prometheus', so that no age is understated.
        """
        asked_at = self._clock.now()
        now = seconds_of(connection.ask("time()"))
        namespaces = one_of(self._labels.namespace, {pod.namespace for pod in pods})
        matchers = (namespaces, f'{self._labels.pod}!=""', *self._matchers)
        targets = targets_of(
            series_of(connection.ask(last_seconds("up", matchers, UP_RANGE_SECONDS), now)), self._labels
        )
        new = frozenset(
            scrape for pod in pods for scrape in unread_scrapes(pod, _targets_of(pod, targets), known[pod.uid])
        )
        readings = Readings(new, self._labels)
        if new:
            seconds = math.ceil(now - min(at for _, _, at in new)) + MARGIN_SECONDS
            for name in NAMES:
                if self._stopping.is_set():
                    raise ScrapeFailed(FetchFailure.INTERNAL, "the operator ends")
                readings.add(name, connection.ask(last_seconds(name, matchers, seconds), now))
        lag_seconds = asked_at - now
        return RoundResult(
            {pod.uid: read_pod(known[pod.uid], pod, _targets_of(pod, targets), readings, lag_seconds) for pod in pods},
            {(pod.namespace, pod.pod): _targets_of(pod, targets) for pod in pods},
        )

    def _learn_pace(self, told: RoundResult) -> None:
        """Signals are as fresh as Prometheus' own pace allows; that must not look like engines that fell silent."""
        spacing = scrape_interval_seconds(target for targets in told.targets.values() for target in targets)
        if spacing is not None:
            self._tally.interval_seconds = max(self._interval_seconds, min(spacing, LONGEST_SPACING_SECONDS))

    def _show(self, pod: ScrapeTarget, told: RoundResult | ReadFailure, seconds: float) -> None:
        self._tally.note_version(pod.engine_version)
        known = self._known[pod.uid]
        trouble = (
            told
            if isinstance(told, ReadFailure)
            else read_failure(known, _targets_of(pod, told.targets), UP_RANGE_SECONDS)
        )
        self._signals[pod.uid] = PodSignals(known.sample, trouble.message if trouble else None)
        self._tally.scraped(seconds, trouble.failure if trouble else None)

    async def _rest(self, seconds: float) -> None:
        """Returns after so long, or when told to stop."""
        ends = [asyncio.ensure_future(self._clock.sleep(seconds)), asyncio.ensure_future(self._stopping.wait())]
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for end in ends:
                end.cancel()


def _targets_of(pod: ScrapeTarget, targets: Mapping[PodName, Sequence[Target]]) -> Sequence[Target]:
    return targets.get((pod.namespace, pod.pod), ())
