"""PrometheusSource: reads the signals of the whole fleet from Prometheus, with a few queries per round.

Prometheus then scrapes each engine once for everybody. The queries return its record of scrapes, so a value is as old
as its scrape and not as the query: the age is computed by Prometheus' clock and converted to the operator's clock. A
value that Prometheus repeats is the sample that is already known. Each round reads only new scrapes, so frequent rounds
cost little. When Prometheus does not answer, or a scrape failed, the last good sample of the pod stays and ages.

Samples are made from readings by the same rules as in the direct scraper (`engine_sample`).
"""

import asyncio
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from forebay.scaling.load.signals import PodSignals
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
from forebay.telemetry.scrape_failure import ScrapeFailed, ScrapeFailure
from forebay.telemetry.scrape_statistics import ScrapeStatistics, ScrapeTally
from forebay.telemetry.signal_source import SHORTEST_INTERVAL_SECONDS, Clock, ScrapeTarget
from forebay.telemetry.text_format import MalformedMetrics

__all__ = ["Connection", "PrometheusSource"]

logger = logging.getLogger(__name__)

UP_RANGE_SECONDS = 150
"""The range of the query for `up`: more than two scrapes at the longest interval that is useful for scaling."""
MARGIN_SECONDS = 1
"""Added to each range, because Prometheus 3 excludes its left end."""
LONGEST_INTERVAL_SECONDS = 60.0
"""The longest scrape interval that stretches the limits on the age of signals. With a longer one the signals are stale
at times, and nothing is scaled down then."""
NAMES = tuple(sorted(wire_names()))


class Connection(Protocol):
    """A blocking connection for one thread at a time. `ask` raises ScrapeFailed."""

    def ask(self, query: str, at: float | None = None) -> object: ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class RoundResult:
    """The result of one round of queries."""

    records: Mapping[str, PodRecord]
    """The new record of each pod, by pod uid."""
    targets: Mapping[PodName, Sequence[Target]]


class PrometheusSource:
    """Used from one event loop: `run` in a task, `signals` from the planner loop."""

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
        self._records: dict[str, PodRecord] = {}
        self._signals: dict[str, PodSignals] = {}
        self._forgotten = 0
        """How often the records were dropped."""
        self._stopping = asyncio.Event()

    def signals(self) -> Mapping[str, PodSignals]:
        """The signals of the pods of the last round, by pod uid; deleted pods are absent."""
        return dict(self._signals)

    def statistics(self) -> ScrapeStatistics:
        return self._tally.snapshot()

    def forget(self) -> None:
        """Drop all signals, when their times can no longer be compared with the present."""
        self._forgotten += 1
        self._records = {}
        self._signals = {}

    def stop(self) -> None:
        """Make `run` return after the current query."""
        self._stopping.set()

    async def run(self, targets: Callable[[], Sequence[ScrapeTarget]], on_news: Callable[[], None]) -> None:
        """Run rounds until `stop`. `targets` is called at the start of each; `on_news` when it ends."""
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
                # Queries take at most half of the time, so that a slow Prometheus is not made slower.
                await self._clock.pause(max(self._interval_seconds - elapsed, elapsed), self._stopping)
        finally:
            connection.close()

    async def _round(self, connection: Connection, pods: Sequence[ScrapeTarget], started: float) -> None:
        self._records = {pod.uid: self._records.get(pod.uid, PodRecord()) for pod in pods}
        self._signals = {uid: signals for uid, signals in self._signals.items() if uid in self._records}
        if pods:
            forgotten = self._forgotten
            result = await self._query(connection, pods)
            if forgotten != self._forgotten:
                return  # the clock was set while the queries ran, so the ages of this round are wrong
            seconds = self._clock.monotonic() - started
            if isinstance(result, RoundResult):
                self._records = dict(result.records)
                self._learn_interval(result)
            for pod in pods:
                self._publish(pod, result, seconds)
        self._tally.rounds += 1
        self._tally.last_round_pods = len(pods)
        self._tally.last_round_seconds = self._clock.monotonic() - started

    async def _query(self, connection: Connection, pods: Sequence[ScrapeTarget]) -> RoundResult | ReadFailure:
        try:
            return await asyncio.to_thread(self._query_blocking, connection, pods, dict(self._records))
        except ScrapeFailed as error:
            return ReadFailure(error.failure, str(error))
        except MalformedMetrics as error:
            return ReadFailure(ScrapeFailure.MALFORMED, f"Prometheus: {error}")
        except Exception as error:
            logger.exception("a query to Prometheus failed in the operator itself")
            return ReadFailure(ScrapeFailure.INTERNAL, f"the operator could not query Prometheus: {error!r}")

    def _query_blocking(
        self, connection: Connection, pods: Sequence[ScrapeTarget], records: Mapping[str, PodRecord]
    ) -> RoundResult:
        """Runs in a thread and reads only attributes that never change. Raises ScrapeFailed or MalformedMetrics.

        All queries are evaluated at the same time, or a scrape could leave the range between two of them.
        The operator's clock is read before Prometheus' clock, so that no age is understated.
        """
        read_at = self._clock.now()
        now = seconds_of(connection.ask("time()"))
        namespaces = one_of(self._labels.namespace, {pod.namespace for pod in pods})
        matchers = (namespaces, f'{self._labels.pod}!=""', *self._matchers)
        targets = targets_of(
            series_of(connection.ask(last_seconds("up", matchers, UP_RANGE_SECONDS), now)), self._labels
        )
        new = frozenset(
            scrape for pod in pods for scrape in unread_scrapes(pod, _targets_of(pod, targets), records[pod.uid])
        )
        readings = Readings(new, self._labels)
        if new:
            seconds = math.ceil(now - min(at for _, _, at in new)) + MARGIN_SECONDS
            for name in NAMES:
                if self._stopping.is_set():
                    raise ScrapeFailed(ScrapeFailure.INTERNAL, "the operator is stopping")
                readings.add(name, connection.ask(last_seconds(name, matchers, seconds), now))
        lag_seconds = read_at - now
        return RoundResult(
            {
                pod.uid: read_pod(records[pod.uid], pod, _targets_of(pod, targets), readings, lag_seconds)
                for pod in pods
            },
            {(pod.namespace, pod.pod): _targets_of(pod, targets) for pod in pods},
        )

    def _learn_interval(self, result: RoundResult) -> None:
        """Report Prometheus' own scrape interval, so that signals of that age do not count as missing."""
        interval = scrape_interval_seconds(target for targets in result.targets.values() for target in targets)
        if interval is not None:
            self._tally.interval_seconds = max(self._interval_seconds, min(interval, LONGEST_INTERVAL_SECONDS))

    def _publish(self, pod: ScrapeTarget, result: RoundResult | ReadFailure, seconds: float) -> None:
        self._tally.note_version(pod.engine_version)
        record = self._records[pod.uid]
        if isinstance(result, ReadFailure):
            failure: ReadFailure | None = result
        else:
            failure = read_failure(record, _targets_of(pod, result.targets), UP_RANGE_SECONDS)
        self._signals[pod.uid] = PodSignals(record.sample, failure.message if failure else None)
        self._tally.scraped(seconds, failure.failure if failure else None)


def _targets_of(pod: ScrapeTarget, targets: Mapping[PodName, Sequence[Target]]) -> Sequence[Target]:
    return targets.get((pod.namespace, pod.pod), ())
