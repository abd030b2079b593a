"""Tokens per minute from requests per month, against every digit of the design's reference table."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.capacity.plan.monthly_demand import MonthlyDemand, asked_for

CHAT = MonthlyDemand.of(1_000_000, 5, 1.5, 4000)
SEARCH = MonthlyDemand.of(6_000_000, 4, 1.5, 860)


def test_reference_tokens_per_minute():
    assert round(CHAT.tokens_per_minute) == 462_963
    assert round(SEARCH.tokens_per_minute) == 477_778


def test_reference_sum_and_quota():
    assert round(CHAT.tokens_per_minute + SEARCH.tokens_per_minute) == 940_741
    assert round(CHAT.with_headroom + SEARCH.with_headroom) == 1_411_111
    assert asked_for(CHAT.with_headroom + SEARCH.with_headroom) == 1_500_000


def test_a_month_has_30_days():
    assert MonthlyDemand.of(2_592_000, 3, 1, 700).average == 1
    assert MonthlyDemand.of(2_592_000, 3, 1, 700).peak == 3


@pytest.mark.parametrize(
    ("tokens", "asked"),
    [
        pytest.param(Fraction(1_500_000), 1_500_000, id="two figures stay"),
        pytest.param(Fraction(1_500_001), 1_600_000, id="a third rounds up"),
        pytest.param(Fraction(15_000_001, 10), 1_600_000, id="a tenth of a token too"),
        pytest.param(Fraction(995_000), 1_000_000, id="into the next length"),
        pytest.param(Fraction(7), 7, id="one figure"),
        pytest.param(Fraction(1, 3), 1, id="less than a token"),
    ],
)
def test_the_quota_is_rounded_up(tokens, asked):
    assert asked_for(tokens) == asked


def test_decimals_are_exact():
    """In binary, 1.1 × 1.1 is more than 1.21, and the rounded quota would be larger."""
    demand = MonthlyDemand.of(2_592_000_000, 1.1, 1.1, 1000)
    assert demand.with_headroom == 72_600_000
    assert MonthlyDemand.of(2_592_000, 1.1, 1, 10).tokens_per_minute == 660


@given(st.integers(1, 10**9), st.integers(1, 10**9), st.floats(1, 100), st.floats(1, 10), st.integers(1, 10**5))
def test_the_quota_is_enough_and_at_most_a_tenth_too_large(requests, more, peak, headroom, tokens):
    demand = MonthlyDemand.of(requests, peak, headroom, tokens)
    asked = asked_for(demand.with_headroom)
    assert demand.with_headroom <= asked
    assert asked < demand.with_headroom * Fraction(11, 10) + 1
    assert asked_for(MonthlyDemand.of(requests + more, peak, headroom, tokens).with_headroom) >= asked
