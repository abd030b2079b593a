"""The traffic over a day, and the share of it that a base of always running replicas serves.

Without a trace the day has one peak. Its mean and its peak are those of the manifest; the rate rises and falls as a
cosine, raised to a power for higher peaks.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from math import cos, exp, lgamma, log, pi
from typing import Final

SLOTS: Final = 288
"""Slots of a day, of five minutes each: about the time in which replicas start and stop."""
MOST_ROWS: Final = 24
"""Largest number of base sizes to show; of larger fleets every n-th size is shown."""
_LARGEST_COSINE_PEAK: Final = 2.0
"""Largest peak factor that a plain cosine can have; higher ones need a narrower peak with quiet nights."""


@dataclass(frozen=True, slots=True)
class Base:
    """A number of replicas that always run, and the share of the traffic that they serve."""

    replicas: int
    share_of_requests: float
    """Share of the requests that these replicas serve, 0 to 1; the rest spills over."""
    share_of_time: float
    """Share of the time in which these replicas serve all requests."""


@lru_cache(maxsize=256)
def day_rates(peak_factor: float) -> tuple[float, ...]:
    """Rates over a day as multiples of the average: their mean is 1 and their largest the peak factor.

    (From a factor of some hundreds on, the peak is shorter than a slot and the mean of the slots is above 1.)
    """
    if peak_factor <= _LARGEST_COSINE_PEAK:
        return tuple(1 + (peak_factor - 1) * _wave(slot) for slot in range(SLOTS))
    power = _sharpness(1 / peak_factor)
    return tuple(peak_factor * ((1 + _wave(slot)) / 2) ** power for slot in range(SLOTS))


def recorded_rates(times: Iterable[float], slot_seconds: float = 60.0) -> tuple[float, ...]:
    """Rates of a recording as multiples of its average, for each whole slot; a recording shorter than two slots gives
    the single rate 1."""
    offsets = sorted(times)
    if not offsets or offsets[-1] - offsets[0] < 2 * slot_seconds:
        return (1.0,)
    slots = int((offsets[-1] - offsets[0]) // slot_seconds)
    counts = [0] * slots
    for offset in offsets:
        slot = int((offset - offsets[0]) // slot_seconds)
        if slot < slots:
            counts[slot] += 1
    mean = sum(counts) / slots
    return tuple(count / mean for count in counts)


def bases(rates: Sequence[float], average: float, replica_rate: float, most: int) -> tuple[Base, ...]:
    """The bases from 0 to `most` replicas, where one replica serves `replica_rate` requests per second and the traffic
    has `average` requests per second."""
    step = max(1, -(-most // MOST_ROWS))
    ordered = sorted(rates)
    sums = [0.0, *accumulate(ordered)]
    result = []
    for replicas in (*range(0, most, step), most):
        limit = replicas * replica_rate / average
        slots_served = bisect_right(ordered, limit * (1 + 1e-9))
        served = sums[slots_served] + limit * (len(ordered) - slots_served)
        result.append(Base(replicas, served / sums[-1], slots_served / len(ordered)))
    return tuple(result)


def _wave(slot: int) -> float:
    """A cosine over the day: −1 at midnight, 1 at noon."""
    return -cos(2 * pi * slot / SLOTS)


def _sharpness(mean: float) -> float:
    """The power at which the mean of ((1 + cos)/2)^power is this share of its peak, by bisection."""
    low, high = 0.0, 1.0
    while _power_mean(high) > mean:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _power_mean(middle) > mean else (low, middle)
    return high


def _power_mean(power: float) -> float:
    """Mean of ((1 + cos)/2)^power over its period: Γ(power + ½) / (√π·Γ(power + 1))."""
    return exp(lgamma(power + 0.5) - lgamma(power + 1) - log(pi) / 2)
