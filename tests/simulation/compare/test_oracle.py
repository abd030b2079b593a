"""The oracle: the fewest replicas that keep the promise, computed from the true arrivals."""

import pytest

from forebay.capacity.model.replica_model import Promise
from forebay.simulation.cluster.policy import PolicyControl
from forebay.simulation.compare.oracle import Needs, Oracle, needs, static_peak
from forebay.simulation.traffic.traces import steady, steps, synthetic
from tests.simulation.loops import CHAT, PROMISE, a_loop, a_model, a_view

RATE_OF_ONE = 47.0
"""Requests of 500/200 tokens a second that one 8B replica certainly serves at 40 ms; its published capacity is 52."""


def a_trace(rate, seconds: float, seed: int = 3):
    return synthetic("test", rate, seconds, seed, lengths=(500, 200))


@pytest.mark.parametrize(("replicas_worth", "max_need"), [(0.1, 1), (0.9, 1), (1.8, 3), (3.6, 5)])
def test_need_follows_what_one_replica_carries(replicas_worth, max_need):
    result = needs(a_trace(steady(RATE_OF_ONE * replicas_worth), 120), a_model(), PROMISE, seconds=120)
    assert max(result.counts) <= max_need
    assert min(result.counts) >= replicas_worth * 0.7


def test_a_slower_engine_needs_more():
    trace = a_trace(steady(60.0), 120)
    fast = needs(trace, a_model(), PROMISE, seconds=120)
    slow = needs(trace, a_model(step_seconds=0.02), PROMISE, seconds=120)
    assert sum(slow.counts) > sum(fast.counts)


def test_a_tighter_promise_needs_more():
    trace = a_trace(steady(80.0), 60)
    loose = needs(trace, a_model(), PROMISE, seconds=60)
    tight = needs(trace, a_model(), Promise(0.5, 0.012), seconds=60)
    assert min(tight.counts) > max(loose.counts)


def test_bounds_hold_for_the_oracle_too():
    result = needs(a_trace(steady(200.0), 60), a_model(), PROMISE, seconds=60, min_replicas=2, max_replicas=3)
    assert set(result.counts) == {3}
    assert set(needs(a_trace(steady(1.0), 60), a_model(), PROMISE, seconds=60, min_replicas=2).counts) == {2}


def test_requests_nobody_could_serve_in_time_are_left_out():
    trace = synthetic("long", steady(1.0), 60, 1, lengths=(60_000, 10))
    with pytest.raises(ValueError, match="no request could be served in time"):
        needs(trace, a_model(), PROMISE, seconds=60)


def test_the_fleet_is_there_a_cold_start_early_and_goes_at_once():
    fleet = Needs(30.0, (1, 1, 1, 1, 5, 1, 1)).fleet(60)
    assert fleet.counts == (1, 1, 5, 5, 5, 1, 1)
    assert fleet.replica_hours(210) == pytest.approx((15 + 4) * 30 / 3600)
    assert [fleet.at(seconds) for seconds in (0, 59, 60, 149, 150, 9999)] == [1, 1, 5, 5, 1, 1]


def test_static_peak_is_a_quantile_of_the_need():
    assert static_peak(Needs(30.0, (1,) * 999 + (9,))) == 1
    assert static_peak(Needs(30.0, (1,) * 998 + (9, 9))) == 9


def test_its_fleet_keeps_the_promise_through_a_step_that_no_other_policy_can_foresee():
    trace = a_trace(steps((0.0, 10.0), (240.0, 70.0)), 420)
    view = a_view(max_replicas=8)
    counts = needs(trace, a_model(view), PROMISE, seconds=420, max_replicas=8)
    loop = a_loop(trace, 420, control=PolicyControl({CHAT: Oracle(counts.fleet(140))}), model=a_model(view))
    outcome = loop.run(420)[CHAT]
    assert outcome.in_time(PROMISE)[trace.times < 400].mean() >= 0.99
    assert outcome.gpu_seconds / 3600 < 3 * 420 / 3600
