"""Replicas of different capacity, counted by their weights."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.scaling.decision import whole_replicas
from forebay.scaling.learning.offered_work import OfferedWork
from forebay.scaling.load.load_window import LoadWindow, update_load_window
from forebay.scaling.replica_weights import EVEN, ReplicaWeights
from forebay.scaling.rules.backlog import backlog
from forebay.scaling.rules.feed_forward import feed_forward
from forebay.scaling.rules.guards import late, queue_depth
from forebay.scaling.rules.stabilizer import enough_for_window, fewest_for
from forebay.scaling.scaling_inputs import ScalingInputs
from tests.builders.loads import CHAT, a_load, a_replica_capacity, known, some_limits
from tests.builders.world import NOW

MIXED = ReplicaWeights((1.0, 0.5, 0.5), new=0.5)
LIMITS = some_limits()


@pytest.mark.parametrize(
    ("need", "expected"),
    [
        pytest.param(0.0, 0, id="nothing"),
        pytest.param(1.0, 1, id="the capacity of the first"),
        pytest.param(1.2, 2, id="half as much is enough for the rest"),
        pytest.param(2.0, 3, id="all there are"),
        pytest.param(2.1, 4, id="one more, of what would be created"),
        pytest.param(4.0, 7, id="four more of half a replica each"),
        pytest.param(2.0 + 1e-12, 3, id="a floating-point error is ignored"),
    ],
)
def test_the_fewest_that_carry_a_need(need, expected):
    assert MIXED.replicas_for(need) == expected


@given(st.lists(st.floats(0.1, 10.0), max_size=8), st.floats(0.1, 10.0), st.floats(0.0, 200.0))
def test_so_many_carry_the_need_and_one_less_does_not(live, new, need):
    weights = ReplicaWeights(tuple(live), new)
    replicas = weights.replicas_for(need)
    assert weights.capacity_of(replicas) >= need - 1e-6
    assert replicas == 0 or weights.capacity_of(replicas - 1) < need


@given(st.integers(0, 9), st.floats(0.0, 1e4))
def test_replicas_that_are_alike_are_simply_counted(replicas, need):
    assert ReplicaWeights((1.0,) * replicas).replicas_for(need) == whole_replicas(need) == EVEN.replicas_for(need)


def offered_work(requests: float) -> OfferedWork:
    return OfferedWork(requests, CHAT, known(a_replica_capacity().mix_capacity(CHAT)), dispersion=0.0)


def test_feed_forward_counts_each_replica_by_its_own_capacity():
    even = feed_forward(offered_work(75), LIMITS, ScalingInputs())
    mixed = feed_forward(offered_work(75), LIMITS, ScalingInputs(), MIXED)
    assert (known(even).replicas, known(mixed).replicas) == (2, 3)
    assert re.search(r"so 3 replicas .*\b2 base", known(mixed).because)


def test_backlog_counts_each_replica_by_its_own_capacity():
    load = a_load(3, waiting=4000, weights=MIXED)
    assert (
        known(backlog(offered_work(75), load, ScalingInputs())).replicas
        > known(backlog(offered_work(75), a_load(3, waiting=4000), ScalingInputs())).replicas
    )


def test_a_guard_takes_the_queue_that_the_replicas_can_take():
    assert queue_depth(a_load(3, waiting=50), LIMITS) is None
    assert known(queue_depth(a_load(3, waiting=50, weights=MIXED), LIMITS)).replicas == 5, "2 × 1.5 = 1 + 4 × 0.5"


def test_scaling_down_asks_for_the_capacity_of_the_replicas_left():
    load_window = LoadWindow()
    for ago_seconds in range(320, -1, -20):
        load_window = update_load_window(load_window, a_load(3), LIMITS, NOW - ago_seconds, late, 1.5)
    assert enough_for_window(2, load_window, LIMITS, NOW), "1.5 × 1.2 fits on two that are alike"
    assert not enough_for_window(2, load_window, LIMITS, NOW, MIXED), "but not on one and a half"
    assert enough_for_window(3, load_window, LIMITS, NOW, MIXED)


def test_warm_replicas_are_counted_by_the_capacity_of_the_others():
    assert fewest_for(a_load(3, kv=0.4), LIMITS) == 2
    assert fewest_for(a_load(3, kv=0.4, weights=ReplicaWeights((1.0, 0.2, 0.2))), LIMITS) == 1
