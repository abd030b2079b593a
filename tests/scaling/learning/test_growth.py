"""Growth of the load within a lead time, compared with a brute-force computation."""

from collections.abc import Sequence
from math import ceil, inf, nan

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forebay.scaling.learning.growth import (
    DAY_SECONDS,
    ENOUGH_PAIRS,
    LARGEST_STEP,
    MOST_DAYS,
    MOST_READINGS,
    STEP,
    Growth,
    step_of,
    update_growth,
)
from tests.builders.world import NOW

LEAD = 300.0
U = 0.8


NOTHING = Growth()


def watched(
    work: Sequence[float],
    *,
    growth: Growth = NOTHING,
    began: float = NOW,
    every: float = 60.0,
    lead: float = LEAD,
    capacity: float = U,
) -> Growth:
    for index, amount in enumerate(work):
        growth = update_growth(growth, amount, capacity, lead, began + index * every)
    return growth


def exact(work: Sequence[float], lead_steps: int) -> float:
    """The 95 % quantile by sorting, nearest rank."""
    grown = sorted((later + U) / (earlier + U) - 1 for earlier, later in zip(work, work[lead_steps:], strict=False))
    return min(1.0, max(0.0, grown[ceil(0.95 * len(grown) - 1e-9) - 1]))


works = st.lists(st.floats(0, 20), min_size=5 + ENOUGH_PAIRS, max_size=200)


@settings(deadline=None, max_examples=60)
@given(works)
def test_the_quantile_is_that_of_brute_force_to_a_step(work):
    fraction = watched(work).fraction
    assert exact(work, 5) - 1e-9 <= fraction <= exact(work, 5) + STEP


@pytest.mark.parametrize(
    ("growth", "step"),
    [(-0.5, 0), (0.0, 0), (0.001, 1), (0.02, 1), (0.021, 2), (0.3, 15), (1.0, LARGEST_STEP), (9.0, LARGEST_STEP)],
)
def test_steps_of_two_percent_and_a_doubling_at_most(growth, step):
    assert step_of(growth) == step


def test_a_load_that_does_not_change_grows_by_nothing():
    assert watched([3.0] * 200).fraction == 0.0


def test_a_load_that_doubles_every_lead_time():
    assert watched([2.0 ** (index / 5) for index in range(100)]).fraction == 1.0


def test_a_morning_in_twenty_is_what_counts():
    """Nine of ten lead times have no growth, one has (5 + 0.8)/(4 + 0.8) − 1 = 20.8 %; the step of 22 % covers it."""
    work = ([4.0] * 45 + [5.0] * 5) * 10
    assert watched(work).fraction == pytest.approx(0.22)


@pytest.mark.parametrize("pairs", [ENOUGH_PAIRS - 1, ENOUGH_PAIRS])
def test_growth_is_unknown_with_few_pairs(pairs):
    work = [1.05**index for index in range(pairs + 5)]
    assert watched(work).pairs == pairs
    assert (watched(work).fraction > 0) is (pairs >= ENOUGH_PAIRS)


@pytest.mark.parametrize("work", [None, nan, inf, -1.0])
@pytest.mark.parametrize("capacity", [None, nan, 0.0, U])
def test_unknown_work_gives_no_growth(work, capacity):
    before = watched([1.0, 1.0])
    assert update_growth(before, work, capacity, LEAD, NOW + 600) is before


@pytest.mark.parametrize("capacity", [None, nan, inf, 0.0])
def test_without_a_capacity_nothing_is_learned(capacity):
    before = watched([1.0, 1.0])
    assert update_growth(before, 5.0, capacity, LEAD, NOW + 600) is before


def test_the_end_of_missing_metrics_is_no_growth():
    """After ten minutes without readings the load is eight times as high. That is no growth within five minutes."""
    before = watched([1.0] * 100)
    after = watched([8.0] * 100, growth=before, began=NOW + 100 * 60 + 600)
    assert before.pairs == 95
    assert after.pairs == 95 + 95
    assert after.fraction == 0.0


def test_a_restart_in_between_loses_one_lead_time_and_no_more():
    before = watched([1.0] * 100)
    after = watched([8.0] * 100, growth=Growth(before.days), began=NOW + 100 * 60)
    assert after.pairs == 95 + 95
    assert after.fraction == 0.0


def test_a_clock_that_goes_back_teaches_nothing_and_does_no_harm():
    before = watched([1.0] * 100)
    after = watched([9.0] * 4, growth=before, began=NOW - 30)
    assert after.pairs == before.pairs
    assert all(at <= NOW + 180 for at, _ in after.readings)


def test_the_oldest_day_is_forgotten_and_a_quiet_week_forgets_nothing():
    rough = [1.0, 3.0, 1.0, 6.0] * 50
    learned = watched(rough)
    assert learned.fraction > 0.5
    a_week_later = watched([1.0] * 10, growth=learned, began=NOW + 7 * DAY_SECONDS)
    assert a_week_later.fraction == learned.fraction
    for day in range(1, MOST_DAYS + 1):
        learned = watched([1.0] * 200, growth=learned, began=NOW + day * DAY_SECONDS)
    assert learned.fraction == 0.0


@settings(deadline=None, max_examples=60)
@given(
    st.lists(
        st.tuples(st.floats(0, 4e5), st.floats(0, 1e6) | st.none() | st.just(nan), st.floats(0, 1e5)), max_size=150
    )
)
def test_memory_is_bounded_for_any_readings(looks):
    growth = Growth()
    for after, work, lead in looks:
        growth = update_growth(growth, work, U, lead, NOW + after)
        assert 0.0 <= growth.fraction <= 1.0
        assert len(growth.readings) <= MOST_READINGS
        assert len(growth.days) <= MOST_DAYS
        assert all(0 <= step <= LARGEST_STEP for steps in growth.days.values() for step in steps)


def test_one_reading_a_minute_counts():
    assert watched([1.0] * 121, every=5.0).readings == watched([1.0] * 11).readings
