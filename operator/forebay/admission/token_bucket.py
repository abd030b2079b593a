"""Token bucket: a rate that may be used late, but only so much of it.

A bucket fills with time up to its burst, and is charged what is used. It may be overdrawn, so that one request larger
than the burst is possible and paid for afterwards. Time is an argument.
"""

from dataclasses import dataclass
from typing import Final

EMPTY: Final = 1e-9
"""Tokens that are a rounding error."""


@dataclass(slots=True)
class TokenBucket:
    rate: float
    """Tokens per second."""
    burst: float
    """The most it holds, in tokens."""
    level: float
    filled_at: float
    """Monotonic seconds up to which it has been filled."""

    @classmethod
    def full(cls, tokens_per_minute: float, burst_seconds: float, now: float) -> "TokenBucket":
        rate = tokens_per_minute / 60
        return cls(rate, rate * burst_seconds, rate * burst_seconds, now)

    def fill(self, now: float) -> float:
        """The level now. Time that runs backwards fills nothing."""
        if now > self.filled_at:
            self.level = min(self.burst, self.level + self.rate * (now - self.filled_at))
            self.filled_at = now
        return self.level

    def has_any(self, now: float) -> bool:
        return self.fill(now) > EMPTY

    def charge(self, tokens: float, now: float) -> None:
        """Negative tokens are given back."""
        self.level = min(self.burst, self.fill(now) - tokens)

    def charge_within_burst(self, tokens: float, now: float) -> None:
        """As `charge`, and remembers no more than a burst of overdraft, or this charge if it is larger."""
        self.charge(tokens, now)
        self.level = max(self.level, -max(self.burst, tokens))

    def seconds_until(self, tokens: float, now: float) -> float:
        """Time until so many tokens have come in, on top of what is missing; infinite without a rate."""
        missing = tokens - self.fill(now)
        if missing <= 0:
            return 0.0
        return missing / self.rate if self.rate > 0 else float("inf")

    def change_rate(self, tokens_per_minute: float, burst_seconds: float, now: float) -> None:
        """From now on; what it holds stays, up to the new burst."""
        self.fill(now)
        self.rate = tokens_per_minute / 60
        self.burst = self.rate * burst_seconds
        self.level = min(self.level, self.burst)
