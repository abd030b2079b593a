"""Growth: how much the arriving work grows while a replica starts, learned from the last days of the service.

A replica that is created at time t serves at t + L, with L the lead time. The growth is (A(t+L) + u)/(A(t) + u) - 1,
with A the arriving work and u the capacity of one replica, both in GPU-seconds per second. Adding u bounds the growth
of a service that starts from no load. The margin is the 95 % quantile (DESIGN §5). Growth is counted per day in steps
of 2 %, so memory is bounded and the oldest day is dropped as a whole.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import ceil, isfinite
from typing import Final

from forebay.scaling.decision import ROUNDING

QUANTILE: Final = 0.95
STEP: Final = 0.02
LARGEST_STEP: Final = 50
"""Steps to a doubling. A larger growth counts as a doubling, since the headroom is never larger."""
MOST_DAYS: Final = 3
"""Days that are kept, the newest that have readings. A day without readings says nothing about growth."""
DAY_SECONDS: Final = 86400
SPACING_SECONDS: Final = 60.0
"""Smallest time between two readings; arriving work is smoothed over the same time."""
LONGEST_LEAD_SECONDS: Final = 3600.0
MOST_READINGS: Final = 64
ENOUGH_PAIRS: Final = 60
"""One hour of pairs. With fewer pairs the growth is unknown, and headroomPercent alone sets the margin."""


@dataclass(frozen=True, slots=True)
class Growth:
    days: Mapping[int, Mapping[int, int]] = field(default_factory=dict)
    """For each day since 1970 (UTC): step → number of pairs. Step n covers (n−1)·2 % < growth ≤ n·2 %."""
    readings: tuple[tuple[float, float], ...] = ()
    """(time, arriving work), oldest first. A new reading is compared with the one from a lead time ago."""

    @property
    def pairs(self) -> int:
        return sum(sum(steps.values()) for steps in self.days.values())

    @property
    def fraction(self) -> float:
        """The 95 % quantile of the growth, 0 to 1, rounded up to a step; 0 while too few pairs are known."""
        if self.pairs < ENOUGH_PAIRS:
            return 0.0
        steps: Counter[int] = Counter()
        for counted in self.days.values():
            steps.update(counted)
        rank, reached = ceil(QUANTILE * self.pairs - ROUNDING), 0
        for step in sorted(steps):
            reached += steps[step]
            if reached >= rank:
                return step * STEP
        return 0.0


def update_growth(
    growth: Growth, work: float | None, capacity: float | None, lead_seconds: float, now: float
) -> Growth:
    """The growth with one more reading; the same object when there is no new reading.

    Unknown work gives no reading, so the end of missing metrics does not count as growth.
    """
    if work is None or capacity is None or not (isfinite(work) and isfinite(capacity) and work >= 0 < capacity):
        return growth
    readings = tuple(reading for reading in growth.readings if reading[0] <= now)
    if readings and now - readings[-1][0] < SPACING_SECONDS:
        return growth
    lead_seconds = min(lead_seconds, LONGEST_LEAD_SECONDS)
    before = _reading_at(readings, now - lead_seconds)
    kept = [reading for reading in readings if now - reading[0] <= LONGEST_LEAD_SECONDS + SPACING_SECONDS]
    growth = replace(growth, readings=(*kept, (now, work))[-MOST_READINGS:])
    if before is None:
        return growth
    return replace(growth, days=_counted(growth.days, step_of((work + capacity) / (before + capacity) - 1), now))


def step_of(growth: float) -> int:
    return min(LARGEST_STEP, max(0, ceil(growth / STEP - ROUNDING)))


def _reading_at(readings: tuple[tuple[float, float], ...], at: float) -> float | None:
    """The arriving work at that time; None when no reading is close enough."""
    newest = next((reading for reading in reversed(readings) if reading[0] <= at), None)
    return newest[1] if newest is not None and at - newest[0] < 1.5 * SPACING_SECONDS else None


def _counted(days: Mapping[int, Mapping[int, int]], step: int, now: float) -> dict[int, Mapping[int, int]]:
    today = int(now // DAY_SECONDS)
    steps = days.get(today, {})
    counted = {**days, today: {**steps, step: steps.get(step, 0) + 1}}
    return {day: counted[day] for day in sorted(counted)[-MOST_DAYS:]}
