"""Observed latency: latencies of the recent past, computed from cumulative histograms.

Engines count since they started, so recent latencies are the difference of two scrapes. A histogram that did not change
means that there were no observations, not that all of them were fast.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import fsum, isinf
from operator import sub

from forebay.scaling.load.signals import HistogramSample


@dataclass(frozen=True, slots=True)
class Latency:
    """Distribution of one kind of latency over a time span. Several rules ask for the same quantile, so it is kept."""

    bounds: tuple[float, ...]
    counts: tuple[float, ...]
    """Cumulative counts, as in HistogramSample."""
    sum: float
    _quantiles: dict[float, float | None] = field(default_factory=dict, init=False, compare=False, repr=False)

    @property
    def count(self) -> float:
        return self.counts[-1] if self.counts else 0.0

    @property
    def mean_seconds(self) -> float | None:
        """None when nothing was observed."""
        return self.sum / self.count if self.count > 0 else None

    def quantile_seconds(self, quantile: float) -> float | None:
        """The quantile, by linear interpolation inside the bucket; None when nothing was observed.

        Above the last finite bound nothing is known, so the result is that bound (as in Prometheus).
        """
        if quantile not in self._quantiles:
            self._quantiles[quantile] = self._quantile(quantile)
        return self._quantiles[quantile]

    def _quantile(self, quantile: float) -> float | None:
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
        """Number of observations above the limit, by the same interpolation."""
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
"""One pod's histogram at the beginning and at the end of a time span."""


def latency_of(spans: Iterable[Span]) -> Latency | None:
    """The latency over all pods of a service; None when no pod has the histogram.

    A count that went down means that the engine restarted, so all of its present observations are recent. Pods of two
    engine versions may have different buckets; the buckets with the most observations are used then.
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
