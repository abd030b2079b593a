"""Lead times: which durations are kept, and the quantiles and bounds computed from them."""

from math import ceil
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.scaling.learning.lead_time import (
    ENOUGH_STARTS,
    LONGEST_SECONDS,
    MOST_STARTS,
    PRIOR_SECONDS,
    LeadTimes,
    Prospect,
    Start,
    WarmState,
    learn,
)

PLACEHOLDER, READY, NEW = WarmState
durations = st.lists(st.integers(1, LONGEST_SECONDS), max_size=MOST_STARTS).map(tuple)
lead_times = st.fixed_dictionaries(dict.fromkeys(WarmState, durations)).map(LeadTimes)
quantiles = st.floats(0.01, 1.0)


def a_start(state: WarmState = READY, *, scheduled: float | None = 0.0, ready: float = 60.0, at: float = 0.0) -> Start:
    """A start; the times are relative to its creation."""
    return Start(at, None if scheduled is None else at + scheduled, at + ready, state)


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        pytest.param(a_start(READY, scheduled=0, ready=60), 60, id="placed at once"),
        pytest.param(a_start(READY, scheduled=200, ready=260), 60, id="time without a node is left out"),
        pytest.param(a_start(NEW, scheduled=200, ready=260), 260, id="unless a node was added meanwhile"),
        pytest.param(a_start(PLACEHOLDER, scheduled=20, ready=80), 80, id="the placeholder is removed first"),
        pytest.param(a_start(READY, scheduled=None, ready=60), 60, id="time of scheduling unknown"),
        pytest.param(a_start(READY, scheduled=-5, ready=60), 60, id="never before its creation"),
    ],
)
def test_how_long_a_start_took(start, expected):
    assert start.seconds == expected


@pytest.mark.parametrize(
    ("starts", "state", "quantile", "expected"),
    [
        pytest.param({}, READY, 0.95, 300, id="nothing learned, the prior"),
        pytest.param({}, NEW, 0.95, 420, id="of a new node"),
        pytest.param({}, PLACEHOLDER, 0.95, 120, id="of a placeholder"),
        pytest.param({READY: (40, 50)}, READY, 0.95, 300, id="two fast starts: still the prior"),
        pytest.param({READY: (400, 350)}, READY, 0.95, 400, id="two slow starts: the slowest"),
        pytest.param({READY: (40, 50, 45)}, READY, 0.95, 50, id="three starts: their quantile"),
        pytest.param({READY: (40, 50, 45)}, READY, 0.5, 45, id="the middle one"),
        pytest.param({READY: tuple(range(1, 21))}, READY, 0.95, 19, id="one of twenty may take longer"),
        pytest.param({READY: (900, 900, 900)}, NEW, 0.95, 900, id="no new node is faster than a ready one"),
        pytest.param({NEW: (900, 900, 900)}, READY, 0.95, 300, id="a ready node may be faster than a new one"),
        pytest.param(
            {READY: (900,) * 3, NEW: (500,) * 3}, NEW, 0.95, 500, id="with enough starts only the observed ones count"
        ),
    ],
)
def test_quantiles_and_priors(starts, state, quantile, expected):
    assert LeadTimes(starts).quantile_seconds(state, quantile) == expected


@pytest.mark.parametrize(
    ("prospect", "replicas", "expected"),
    [
        pytest.param({}, 1, NEW, id="no room"),
        pytest.param({"free_places": 2}, 2, READY, id="room for both"),
        pytest.param({"free_places": 2}, 3, NEW, id="the third finds none"),
        pytest.param({"placeholders": 1, "free_places": 1}, 1, READY, id="free GPUs first, as the scheduler does"),
        pytest.param({"placeholders": 2}, 2, PLACEHOLDER, id="then the places of placeholders"),
        pytest.param({"placeholders": 1, "free_places": 1}, 2, READY, id="and the slower of both counts"),
        pytest.param({"placeholders": 1, "free_places": 1}, 3, NEW, id="then a new one"),
    ],
)
def test_the_slowest_of_those_that_are_ordered_together_counts(prospect, replicas, expected):
    next_replicas = Prospect(**prospect)
    assert next_replicas.lead_seconds_for(replicas) == PRIOR_SECONDS[expected]


