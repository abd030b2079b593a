"""Dispatch rate: how fast a tenant's own queue has been moving lately.

A wait is predicted from what was measured, and not from the tenant's share of the capacity: guarantees, weights, limits
and demand of others are all in it, and none of them has to be known.
"""

from dataclasses import dataclass
from math import exp
from typing import Final

MEMORY_SECONDS: Final = 10.0
"""Time after which a measurement counts for 1/e."""
LEAST_SECONDS: Final = 1.0
"""Waiting time below which nothing is known yet."""


@dataclass(slots=True)
class DispatchRate:
    """Only time in which the queue was not empty counts: an idle queue says nothing about how fast it would move."""

    cost: float = 0.0
    seconds: float = 0.0
    measured_at: float | None = None
    """None while the queue is empty."""

    def begin(self, now: float) -> None:
        """The queue is no longer empty."""
        if self.measured_at is None:
            self.measured_at = now

    def end(self, now: float) -> None:
        """The queue is empty."""
        self._advance(now)
        self.measured_at = None

    def dispatched(self, cost: float, now: float) -> None:
        self._advance(now)
        self.cost += cost

    def wait(self, backlog: float, now: float) -> float | None:
        """Seconds until a backlog has been dispatched at this rate; None while it is unknown."""
        self._advance(now)
        if self.seconds < LEAST_SECONDS:
            return None
        return backlog * self.seconds / self.cost if self.cost > 0 else float("inf")

    def _advance(self, now: float) -> None:
        if self.measured_at is None or now <= self.measured_at:
            return
        passed = now - self.measured_at
        kept = exp(-passed / MEMORY_SECONDS)
        self.cost *= kept
        self.seconds = self.seconds * kept + MEMORY_SECONDS * (1 - kept)
        self.measured_at = now
