"""Arrivals from counters: resets, gaps, and pods that are added or deleted."""

from collections.abc import Mapping
from typing import Any

import pytest

from forebay.scaling.load.arrivals import ArrivalFlow, Arrivals, RequestLengths, flow_of, update_arrivals
from forebay.scaling.load.pod_history import PodHistory
from tests.builders.loads import a_history, known
from tests.builders.world import NOW

COUNTED = {"finished": 100.0, "running": 8.0, "waiting": 2.0}


def rate(*histories: PodHistory) -> float | None:
    flow = flow_of(histories)
    return None if flow is None else flow.requests


def watched(rates: Mapping[int, float | None], *, every: int = 5, until: int = 300) -> Arrivals:
    """Arrival rates, by the second from which they hold."""
    arrivals, now = Arrivals(), None
    for second in range(0, until + 1, every):
        now = next(rates[since] for since in sorted(rates, reverse=True) if since <= second)
        arrivals = update_arrivals(arrivals, None if now is None else ArrivalFlow(now), NOW + second)
    return arrivals


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        pytest.param(COUNTED, {"finished": 150, "running": 8, "waiting": 2}, 10, id="all that finished had arrived"),
        pytest.param(
            COUNTED, {"finished": 100, "running": 40, "waiting": 20}, 10, id="none finished, 50 are in flight"
        ),
        pytest.param(COUNTED, {"finished": 150, "running": 0, "waiting": 0}, 8, id="in flight before, finished now"),
        pytest.param(COUNTED, {**COUNTED, "deferred": 10}, 2, id="deferred ones have arrived too"),
        pytest.param({**COUNTED, "rejected": 5}, {**COUNTED, "rejected": 55}, 10, id="turned away is asked for"),
        pytest.param(COUNTED, {"finished": 100, "running": 0, "waiting": 0}, 0, id="aborted uncounted: never negative"),
        pytest.param(COUNTED, {"finished": 20, "running": 0}, None, id="a restart: nothing to count from yet"),
        pytest.param({"running": 8}, {"running": 58}, None, id="without the counter it is not known, not zero"),
        pytest.param(COUNTED, {"running": 8}, None, id="the counter went missing"),
        pytest.param(COUNTED, {"finished": float("nan")}, None, id="NaN is no count"),
    ],
)
def test_requests_that_arrive_at_a_pod(before, after, expected):
    assert rate(a_history(before, after)) == expected


def test_the_flow_is_the_sum_of_pods_with_counters():
    counting = a_history({"finished": 0}, {"finished": 50})
    mute = a_history({}, {})
    assert rate(counting, mute, counting) == 20
    assert rate(mute) is None
    assert rate() is None


def test_a_pod_that_goes_or_comes_moves_load_and_adds_none():
    """40 a second on four pods. One is deleted, later two are added. The sum of rates is smoothed, not each rate."""
    four = [a_history({"finished": 0}, {"finished": 50})] * 4
    three = [a_history({"finished": 0}, {"finished": 66.666})] * 3
    arrivals = Arrivals()
    for second in range(0, 300, 5):
        arrivals = update_arrivals(arrivals, flow_of(four if second < 150 else three), NOW + second)
        requests = arrivals.requests_per_second(NOW + second)
        assert requests is None or requests == pytest.approx(40, rel=0.01)


def test_the_rate_is_the_mean_of_a_minute_and_unknown_at_first():
    assert watched({0: 10}, until=25).requests_per_second(NOW + 25) is None
    assert watched({0: 10}, until=30).requests_per_second(NOW + 30) == 10
    tripled = watched({0: 10, 200: 30}, until=225)
    assert 15 < known(tripled.in_the_last_minute(NOW + 225)) < 25
    assert watched({0: 10, 200: 30}, until=265).requests_per_second(NOW + 265) == pytest.approx(30)


def test_a_surge_counts_before_the_minute_is_over():
    """Three times the requests from 300 s on. Half a minute later the mean of the minute is at twice the rate."""
    surged = watched({0: 8.0, 300: 24.0}, until=325)
    assert surged.in_the_last_minute(NOW + 325) == pytest.approx(15.4, rel=0.1)
    assert surged.requests_per_second(NOW + 325) == pytest.approx(24.0)


