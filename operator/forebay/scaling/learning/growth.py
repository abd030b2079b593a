"""Growth: by how much the arriving work grows while a replica starts, learned from the service's own last days.

Replicas that are ordered now serve one lead time L from now, so what matters is (A(t+L) + u)/(A(t) + u) for arriving
work A and a replica's capacity u, both in GPU-seconds per second. Adding u keeps a service that rests from growing
without bounds. Its 95 % quantile is the margin (DESIGN §5). In steps of 2 %, counted per day, so the memory is
bounded and the oldest day fades as a whole.
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
"""Steps to a doubling. More counts as a doubling, since the headroom never goes beyond it."""
MOST_DAYS: Final = 3
"""The newest days on which anything was seen. Days without are no days without growth."""
DAY_SECONDS: Final = 86400
SPACING_SECONDS: Final = 60.0
"""Between two readings; arriving work is smoothed over as long."""
LONGEST_LEAD_SECONDS: Final = 3600.0
MOST_READINGS: Final = 64
ENOUGH_PAIRS: Final = 60
"""An hour of pairs. With fewer the growth is not known, and headroomPercent stands alone."""


@dataclass(frozen=True, slots=True)
class Growth:
    days: Mapping[int, Mapping[int, int]] = field(default_factory=dict)
    """By day since 1970 (UTC): how often the growth fell into which step. Step n is (n−1)·2 % < growth ≤ n·2 %."""
    readings: tuple[tuple[float, float], ...] = ()
    """(time, arriving work) of the last lead time, oldest first, that later ones are compared with."""

    @property
    def pairs(self) -> int:
        return sum(sum(steps.values()) for steps in self.days.values())

    @property
    def fraction(self) -> float:
        """The growth that 95 % of all lead times kept to, 0 to 1, at most a step above the exact one.

        0 while too little is known.
        """
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


def observed_growth(
    growth: Growth, work: float | None, capacity: float | None, lead_seconds: float, now: float
) -> Growth:
    """With one more look at the arriving work; the same object when it teaches nothing.

    Unknown work is no reading, so nothing is compared across a silence, whose end is no growth.
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
    """What arrived then; None when nobody looked around that time."""
    newest = next((reading for reading in reversed(readings) if reading[0] <= at), None)
    return newest[1] if newest is not None and at - newest[0] < 1.5 * SPACING_SECONDS else None


def _counted(days: Mapping[int, Mapping[int, int]], step: int, now: float) -> dict[int, Mapping[int, int]]:
    today = int(now // DAY_SECONDS)
    steps = days.get(today, {})
    counted = {**days, today: {**steps, step: steps.get(step, 0) + 1}}
    return {day: counted[day] for day in sorted(counted)[-MOST_DAYS:]}
