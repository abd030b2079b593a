"""Latencies of the recent past, read from cumulative histograms.

Engines count since they started. What happened lately is the difference of two scrapes; a histogram that has not moved
says that nobody waited, not that everybody was fast.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from math import fsum, isinf
from operator import sub

from forebay.scaling.load.signals import HistogramSample


@dataclass(frozen=True, slots=True)
class Latency:
    """Observations of one kind in a span of time."""

    bounds: tuple[float, ...]
    counts: tuple[float, ...]
    """Cumulative, as in Histogram."""
    sum: float

    @property
    def count(self) -> float:
        return self.counts[-1] if self.counts else 0.0

    @property
    def mean_seconds(self) -> float | None:
        """None when nothing was observed."""
        return self.sum / self.count if self.count > 0 else None

    def quantile_seconds(self, quantile: float) -> float | None:
        """By linear interpolation inside the bucket; None when nothing was observed.

        Beyond the last finite bound nothing is known, so that bound is the answer (Prometheus does the same).
        """
        if self.count <= 0:
            return None
        rank = quantile * self.count
        lower_bound, lower_count = 0.0, 0.0
        for bound, reached in zip(self.bounds, self.counts, strict=True):
            if reached >= rank and reached > lower_count:
                if isinf(bound):
                    return lower_bound
                return lower_bound + (bound - lower_bound) * (rank - lower_count) / (reached - lower_count)
            lower_bound, lower_count = bound if not isinf(bound) else lower_bound, reached
        return lower_bound

    def above(self, limit_seconds: float) -> float:
        """How many observations exceeded the limit, by the same interpolation."""
        lower_bound, lower_count = 0.0, 0.0
        for bound, reached in zip(self.bounds, self.counts, strict=True):
            if isinf(bound):
                return self.count - lower_count if limit_seconds <= lower_bound else 0.0
            if bound >= limit_seconds:
                share = (limit_seconds - lower_bound) / (bound - lower_bound) if bound > lower_bound else 1.0
                return self.count - (lower_count + (reached - lower_count) * share)
            lower_bound, lower_count = bound, reached
        return 0.0


Span = tuple[HistogramSample | None, HistogramSample | None]
"""One pod's histogram at the beginning and at the end of a span of time."""


def observed(spans: Iterable[Span]) -> Latency | None:
    """What was observed by all pods of a service; None when no pod can tell.

    Counts that went down mean a restart in between: everything that is counted now came after it. Pods of two engine
    versions may use different buckets; those with most observations then speak for all.
    """
    by_bounds: dict[tuple[float, ...], tuple[list[HistogramSample], list[HistogramSample]]] = {}
    for earlier, later in spans:
        if earlier is None or later is None or earlier.bounds != later.bounds:
            continue
        before, after = by_bounds.setdefault(later.bounds, ([], []))
        after.append(later)
        if later.count >= earlier.count:
            before.append(earlier)
    sums = [_difference(bounds, *by_bounds[bounds]) for bounds in sorted(by_bounds)]
    return max(sums, key=lambda latency: latency.count, default=None)


def _difference(bounds: tuple[float, ...], before: list[HistogramSample], after: list[HistogramSample]) -> Latency:
    nothing = (0.0,) * len(bounds)
    ended = map(sum, zip(*(histogram.counts for histogram in after), strict=True))
    began = map(sum, zip(nothing, *(histogram.counts for histogram in before), strict=True))
    return Latency(
        bounds,
        tuple(map(sub, ended, began)),
        fsum(histogram.sum for histogram in after) - fsum(histogram.sum for histogram in before),
    )
