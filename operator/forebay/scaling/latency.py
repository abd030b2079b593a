"""Latencies of the recent past, read from cumulative histograms.

Engines count since they started. What happened lately is the difference of two scrapes; a histogram that has not moved
says that nobody waited, not that everybody was fast.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from math import fsum, isinf

from forebay.scaling.signals import Histogram


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


def between(earlier: Histogram | None, later: Histogram | None) -> Latency | None:
    """What was observed between two scrapes of one pod; None when it cannot be told.

    Counts that went down mean a restart in between: everything that is counted now came after it.
    """
    if earlier is None or later is None or earlier.bounds != later.bounds:
        return None
    if later.count < earlier.count:
        return Latency(later.bounds, later.counts, later.sum)
    counts = tuple(max(0.0, new - old) for new, old in zip(later.counts, earlier.counts, strict=True))
    return Latency(later.bounds, counts, max(0.0, later.sum - earlier.sum))


def merged(parts: Iterable[Latency | None]) -> Latency | None:
    """One service's latency over its pods.

    Pods of two engine versions may use different buckets; those with most observations then speak for all.
    """
    by_bounds: dict[tuple[float, ...], list[Latency]] = {}
    for part in parts:
        if part is not None:
            by_bounds.setdefault(part.bounds, []).append(part)
    sums = [
        Latency(bounds, tuple(map(fsum, zip(*(part.counts for part in same), strict=True))), fsum(p.sum for p in same))
        for bounds, same in sorted(by_bounds.items())
    ]
    return max(sums, key=lambda latency: latency.count, default=None)
