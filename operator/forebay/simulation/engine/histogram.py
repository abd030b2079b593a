"""Histograms with vLLM's bucket bounds, which a simulated engine fills and exports as Prometheus histograms."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

FIRST_TOKEN_BOUNDS: Final = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0),
    *(2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0),
)
INTER_TOKEN_BOUNDS: Final = (
    *(0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0),
    *(2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0),
)
REQUEST_BOUNDS: Final = (
    *(0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0),
    *(120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0),
)
STEP_TOKEN_BOUNDS: Final = (1.0, *(float(2**power) for power in range(3, 15)))
PREEMPTION_BOUNDS: Final = (1.0, 2.0, 3.0, 4.0, 5.0, 10.0, 20.0)
CHOICE_BOUNDS: Final = (1.0, 2.0, 5.0, 10.0, 20.0)


def token_bounds(max_model_len: int) -> tuple[float, ...]:
    """vLLM's bucket bounds for token counts: 1, 2, 5, 10, 20, 50, … up to `max_model_len`."""
    bounds: list[float] = []
    power = 1
    while True:
        for digit in (1, 2, 5):
            if digit * power > max_model_len:
                return tuple(bounds)
            bounds.append(float(digit * power))
        power *= 10


class BucketHistogram:
    """Counts per bucket (not cumulative; the last bucket is +Inf) and the sum of the observed values."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    @property
    def count(self) -> int:
        """The number of observed values."""
        return sum(self.counts)

    @property
    def mean(self) -> float:
        """Mean of the observed values; 0 if there are none."""
        return self.total / self.count if self.count else 0.0

    def observe(self, value: float, times: int = 1) -> None:
        """Count `value`, `times` over."""
        self.counts[bisect_left(self.bounds, value)] += times
        self.total += value * times

    def observe_ramp(self, first: float, slope: float, steps: int, times: int) -> None:
        """Count `steps` values `first`, `first + slope`, …, each `times` over; `slope` must not be negative."""
        last = first + slope * (steps - 1)
        self.total += times * steps * (first + last) / 2
        bucket, end = bisect_left(self.bounds, first), bisect_left(self.bounds, last)
        counted = 0
        while bucket < end:
            within = min(steps, max(counted, int((self.bounds[bucket] - first) / slope) + 1))
            self.counts[bucket] += (within - counted) * times
            counted = within
            bucket += 1
        self.counts[end] += (steps - counted) * times
