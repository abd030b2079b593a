"""A sliding window of (time, value), which most rules use as their memory."""

from collections import deque
from math import fsum


class RecentValues:
    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._values: deque[tuple[float, float]] = deque()

    def add(self, now: float, value: float) -> None:
        """Add a value and drop the values that are older than the window."""
        self._values.append((now, value))
        while self._values[0][0] <= now - self._seconds:
            self._values.popleft()

    def begin(self, now: float, value: float) -> None:
        """Add the present count on a rule's first call, as if the rule had proposed it; do nothing on later calls."""
        if not self._values:
            self.add(now, value)

    @property
    def mean(self) -> float:
        return fsum(value for _, value in self._values) / len(self._values)

    @property
    def highest(self) -> float:
        return max(value for _, value in self._values)

    @property
    def lowest(self) -> float:
        return min(value for _, value in self._values)
