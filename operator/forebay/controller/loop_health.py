"""LoopHealth: the state of the planner loop, in one record that the health endpoints and the metrics read.

A restart does not help when the API server does not answer, when the CRDs are missing, or when the operator lacks
rights, and it throws away the watch caches. So in these cases the process counts as alive, though not as ready, as long
as it keeps trying. A tick with thousands of writes counts as alive while the writes are answered. Any other failure
that lasts longer than the limit, and a loop that hangs, make the process count as dead.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

from forebay.cluster.client.kube_api import FORBIDDEN, NO_ANSWER, NOT_FOUND, ApiError
from forebay.cluster.client.server_clock import is_skewed, skew_text

TOO_MANY_REQUESTS = 429
SERVER_ERROR = 500


def external_cause(error: BaseException) -> str | None:
    """What has to change outside the operator before a tick can succeed; None for faults of the operator itself."""
    if not isinstance(error, ApiError):
        return None
    if error.status in (NO_ANSWER, TOO_MANY_REQUESTS) or error.status >= SERVER_ERROR:
        return "the cluster cannot be read"
    if error.status == NOT_FOUND:
        return "the cluster does not serve InferenceServices; apply the CRDs, which `forebay crds` prints"
    if error.status == FORBIDDEN:
        return "the operator's service account lacks a permission; the chart's roles grant all of them"
    return None


@dataclass(slots=True)
class LoopHealth:
    """All times are monotonic seconds."""

    limit_seconds: float
    """The process counts as dead when the last successful tick is older than this."""
    started_at: float
    last_attempt_at: float | None = None
    """When the last tick ended, successful or not."""
    last_tick_at: float | None = None
    """When the last successful tick ended."""
    last_write_at: float | None = None
    """When the API server last answered a write; it shows that a long tick does not hang."""
    error: str | None = None
    """Why the last tick failed; None when it succeeded."""
    cause: str | None = None
    """The external cause of that failure; None when the fault is the operator's own."""
    leading: bool = False
    skew_seconds: Callable[[], float | None] = lambda: None
    """How far the operator's clock is ahead of the API server's. It is shown, and makes nothing unhealthy."""

    def tick_succeeded(self, now: float) -> None:
        self.last_attempt_at = self.last_tick_at = now
        self.error = None
        self.cause = None

    def tick_failed(self, now: float, error: BaseException) -> None:
        self.last_attempt_at = now
        self.error = f"{type(error).__name__}: {error}"
        self.cause = external_cause(error)

    def write_answered(self, now: float) -> None:
        self.last_write_at = now

    def tick_age_seconds(self, now: float) -> float:
        """Seconds since the last successful tick, or since the start when there was none."""
        return now - (self.started_at if self.last_tick_at is None else self.last_tick_at)

    def attempt_age_seconds(self, now: float) -> float:
        """Seconds since the last tick ended, successful or not, or since the start when there was none."""
        return now - (self.started_at if self.last_attempt_at is None else self.last_attempt_at)

    def is_alive(self, now: float) -> bool:
        """Whether to leave the process running; False makes the kubelet restart it."""
        age = self.attempt_age_seconds(now) if self.cause else self.tick_age_seconds(now)
        return min(age, self._write_age_seconds(now)) <= self.limit_seconds

    def is_ready(self, now: float) -> bool:
        """Whether the view of the cluster is current. A standby is ready too, since it can take over."""
        if self.last_tick_at is None:
            return False
        return min(self.tick_age_seconds(now), self._write_age_seconds(now)) <= self.limit_seconds

    def _write_age_seconds(self, now: float) -> float:
        return math.inf if self.last_write_at is None else now - self.last_write_at

    def describe(self, now: float) -> str:
        """One sentence for the body of a health response."""
        role = "leading" if self.leading else "standing by"
        seconds = f"{self.tick_age_seconds(now):.1f} s"
        age = f"last good tick {seconds} ago" if self.last_tick_at is not None else f"no good tick yet, {seconds} old"
        age += f", limit {self.limit_seconds:g} s"
        skew_seconds = self.skew_seconds()
        if skew_seconds is not None and is_skewed(skew_seconds):
            age += f"; {skew_text(skew_seconds)}"
        if self.error is None:
            return f"{role}; {age}"
        return f"{role}; {age}; {self.cause or 'the last tick failed'}: {self.error}"
