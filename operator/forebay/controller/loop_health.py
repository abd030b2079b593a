"""Pulse: how the loop is doing, as one record that health checks and metrics read.

An API server that does not answer, or has neither our CRDs nor our rights, is not the loop's illness: a restart would
not cure it and would throw away what was watched. So the process is alive as long as it goes on trying, though not
ready, and a tick that has thousands of writes to make is alive while it makes them. Every other lasting failure, and a
loop that stands still, turns it red.
"""

import math
from dataclasses import dataclass

from forebay.cluster.client.kube_api import FORBIDDEN, NO_ANSWER, NOT_FOUND, ApiError

TOO_MANY_REQUESTS = 429
SERVER_ERROR = 500


def waits_for(error: BaseException) -> str | None:
    """What has to change outside before an attempt can succeed, as a sentence; None for faults of our own."""
    if not isinstance(error, ApiError):
        return None
    if error.status in (NO_ANSWER, TOO_MANY_REQUESTS) or error.status >= SERVER_ERROR:
        return "no view of the cluster"
    if error.status == NOT_FOUND:
        return "the cluster does not serve InferenceServices; apply the CRDs, which `forebay crds` prints"
    if error.status == FORBIDDEN:
        return "the operator's service account lacks a right; the chart's roles grant all of them"
    return None


@dataclass(slots=True)
class Pulse:
    """Times are monotonic seconds."""

    limit_seconds: float
    """Without a good tick for longer, the process counts as dead."""
    started_at: float
    last_turn_at: float | None = None
    """End of the last attempt, good or bad."""
    last_tick_at: float | None = None
    """End of the last good tick."""
    last_write_at: float | None = None
    """Answer to the last write of a tick; a long tick is not a hanging one."""
    error: str | None = None
    """Why the last attempt failed; None when it was good."""
    waiting: str | None = None
    """What has to change outside before an attempt can succeed."""
    leading: bool = False

    def beat(self, now: float) -> None:
        self.last_turn_at = self.last_tick_at = now
        self.error = None
        self.waiting = None

    def miss(self, now: float, error: BaseException) -> None:
        self.last_turn_at = now
        self.error = f"{type(error).__name__}: {error}"
        self.waiting = waits_for(error)

    def wrote(self, now: float) -> None:
        self.last_write_at = now

    def tick_age_seconds(self, now: float) -> float:
        """Since the last good tick, or since the start when there was none."""
        return now - (self.started_at if self.last_tick_at is None else self.last_tick_at)

    def turn_age_seconds(self, now: float) -> float:
        return now - (self.started_at if self.last_turn_at is None else self.last_turn_at)

    def is_alive(self, now: float) -> bool:
        age = self.turn_age_seconds(now) if self.waiting else self.tick_age_seconds(now)
        return min(age, self._write_age_seconds(now)) <= self.limit_seconds

    def is_ready(self, now: float) -> bool:
        """The cluster is in view. A standby is ready too: it could lead."""
        if self.last_tick_at is None:
            return False
        return min(self.tick_age_seconds(now), self._write_age_seconds(now)) <= self.limit_seconds

    def _write_age_seconds(self, now: float) -> float:
        return math.inf if self.last_write_at is None else now - self.last_write_at

    def describe(self, now: float) -> str:
        """One sentence for the body of a health check."""
        role = "leading" if self.leading else "standing by"
        seconds = f"{self.tick_age_seconds(now):.1f} s"
        age = f"last good tick {seconds} ago" if self.last_tick_at is not None else f"no good tick yet, {seconds} old"
        age += f", limit {self.limit_seconds:g} s"
        if self.error is None:
            return f"{role}; {age}"
        return f"{role}; {age}; {self.waiting or 'the last tick failed'}: {self.error}"