def test_ten_replicas_need_a_longer_lead_than_one():
    """The quantile 0.95^(1/10) = 0.9949 of 32 starts is the slowest of them; for one replica the 31st is enough."""
    next_replicas = Prospect(LeadTimes({READY: tuple(range(101, 133))}), free_places=10)
    assert (next_replicas.lead_seconds_for(1), next_replicas.lead_seconds_for(10)) == (131, 172)


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        pytest.param((), 300, id="nothing: the prior"),
        pytest.param((400, 350), 400, id="two: the prior, or the slower one"),
        pytest.param((110, 120, 130), 160, id="three: 119.7 s · exp(1.645 · 0.15 · √(4/3))"),
        pytest.param((120,) * 12, 156, id="a dozen alike: 120 s · exp(1.645 · 0.15 · √(13/12))"),
        pytest.param((60, 120, 240), 448, id="a wide spread: 120 s · exp(1.645 · 0.693 · √(4/3))"),
        pytest.param((*range(101, 120), 900), 119, id="of twenty one may be an exception"),
        pytest.param((1, 3600, 3600), LONGEST_SECONDS, id="never beyond the longest"),
    ],
)
def test_few_starts_leave_room_for_a_slower_one(seen, expected):
    assert LeadTimes({READY: seen}).bound_seconds(READY, 0.95) == expected


@pytest.mark.parametrize("starts", [3, 6, 12, 24, 32])
def test_the_bound_of_the_next_start_holds_after_few_starts(starts):
    """Only three of four starts would stay within the slowest of three; 23 of 25 stay within the 23rd of 24."""
    draw = Random(starts)
    kept = 0
    for _ in range(2000):
        seen = tuple(round(120 * draw.lognormvariate(0.0, 0.15)) for _ in range(starts))
        kept += 120 * draw.lognormvariate(0.0, 0.15) <= LeadTimes({READY: seen}).bound_seconds(READY, 0.95)
    assert kept / 2000 > 0.91


@given(lead_times, st.sampled_from(WarmState), st.floats(0.01, 0.9999))
def test_the_bound_is_never_below_what_was_seen(learned, state, quantile):
    assert learned.quantile_seconds(state, quantile) <= learned.bound_seconds(state, quantile) <= LONGEST_SECONDS


@given(durations.filter(lambda seen: len(seen) >= ENOUGH_STARTS), quantiles)
def test_a_quantile_is_the_smallest_duration_that_so_many_keep_to(seen, quantile):
    needed = ceil(quantile * len(seen) - 1e-9)
    brute = min(limit for limit in seen if sum(duration <= limit for duration in seen) >= needed)
    assert LeadTimes({READY: seen}).quantile_seconds(READY, quantile) == brute


@given(lead_times, st.integers(0, 5), st.integers(0, 5), st.integers(1, 60))
def test_more_replicas_never_need_a_shorter_lead(learned, placeholders, free, replicas):
    next_replicas = Prospect(learned, placeholders, free)
    assert next_replicas.lead_seconds_for(replicas) <= next_replicas.lead_seconds_for(replicas + 1)


@given(lead_times, st.integers(0, 4), st.integers(0, 4), st.integers(1, 12))
def test_the_lead_covers_every_state_that_is_used(learned, placeholders, free, replicas):
    next_replicas = Prospect(learned, placeholders, free)
    used = {next_replicas.state_of(nth) for nth in range(1, replicas + 1)}
    slowest = max(learned.bound_seconds(state, 0.95 ** (1 / replicas)) for state in used)
    assert next_replicas.lead_seconds_for(replicas) == slowest


starts = st.builds(
    a_start, st.sampled_from(WarmState), scheduled=st.floats(0, 900), ready=st.floats(0, 1e5), at=st.floats(0, 1e9)
)


@given(lead_times, st.lists(starts, max_size=80), st.randoms(use_true_random=False))
def test_memory_is_bounded_and_the_order_of_starts_does_not_matter(before, new, chance):
    after = learn(before, new)
    shuffled = list(new)
    chance.shuffle(shuffled)
    assert learn(before, shuffled) == after
    assert all(len(seen) <= MOST_STARTS for seen in after.starts.values())
    assert all(1 <= seconds <= LONGEST_SECONDS for seen in after.starts.values() for seconds in seen)


def test_the_newest_starts_are_kept():
    after = learn(LeadTimes({READY: (500,) * MOST_STARTS}), [a_start(ready=60 + n, at=n) for n in range(3)])
    assert after.of(READY) == (500,) * (MOST_STARTS - 3) + (60, 61, 62)


def test_nothing_new_is_the_same_object():
    learned = LeadTimes({READY: (60,)})
    assert learn(learned, ()) is learned