@pytest.mark.parametrize(("calm", "later"), [(8.0, 11.0), (8.0, 4.0), (100.0, 112.0)])
def test_random_variation_is_not_a_surge(calm, later):
    arrivals = watched({0: calm, 300: later}, until=325)
    assert arrivals.requests_per_second(NOW + 325) == arrivals.in_the_last_minute(NOW + 325)


@pytest.mark.parametrize("burst", [{300: 48.0, 305: 8.0}, {300: 28.0, 310: 8.0}, {300: 88.0, 305: 8.0}])
def test_a_burst_of_a_few_seconds_is_no_surge(burst):
    """200 or 400 requests at once, within one or two scrapes: they are finished before a new replica could serve."""
    for until in range(300, 331, 5):
        arrivals = watched({0: 8.0, **burst}, until=until)
        assert arrivals.requests_per_second(NOW + until) == arrivals.in_the_last_minute(NOW + until)


def test_where_requests_come_in_bursts_a_burst_is_no_surge():
    """15 seconds at 20 a second in every minute are no surge; the first such burst after a quiet hour is one."""
    bursts = {second: 20.0 if second % 60 < 15 else 4.0 for second in range(0, 1200, 5)}
    used_to = watched(bursts, until=1195)
    assert used_to.dispersion > 10
    again = update_arrivals(
        update_arrivals(update_arrivals(used_to, ArrivalFlow(20.0), NOW + 1200), ArrivalFlow(20.0), NOW + 1205),
        ArrivalFlow(20.0),
        NOW + 1210,
    )
    assert again.requests_per_second(NOW + 1210) == again.in_the_last_minute(NOW + 1210)


def test_without_a_flow_the_rate_is_held_for_a_minute_and_then_unknown():
    assert watched({0: 10, 200: None}, until=240).requests_per_second(NOW + 240) == 10
    assert watched({0: 10, 200: None}, until=280).requests_per_second(NOW + 280) is None


def test_a_gap_in_observation_resets_the_rate():
    arrivals = update_arrivals(watched({0: 10}), ArrivalFlow(50), NOW + 300 + 61)
    assert arrivals.requests_per_second(NOW + 361) is None


@pytest.mark.parametrize("gap", [10, 59, 60, 61, 600])
def test_requests_that_nobody_counts_keep_the_rate_however_late_the_next_look_is(gap: int):
    at = NOW + 300 + gap
    arrivals = update_arrivals(watched({0: 10}), None, at, holds=True)
    assert arrivals.requests_per_second(at) == 10
    assert update_arrivals(arrivals, None, at + 5, holds=True).requests_per_second(at + 5) == 10


def test_a_rate_that_was_not_known_yet_is_not_held_over_a_gap():
    assert update_arrivals(watched({0: 10}, until=5), None, NOW + 90, holds=True).requests_per_second(NOW + 90) is None


@pytest.mark.parametrize("every", [1, 5, 50])
def test_it_is_bounded(every):
    assert len(watched({0: 10}, every=every, until=3000).marks) <= 16


def test_the_counter_of_the_gateway_takes_precedence():
    arrivals = Arrivals()
    for second in range(0, 121, 5):
        arrivals = update_arrivals(arrivals, ArrivalFlow(10), NOW + second, received_requests=second * 25.0)
    assert arrivals.requests_per_second(NOW + 120) == pytest.approx(25)
    again = update_arrivals(arrivals, ArrivalFlow(10), NOW + 125, received_requests=3.0)
    assert known(again.requests_per_second(NOW + 125)) < 25, "a gateway that began anew is not a burst"


def flow(requests: float, prompt: float, output: float, computed: float | None = None) -> ArrivalFlow:
    computed = prompt if computed is None else computed
    return ArrivalFlow(requests, requests, requests * prompt, requests * output, requests * computed)


