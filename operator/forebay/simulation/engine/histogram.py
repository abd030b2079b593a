"""Histograms as Prometheus keeps them, with vLLM's bucket bounds."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

FIRST_TOKEN_SECONDS: Final = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0),
    *(2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0),
)
TOKEN_SECONDS: Final = (
    *(0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0),
    *(2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0),
)
REQUEST_SECONDS: Final = (
    *(0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0),
    *(120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0),
)
STEP_TOKENS: Final = (1.0, *(float(2**power) for power in range(3, 15)))
PREEMPTIONS: Final = (1.0, 2.0, 3.0, 4.0, 5.0, 10.0, 20.0)
CHOICES: Final = (1.0, 2.0, 5.0, 10.0, 20.0)


def token_bounds(max_model_len: int) -> tuple[float, ...]:
    """1, 2, 5, 10, 20, 50, … up to the longest request the engine takes."""
    bounds: list[float] = []
    power = 1
    while True:
        for digit in (1, 2, 5):
            if digit * power > max_model_len:
                return tuple(bounds)
            bounds.append(float(digit * power))
        power *= 10


class BucketHistogram:
    """Counts per bucket (not cumulative; the last one is +Inf) and the sum of what was observed."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    @property
    def count(self) -> int:
        """How many values were observed."""
        return sum(self.counts)

    @property
    def mean(self) -> float:
        """Mean of what was observed; 0 while nothing was."""
        return self.total / self.count if self.count else 0.0

    def observe(self, value: float, times: int = 1) -> None:
        """Take `value` in, `times` over."""
        self.counts[bisect_left(self.bounds, value)] += times
        self.total += value * times

    def observe_ramp(self, first: float, slope: float, steps: int, times: int) -> None:
        """Take in `first`, `first + slope`, … for `steps` values, each `times` over; the slope is not negative."""
        last = first + slope * (steps - 1)
        self.total += times * steps * (first + last) / 2
        bucket, end = bisect_left(self.bounds, first), bisect_left(self.bounds, last)
        taken = 0
        while bucket < end:
            reached = min(steps, max(taken, int((self.bounds[bucket] - first) / slope) + 1))
            self.counts[bucket] += (reached - taken) * times
            taken = reached
            bucket += 1
        self.counts[end] += (steps - taken) * times
