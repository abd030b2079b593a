"""Demand: from requests a month to requests a second and tokens a minute, in exact fractions."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Final

MONTH_SECONDS: Final = 30 * 24 * 3600


@dataclass(frozen=True, slots=True)
class MonthlyDemand:
    """What a service is asked for."""

    requests_per_month: int
    peak_factor: Fraction
    headroom: Fraction
    tokens_per_request: Fraction

    @staticmethod
    def of(requests_per_month: int, peak_factor: float, headroom: float, tokens_per_request: float) -> "MonthlyDemand":
        """From what people write: 1.1 means eleven tenths, not the nearest binary number."""
        return MonthlyDemand(requests_per_month, exact(peak_factor), exact(headroom), exact(tokens_per_request))

    @property
    def average(self) -> Fraction:
        """Requests a second over 30 days."""
        return Fraction(self.requests_per_month, MONTH_SECONDS)

    @property
    def peak(self) -> Fraction:
        """Requests a second in the busiest minutes."""
        return self.average * self.peak_factor

    @property
    def tokens_per_minute(self) -> Fraction:
        """At the peak."""
        return self.peak * 60 * self.tokens_per_request

    @property
    def with_headroom(self) -> Fraction:
        """Tokens a minute to plan for and to ask a quota of."""
        return self.tokens_per_minute * self.headroom


def exact(value: float) -> Fraction:
    """The decimal number that was written."""
    return Fraction(str(value))


def asked_for(tokens_per_minute: Fraction) -> int:
    """What to ask for: two significant figures, rounded up, so that nobody argues about the third."""
    whole = -(-tokens_per_minute.numerator // tokens_per_minute.denominator)
    step: int = 10 ** max(0, len(str(whole)) - 2)
    return -(-tokens_per_minute.numerator // (tokens_per_minute.denominator * step)) * step
