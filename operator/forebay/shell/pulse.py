"""Pulse: how the loop is doing, as one record that health checks and metrics read.

An API server that does not answer is not the loop's illness: a restart would not cure it and would throw away what was
watched. So an outage keeps the process alive as long as the loop goes on trying, and a tick that has thousands of
writes to make is alive while it makes them. Every other lasting failure, and a loop that stands still, turns it red.
"""

from dataclasses import dataclass

from forebay.cluster.kube_api import ApiError


def is_outage(error: BaseException) -> bool:
    """The API server gave no answer, asked to wait, or failed by itself; trying again is all there is to do."""
    return isinstance(error, ApiError) and (error.status in (0, 429) or error.status >= 500)


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
    outage: bool = False
    leading: bool = False

    def beat(self, now: float) -> None:
        self.last_turn_at = self.last_tick_at = now
        self.error = None
        self.outage = False

    def miss(self, now: float, error: BaseException) -> None:
        self.last_turn_at = now
        self.error = f"{type(error).__name__}: {error}"
        self.outage = is_outage(error)

    def wrote(self, now: float) -> None:
        self.last_write_at = now

    def tick_age_seconds(self, now: float) -> float:
        """Since the last good tick, or since the start when there was none."""
        return now - (self.started_at if self.last_tick_at is None else self.last_tick_at)

    def turn_age_seconds(self, now: float) -> float:
        return now - (self.started_at if self.last_turn_at is None else self.last_turn_at)

    def is_alive(self, now: float) -> bool:
        age = self.turn_age_seconds(now) if self.outage else self.tick_age_seconds(now)
        if self.last_write_at is not None:
            age = min(age, now - self.last_write_at)
        return age <= self.limit_seconds

    @property
    def is_ready(self) -> bool:
        """The caches have been filled once. A standby is ready too: it could lead."""
        return self.last_tick_at is not None

    def describe(self, now: float) -> str:
        """One sentence for the body of a health check."""
        role = "leading" if self.leading else "standing by"
        seconds = f"{self.tick_age_seconds(now):.1f} s"
        age = f"last good tick {seconds} ago" if self.last_tick_at is not None else f"no good tick yet, {seconds} old"
        age += f", limit {self.limit_seconds:g} s"
        if self.error is None:
            return f"{role}; {age}"
        cause = "no view of the cluster" if self.outage else "the last tick failed"
        return f"{role}; {age}; {cause}: {self.error}"