def test_lengths_are_used_once_enough_requests_have_finished():
    arrivals = Arrivals()
    for second in (0, 5, 10):
        arrivals = update_arrivals(arrivals, flow(1, 500, 200), NOW + second)
    assert arrivals.lengths is None
    for second in (15, 20, 25):
        arrivals = update_arrivals(arrivals, flow(1, 500, 200), NOW + second)
    lengths = known(arrivals.lengths)
    assert lengths == RequestLengths(500, 200, 1.0, lengths.requests)
    assert lengths.requests == pytest.approx(25, rel=0.05)


def test_lengths_follow_slowly_and_a_quiet_night_does_not_forget_them():
    arrivals = Arrivals()
    for second in range(0, 3600, 5):
        arrivals = update_arrivals(arrivals, flow(10, 500, 200), NOW + second)
    for second in range(3600, 3660, 5):
        arrivals = update_arrivals(arrivals, flow(10, 8000, 200), NOW + second)
    assert 900 < known(arrivals.lengths).prompt_tokens < 1600
    for second in range(3660, 40_000, 5):
        arrivals = update_arrivals(arrivals, flow(0, 0, 0), NOW + second)
    assert 900 < known(arrivals.lengths).prompt_tokens < 1600


def with_one_wrong_reading(output: float, **later: Any) -> list[float]:
    """The mean answer after calm readings, at one in which answers have another length, and at the next."""
    arrivals, seen = Arrivals(), [0.0]
    for second in range(0, 160, 5):
        length, given = (output, {}) if second == 150 else (200, later if second == 155 else {})
        arrivals = update_arrivals(arrivals, flow(10, 500, length), NOW + second, **given)
        seen.append(seen[0] if arrivals.lengths is None else arrivals.lengths.output_tokens)
    return seen[-3:]


def test_a_reading_that_makes_requests_far_longer_counts_once_the_next_one_confirms_it():
    before, at, after = with_one_wrong_reading(200_000)
    assert (before, at) == (200, 200)
    assert after > 2_000


@pytest.mark.parametrize("output", [200_000, 1])
def test_lengths_of_the_last_minute_are_forgotten_when_counters_turn_out_to_be_wrong(output: float):
    assert with_one_wrong_reading(output, doubted=frozenset({"chat-0"}))[-1] == 200


def test_a_prefix_cache_spares_work_and_not_length():
    arrivals = Arrivals()
    for second in range(0, 300, 5):
        arrivals = update_arrivals(arrivals, flow(10, 500, 200, computed=100), NOW + second)
    lengths = known(arrivals.lengths)
    assert lengths.prompt_tokens == 500
    assert lengths.computed_share == pytest.approx(0.2)


def test_prompts_that_are_computed_before_their_requests_finish_are_not_taken_for_spared_ones():
    arrivals = Arrivals()
    for second in range(0, 3600, 5):
        arrivals = update_arrivals(
            arrivals, flow(10, 500, 200, computed=500 + 200 * (-1) ** (second // 5)), NOW + second
        )
    assert known(arrivals.lengths).computed_share == pytest.approx(1, abs=0.01)


def test_lengths_of_a_pod_without_the_histograms_come_from_its_token_counters():
    began = {"finished": 10, "prompt_tokens": 5000, "generation_tokens": 2000}
    ended = {"finished": 60, "prompt_tokens": 30_000, "generation_tokens": 12_000}
    flow = known(flow_of([a_history(began, ended)]))
    assert (flow.finished_prompt_tokens, flow.finished_output_tokens) == (5000, 2000)


@pytest.mark.parametrize(
    ("amplitude", "low", "high"),
    [pytest.param(0, 1, 1.1, id="a steady flow"), pytest.param(9, 10, 16, id="a bursty one")],
)
def test_dispersion_is_estimated_and_bounded(amplitude, low, high):
    arrivals = Arrivals()
    for second in range(0, 7200, 5):
        arrivals = update_arrivals(arrivals, ArrivalFlow(30 + amplitude * (-1) ** (second // 5)), NOW + second)
    assert low <= arrivals.dispersion <= high
