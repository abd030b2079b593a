"""The shape of traffic over a day, and what a reserved base of each size serves of it.

Without a trace the day is one hump: its mean and its peak are those of the manifest, and between them it rises and
falls as a cosine, sharper for higher peaks.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from math import cos, exp, lgamma, log, pi
from typing import Final

SLOTS: Final = 288
"""Five minutes each: as fine as replicas come and go."""
MOST_ROWS: Final = 24
"""Base sizes that are shown; of larger fleets, evenly spread ones."""
_GENTLE: Final = 2.0
"""Up to this peak factor a cosine alone has it; higher ones need a sharper hump with quiet nights."""


@dataclass(frozen=True, slots=True)
class Base:
    """A number of replicas that always run, and what they serve."""

    replicas: int
    share_of_requests: float
    """Served by them, 0 to 1; the rest spills over."""
    share_of_time: float
    """For which they are enough."""


@lru_cache(maxsize=256)
def day(peak_factor: float) -> tuple[float, ...]:
    """Rates over a day as multiples of the average: their mean is 1 and their largest the peak factor.

    (From a factor of some hundreds on the peak is shorter than a slot, and the mean of the slots is above 1.)
    """
    if peak_factor <= _GENTLE:
        return tuple(1 + (peak_factor - 1) * _wave(slot) for slot in range(SLOTS))
    power = _sharpness(1 / peak_factor)
    return tuple(peak_factor * ((1 + _wave(slot)) / 2) ** power for slot in range(SLOTS))


def recorded(times: Iterable[float], slot_seconds: float = 60.0) -> tuple[float, ...]:
    """Rates of a recording as multiples of its average, for each whole slot; 1 for one too short to tell."""
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
    """What each base from 0 to `most` replicas serves, when one serves `replica_rate` of requests a second."""
    step = max(1, -(-most // MOST_ROWS))
    ordered = sorted(rates)
    below = [0.0, *accumulate(ordered)]
    found = []
    for size in (*range(0, most, step), most):
        limit = size * replica_rate / average
        enough = bisect_right(ordered, limit * (1 + 1e-9))
        served = below[enough] + limit * (len(ordered) - enough)
        found.append(Base(size, served / below[-1], enough / len(ordered)))
    return tuple(found)


def _wave(slot: int) -> float:
    """−1 at midnight, 1 at noon."""
    return -cos(2 * pi * slot / SLOTS)


def _sharpness(mean: float) -> float:
    """The power of a cosine's hump whose mean is this share of its peak, by halving."""
    low, high = 0.0, 1.0
    while _hump_mean(high) > mean:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _hump_mean(middle) > mean else (low, middle)
    return high


def _hump_mean(power: float) -> float:
    """Mean of ((1 + cos)/2)^power over its period: Γ(power + ½) / (√π·Γ(power + 1))."""
    return exp(lgamma(power + 0.5) - lgamma(power + 1) - log(pi) / 2)
