"""Water-filling: one total among neighbours by weight, each between a lower and an upper bound.

Everybody gets min(max(weight × θ, low), high) for the one level θ at which the amounts add up to the total (weighted
max-min fairness). `fill_amounts` divides real amounts, `fill_units` whole ones. Both expect
sum(lows) ≤ total ≤ sum(highs) and give all lows, or all highs, beyond that.

Real amounts are floats. Exact fractions would cost fifty times as much, and a token per minute more or less decides
nothing: sums agree with the total within 1e-9 of it. The units of `fill_units` are exact.
"""

from collections.abc import Callable, Sequence
from fractions import Fraction
from heapq import heapify, heappop, heapreplace
from math import floor
from operator import neg, truediv
from typing import Final

Fill = Callable[[Sequence[float], Sequence[float], Sequence[float], float], Sequence[float]]
"""(lows, highs, weights, total) to amounts. A weight may be 0 where low and high are equal."""
BELOW: Final = 1 - 1e-9
"""Part of a level that rounding errors cannot reach from above."""


def fill_amounts(
    lows: Sequence[float], highs: Sequence[float], weights: Sequence[float], total: float
) -> Sequence[float]:
    """Real amounts. Sorts once: O(n log n)."""
    if total >= sum(highs):
        return highs
    if total <= sum(lows):
        return lows
    theta = level(lows, highs, weights, total)
    return [
        low if (amount := weight * theta) < low else high if amount > high else amount
        for low, high, weight in zip(lows, highs, weights, strict=True)
    ]


def fill_units(
    lows: Sequence[float], highs: Sequence[float], weights: Sequence[float], total: float
) -> Sequence[float]:
    """Whole units: the next one goes to the lowest (granted + 1) ÷ weight below its upper bound, then to the first.

    Bounds and total are whole numbers. Up to any level the outcome does not depend on the way there, so the units
    below the real level are given at once, and only the last ones one by one; there are fewer than neighbours.
    """
    if total >= sum(highs):
        return highs
    if total <= sum(lows):
        return lows
    theta = level(lows, highs, weights, total) * BELOW
    units = [min(max(floor(weight * theta), low), high) for low, high, weight in zip(lows, highs, weights, strict=True)]
    exact = [Fraction(weight) for weight in weights]
    following = [(int(unit + 1) / exact[i], i) for i, unit in enumerate(units) if unit < highs[i]]
    heapify(following)
    for _ in range(int(total - sum(units))):
        i = following[0][1]
        units[i] += 1
        if units[i] < highs[i]:
            heapreplace(following, (int(units[i] + 1) / exact[i], i))
        else:
            heappop(following)
    return units


def level(lows: Sequence[float], highs: Sequence[float], weights: Sequence[float], total: float) -> float:
    """θ with Σ min(max(weight × θ, low), high) = total, for sum(lows) < total < sum(highs) and weights above 0.

    The sum is linear between the levels at which anybody begins to rise, from its lower bound, or ends, at its upper
    one; nobody reaches a bound that is not below the total. These levels are sorted and passed in their order, until
    the sum covers the total.
    """
    ends, ending = highs, weights
    if max(highs) >= total:
        ends = [high for high in highs if high < total]
        ending = [weight for high, weight in zip(highs, weights, strict=True) if high < total]
    turns, changes = list(map(truediv, ends, ending)), list(map(neg, ending))
    slope = sum(weights)
    if any(lows):
        begins = [(low, weight) for low, weight in zip(lows, weights, strict=True) if low]
        turns += [low / weight for low, weight in begins]
        changes += [weight for _, weight in begins]
        slope = sum([weight for low, weight in zip(lows, weights, strict=True) if not low])
    theta, reached = 0.0, sum(lows)
    for turn in sorted(range(len(turns)), key=turns.__getitem__):
        following = turns[turn]
        reached_there = reached + slope * (following - theta)
        if reached_there >= total:
            return theta + (total - reached) / slope if slope else following
        theta, slope, reached = following, slope + changes[turn], reached_there
    return theta + (total - reached) / slope if slope else theta
