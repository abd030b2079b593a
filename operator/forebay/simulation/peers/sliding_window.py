"""A sliding window of (time, value): what most rules remember."""

from collections import deque
from math import fsum


class SlidingWindow:
    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._seen: deque[tuple[float, float]] = deque()

    def add(self, now: float, value: float) -> None:
        """Take in a value; what is older than the window goes."""
        self._seen.append((now, value))
        while self._seen[0][0] <= now - self._seconds:
            self._seen.popleft()

    def begin(self, now: float, value: float) -> None:
        """What a rule finds at its first look counts as asked for; later looks have it in the window already."""
        if not self._seen:
            self.add(now, value)

    @property
    def mean(self) -> float:
        return fsum(value for _, value in self._seen) / len(self._seen)

    @property
    def highest(self) -> float:
        return max(value for _, value in self._seen)

    @property
    def lowest(self) -> float:
        return min(value for _, value in self._seen)
