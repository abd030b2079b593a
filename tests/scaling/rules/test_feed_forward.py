"""Feed-forward and backlog: replicas for the work that arrives and the work that waits."""

import re
from dataclasses import replace

import pytest

from forebay.capacity.model.profile_choice import Basis
from forebay.scaling.learning.offered_work import (
    CAPACITY_UNKNOWN,
    LENGTHS_UNKNOWN,
    SLO_UNREACHABLE,
    OfferedWork,
    compute_offered_work,
    lengths_of,
)
from forebay.scaling.load.arrivals import Arrivals, RequestLengths
from forebay.scaling.load.gateway_demand import GatewayDemand
from forebay.scaling.rules.backlog import backlog
from forebay.scaling.rules.feed_forward import feed_forward, headroom
from forebay.scaling.scaling_inputs import ScalingInputs
from tests.builders.loads import CHAT, a_load, a_replica_capacity, known, some_limits
from tests.builders.world import NOW

LIMITS = some_limits(headroom=0.2)
NO_GROWTH = ScalingInputs()


def offered_work(requests: float | None, *, dispersion: float = 1.0, lengths: RequestLengths = CHAT) -> OfferedWork:
    return OfferedWork(requests, lengths, known(a_replica_capacity().mix_capacity(lengths)), dispersion)


def test_the_reference_row():
    """100 requests a second of 500/200 on 8B: 2.134 replicas without headroom."""
    capacity = known(a_replica_capacity().mix_capacity(CHAT))
    assert capacity.work_seconds == pytest.approx(0.01589, rel=1e-3)
    assert capacity.usable == pytest.approx(0.745, abs=5e-4)
    assert capacity.tokens_per_minute == pytest.approx(1_968_502, rel=1e-3)
    assert 100 * capacity.work_seconds / capacity.usable == pytest.approx(2.134, abs=5e-4)
    assert capacity.basis is Basis.PROFILE


@pytest.mark.parametrize(
    ("requests", "scaling_inputs", "expected"),
    [
        pytest.param(0, NO_GROWTH, 0, id="nothing arrives"),
        pytest.param(100, NO_GROWTH, 3, id="2.13 and 20 percent"),
        pytest.param(100, ScalingInputs(growth=0.5), 4, id="half as much again may come within the lead time"),
        pytest.param(100, ScalingInputs(growth=9.0), 5, id="headroom ends at 100 percent"),
        pytest.param(1000, NO_GROWTH, 26, id="21.3 and 20 percent"),
        pytest.param(None, NO_GROWTH, None, id="unknown arrivals are not zero"),
    ],
)
def test_feed_forward(requests, scaling_inputs, expected):
    proposal = feed_forward(offered_work(requests), LIMITS, scaling_inputs)
    assert (proposal and proposal.replicas) == expected


def test_feed_forward_gives_its_numbers():
    because = known(feed_forward(offered_work(100), LIMITS, NO_GROWTH)).because
    assert re.findall(r"[\d.]+ (?:GPU-seconds|requests|ms|%|replicas)", because) == [
        "1.6 GPU-seconds",
        "100 requests",
        "16 ms",
        "20 %",
        "2.6 replicas",
        "0.74 GPU-seconds",
    ]


@pytest.mark.parametrize(
    ("requests", "expected"),
    [pytest.param(45, 0.556, id="one"), pytest.param(270, 0.227, id="six"), pytest.param(1350, 0.2, id="thirty")],
)
def test_burst_is_a_matter_of_small_fleets(requests, expected):
    """Reference rows for IDC 12.8 and τ = 5 s: 56 %, 23 % and 10 %, the last one below headroomPercent."""
    case = offered_work(requests, dispersion=12.8)
    case = replace(case, capacity=replace(case.capacity, residence_seconds=5.0))
    assert headroom(case, LIMITS, NO_GROWTH).fraction == pytest.approx(expected, abs=0.005)


def test_burst_and_growth_add_up_as_independent_ones_do():
    case = offered_work(45, dispersion=12.8)
    case = replace(case, capacity=replace(case.capacity, residence_seconds=5.0))
    assert headroom(case, LIMITS, ScalingInputs(growth=0.3)).fraction == pytest.approx(0.632, abs=0.005)


@pytest.mark.parametrize(
    ("arrives", "waiting", "replicas", "expected"),
    [
        pytest.param(0, 10, 0, 1, id="from zero with A = 0 and a queue of 10"),
        pytest.param(None, 10, 0, 1, id="from zero, arrivals unknown"),
        pytest.param(0, 0, 0, None, id="nothing waits"),
        pytest.param(0, 1_000_000, 0, 1, id="from zero: one at first, whatever the queue"),
        pytest.param(100, 100_000, 2, 4, id="at most half as much again as arrives"),
        pytest.param(1000, 10_000_000, 10, 33, id="the same of many"),
    ],
)
def test_backlog(arrives, waiting, replicas, expected):
    load = replace(a_load(replicas), waiting_requests=waiting)
    proposal = backlog(offered_work(arrives), load, NO_GROWTH)
    assert (proposal and proposal.replicas) == expected


def test_waiting_work_is_to_be_done_within_the_lead_time():
    load = a_load(2, waiting=2000)
    quick, slow = ScalingInputs(lead_seconds=10), ScalingInputs(lead_seconds=600)
    assert known(backlog(offered_work(80), load, quick)).replicas == 3, "31.8 GPU-seconds within 60 s"
    assert known(backlog(offered_work(80), load, slow)).replicas == 2


def test_requests_that_the_gateway_holds_count_as_backlog():
    held = ScalingInputs(demand=GatewayDemand(held_requests=10))
    assert known(backlog(offered_work(0), a_load(0), held)).replicas == 1
    assert "10 requests" in known(backlog(None, a_load(0), held)).because


def test_with_an_unknown_capacity_a_queue_is_left_to_the_guards():
    assert backlog(None, a_load(2, waiting=500), NO_GROWTH) is None


@pytest.mark.parametrize(
    ("replica_capacity", "earlier", "expected"),
    [
        pytest.param(None, None, CAPACITY_UNKNOWN, id="no model or GPU: no guess"),
        pytest.param(a_replica_capacity(declared=None), None, LENGTHS_UNKNOWN, id="no lengths"),
        pytest.param(
            a_replica_capacity(inter_token_latency=0.005), None, SLO_UNREACHABLE, id="a step alone takes 6.9 ms"
        ),
    ],
)
def test_why_the_offered_work_is_unknown(replica_capacity, earlier, expected):
    assert compute_offered_work(replica_capacity, Arrivals(), None, earlier, NOW) == expected


def test_measured_lengths_take_precedence_over_earlier_and_those_over_declared_ones():
    measured, earlier = RequestLengths(1000, 100, 1.0, 50), RequestLengths(2000, 100, 1.0, 50)
    replica_capacity = a_replica_capacity()
    assert lengths_of(replica_capacity, Arrivals(lengths=measured), earlier) == measured
    assert lengths_of(replica_capacity, Arrivals(), earlier) == earlier
    assert lengths_of(replica_capacity, Arrivals(), None) == CHAT
