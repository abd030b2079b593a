"""Demand: requests per second and tokens per minute from requests per month, in exact fractions."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Final

MONTH_SECONDS: Final = 30 * 24 * 3600


@dataclass(frozen=True, slots=True)
class MonthlyDemand:
    """The traffic that a service is planned for."""

    requests_per_month: int
    peak_factor: Fraction
    headroom: Fraction
    tokens_per_request: Fraction

    @staticmethod
    def of(requests_per_month: int, peak_factor: float, headroom: float, tokens_per_request: float) -> "MonthlyDemand":
        """The demand from decimal numbers: 1.1 means eleven tenths, not the nearest binary number."""
        return MonthlyDemand(requests_per_month, exact(peak_factor), exact(headroom), exact(tokens_per_request))

    @property
    def average(self) -> Fraction:
        """Mean requests per second over 30 days."""
        return Fraction(self.requests_per_month, MONTH_SECONDS)

    @property
    def peak(self) -> Fraction:
        """Requests per second in the busiest minutes."""
        return self.average * self.peak_factor

    @property
    def tokens_per_minute(self) -> Fraction:
        """Tokens per minute at the peak."""
        return self.peak * 60 * self.tokens_per_request

    @property
    def with_headroom(self) -> Fraction:
        """Tokens per minute to plan for and to ask for as a quota."""
        return self.tokens_per_minute * self.headroom


def exact(value: float) -> Fraction:
    """The fraction that a decimal number means."""
    return Fraction(str(value))


def asked_for(tokens_per_minute: Fraction) -> int:
    """The quota to ask for: rounded up to two significant figures, since the demand is no more exact than that."""
    whole = -(-tokens_per_minute.numerator // tokens_per_minute.denominator)
    step: int = 10 ** max(0, len(str(whole)) - 2)
    return -(-tokens_per_minute.numerator // (tokens_per_minute.denominator * step)) * step
