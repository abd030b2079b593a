"""One virtual clock: what is due, in order. Nothing here or above it asks for the real time.

What is due at the same moment happens in the order in which it was announced, so a run depends on its inputs alone.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from math import inf


class Timeline:
    """`now` is in seconds since the beginning of the simulation."""

    def __init__(self) -> None:
        self.now = 0.0
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()

    @property
    def next_time(self) -> float:
        """When the next thing is due; infinite when there is nothing."""
        return self._due[0][0] if self._due else inf

    def at(self, time: float, act: Callable[[], None]) -> None:
        """Do this at `time`, or as soon as possible when that is past."""
        heappush(self._due, (max(time, self.now), next(self._order), act))

    def after(self, seconds: float, act: Callable[[], None]) -> None:
        """Do this in so many seconds."""
        self.at(self.now + seconds, act)

    def pass_to(self, time: float) -> None:
        """Do everything that is due up to and at `time`."""
        while self._due and self._due[0][0] <= time:
            due, _, act = heappop(self._due)
            self.now = due
            act()
        self.now = max(self.now, time)
