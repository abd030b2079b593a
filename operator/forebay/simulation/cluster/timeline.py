"""The virtual clock of a simulation, with a queue of scheduled calls. No part of the simulation reads the real time.

Calls that are due at the same time run in the order in which they were scheduled, so a run depends only on its inputs.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from math import inf


class Timeline:
    """A clock and its scheduled calls; `now` is in seconds since the simulation began."""

    def __init__(self) -> None:
        self.now = 0.0
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()

    @property
    def next_time(self) -> float:
        """When the next call is due; infinite if there is none."""
        return self._due[0][0] if self._due else inf

    def at(self, time: float, act: Callable[[], None]) -> None:
        """Schedule a call at `time`, or now if that time has passed."""
        heappush(self._due, (max(time, self.now), next(self._order), act))

    def after(self, seconds: float, act: Callable[[], None]) -> None:
        """Schedule a call in `seconds` from now."""
        self.at(self.now + seconds, act)

    def pass_to(self, time: float) -> None:
        """Run all calls that are due up to and at `time`, and set the clock to it."""
        while self._due and self._due[0][0] <= time:
            due, _, act = heappop(self._due)
            self.now = due
            act()
        self.now = max(self.now, time)
