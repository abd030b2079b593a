"""Pool gate: how much work a pool takes at a time.

A bucket at the pool's capacity paces what starts, with a margin that finds capacity nobody has measured yet. Beside it
stands what the engines say: a capacity that is set too high fills their queues and KV caches, and then nothing starts.
"""

from dataclasses import dataclass
from enum import StrEnum

from forebay.admission.token_bucket import TokenBucket


class PoolPhase(StrEnum):
    """What a pool has to serve with."""

    SERVING = "serving"
    STARTING = "starting"
    """No replica serves yet."""
    ABSENT = "absent"
    """No replica serves, and none is on its way."""


@dataclass(frozen=True, slots=True)
class PoolState:
    """A pool as it was last seen. What is unknown is None and closes nothing."""

    tokens_per_minute: float
    """Capacity of the replicas that serve, in normalized tokens."""
    phase: PoolPhase = PoolPhase.SERVING
    in_flight_tokens: float | None = None
    """Of requests under way, as the engines know them."""
    kv_fraction: float | None = None
    queue_depth: float | None = None
    """Requests that wait in the engines, per replica."""
    ready_in_seconds: float | None = None
    """Time until the first replica is expected to serve; None if unknown, or if one serves."""


@dataclass(frozen=True, slots=True)
class GateLimits:
    probe_margin: float = 0.05
    """Part of the capacity by which the pool may be filled beyond it."""
    burst_seconds: float = 1.0
    in_flight_seconds: float = 60.0
    """Capacity that may be under way at once, in seconds of it."""
    kv_fraction: float = 0.9
    queue_depth: float = 20.0


class PoolGate:
    """The pool's bucket and what the engines say about themselves."""

    def __init__(self, limits: GateLimits, now: float) -> None:
        self._limits = limits
        self._bucket = TokenBucket.full(0.0, limits.burst_seconds, now)
        self._pool = PoolState(0.0, PoolPhase.ABSENT)

    def see(self, pool: PoolState, now: float) -> None:
        """A new reading. The first capacity after none is there at once, and no earlier."""
        self._pool = pool
        rate = pool.tokens_per_minute * (1 + self._limits.probe_margin)
        self._bucket.change_rate(rate, self._limits.burst_seconds, now)

    def is_open(self, in_flight: float, now: float) -> bool:
        """`in_flight` tokens are under way by the scheduler's own count, which is newer than any reading."""
        pool, limits = self._pool, self._limits
        if pool.phase is not PoolPhase.SERVING or not self._bucket.has_any(now):
            return False
        if max(in_flight, pool.in_flight_tokens or 0.0) >= limits.in_flight_seconds * pool.tokens_per_minute / 60:
            return False
        if pool.kv_fraction is not None and pool.kv_fraction >= limits.kv_fraction:
            return False
        return pool.queue_depth is None or pool.queue_depth < limits.queue_depth

    def charge(self, tokens: float, now: float) -> None:
        self._bucket.charge(tokens, now)
