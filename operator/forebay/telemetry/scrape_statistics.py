"""ScrapeStatistics: what scraping costs and how it fails, as totals for the operator's own `/metrics`."""

import logging
import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Self

from forebay.scaling.load.signals import HistogramSample
from forebay.telemetry.metric_catalogue import catalogue_for
from forebay.telemetry.scrape_failure import ScrapeFailure

logger = logging.getLogger(__name__)

DURATION_BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, math.inf)
"""Upper bounds of the histogram in seconds, from a pod nearby to one that times out."""


@dataclass(frozen=True, slots=True)
class ScrapeStatistics:
    """Totals since the signal source was created, and the figures of the last round."""

    rounds: int
    scrapes: int
    """Finished scrapes, including failed ones."""
    failures: Mapping[ScrapeFailure, int]
    durations: HistogramSample
    """Seconds from the request to the sample or the failure, without the wait for a free slot."""
    last_round_seconds: float
    last_round_pods: int
    interval_seconds: float
    unknown_versions: tuple[str, ...]
    """Engine versions that the catalogue does not know; their metrics are read by the newest names."""
    workers: int = 0
    """Processes that scrape for the operator; 0 while it scrapes itself."""
    worker_ends: int = 0
    """How often one of them had to be started again."""

    @property
    def totals(self) -> Self:
        """The totals alone, of a process that has ended."""
        return replace(self, last_round_seconds=0.0, last_round_pods=0, interval_seconds=0.0)


class ScrapeTally:
    """Counts scrapes; `snapshot` returns the `ScrapeStatistics`."""

    def __init__(self, interval_seconds: float) -> None:
        self.rounds = 0
        self.last_round_seconds = 0.0
        self.last_round_pods = 0
        self.interval_seconds = interval_seconds
        self.unknown_versions: set[str] = set()
        self._failures: Counter[ScrapeFailure] = Counter()
        self._buckets = [0] * len(DURATION_BOUNDS)
        self._duration_sum = 0.0

    def scraped(self, seconds: float, failure: ScrapeFailure | None) -> None:
        self._buckets[bisect_left(DURATION_BOUNDS, seconds)] += 1
        self._duration_sum += seconds
        if failure is not None:
            self._failures[failure] += 1

    def note_version(self, engine_version: str | None) -> None:
        """Warn once about an engine version that the catalogue does not know."""
        if engine_version and not catalogue_for(engine_version).known and engine_version not in self.unknown_versions:
            self.unknown_versions.add(engine_version)
            logger.warning(
                "engine version %r is not in the metric catalogue; its metrics are read by the newest names known",
                engine_version,
            )

    def snapshot(self) -> ScrapeStatistics:
        counts = tuple(float(count) for count in accumulate(self._buckets))
        return ScrapeStatistics(
            rounds=self.rounds,
            scrapes=int(counts[-1]),
            failures={failure: self._failures[failure] for failure in ScrapeFailure},
            durations=HistogramSample(bounds=DURATION_BOUNDS, counts=counts, sum=self._duration_sum),
            last_round_seconds=self.last_round_seconds,
            last_round_pods=self.last_round_pods,
            interval_seconds=self.interval_seconds,
            unknown_versions=tuple(sorted(self.unknown_versions)),
        )


def together(parts: Iterable[ScrapeStatistics]) -> ScrapeStatistics:
    """The statistics of processes that scrape a part of the fleet each. The slowest one decides the interval."""
    known = tuple(parts)
    return ScrapeStatistics(
        rounds=sum(part.rounds for part in known),
        scrapes=sum(part.scrapes for part in known),
        failures={failure: sum(part.failures[failure] for part in known) for failure in ScrapeFailure},
        durations=HistogramSample(
            bounds=DURATION_BOUNDS,
            counts=tuple(map(sum, zip(*(part.durations.counts for part in known), strict=True))),
            sum=sum(part.durations.sum for part in known),
        ),
        last_round_seconds=max(part.last_round_seconds for part in known),
        last_round_pods=sum(part.last_round_pods for part in known),
        interval_seconds=max(part.interval_seconds for part in known),
        unknown_versions=tuple(sorted({version for part in known for version in part.unknown_versions})),
    )
