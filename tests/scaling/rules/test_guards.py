"""Each guard: when it fires, and how far it goes."""

import re

import pytest

from forebay.scaling.decision import Proposal
from forebay.scaling.rules.guards import (
    admission_rejections,
    inter_token_latency,
    kv_cache,
    preemptions,
    propose,
    queue_depth,
    queue_wait,
    time_to_first_token,
)
from tests.builders.loads import a_latency, a_load, known, some_limits


def replicas(proposal: Proposal | None) -> int | None:
    return None if proposal is None else proposal.replicas


@pytest.mark.parametrize(
    ("waiting", "serving", "expected"),
    [
        pytest.param(40, 2, None, id="at the target, hold"),
        pytest.param(41, 2, 3, id="one over the target, one more"),
        pytest.param(400, 2, 3, id="a burst is answered by one bounded step"),
        pytest.param(170, 8, 11, id="21 wait on each of 8; with 20 % headroom 11"),
        pytest.param(210, 10, 13, id="of 10, a small excess asks for less than the largest step"),
        pytest.param(1, 0, None, id="no replica serves: the load is unknown"),
    ],
)
def test_queue_depth(waiting, serving, expected):
    load = a_load(serving, waiting=waiting if serving else 0)
    assert replicas(queue_depth(load, some_limits(queue_depth=20))) == expected


@pytest.mark.parametrize(
    ("kv", "serving", "expected"),
    [
        pytest.param(0.80, 4, None, id="at the target, hold"),
        pytest.param(0.81, 4, 5, id="just over, one more"),
        pytest.param(0.99, 4, 6, id="full: by ratio with headroom, within the largest step"),
        pytest.param(0.65, 4, None, id="65 percent is no reason to grow"),
    ],
)
def test_kv_cache(kv, serving, expected):
    assert replicas(kv_cache(a_load(serving, kv=kv), some_limits(kv_fraction=0.8))) == expected


@pytest.mark.parametrize(
    ("observed", "expected"),
    [
        pytest.param({0.5: 100}, None, id="all within the limit"),
        pytest.param({0.5: 98, 1.0: 0, 2.0: 2}, None, id="two late ones are chance"),
        pytest.param({0.5: 97, 1.0: 0, 2.0: 3}, 6, id="three of a hundred are late"),
        pytest.param({1.0: 0, 30.0: 50}, 6, id="all are late: still one bounded step"),
        pytest.param({}, None, id="counters did not change: no observations"),
    ],
)
def test_queue_wait(observed, expected):
    load = a_load(4, running=40, queue_time=a_latency(observed))
    assert replicas(queue_wait(load, some_limits(queue_wait_seconds=1.0))) == expected


def test_time_to_first_token_is_judged_by_its_95th_percentile():
    limits = some_limits(time_to_first_token_seconds=0.5)
    within = a_load(2, running=20, time_to_first_token=a_latency({0.4: 96, 0.5: 0, 3.0: 4}))
    beyond = a_load(2, running=20, time_to_first_token=a_latency({0.4: 90, 0.5: 0, 3.0: 10}))
    assert time_to_first_token(within, limits) is None
    assert replicas(time_to_first_token(beyond, limits)) == 3


@pytest.mark.parametrize(
    ("observed", "expected"),
    [
        pytest.param({0.03: 1000}, None, id="within"),
        pytest.param({0.042: 1000}, 6, id="5 percent over and 20 percent headroom"),
        pytest.param({0.2: 99}, None, id="too few tokens to tell"),
        pytest.param({0.2: 1000}, 6, id="far over: one bounded step"),
    ],
)
def test_inter_token_latency(observed, expected):
    load = a_load(4, running=40, inter_token_latency=a_latency(observed))
    assert replicas(inter_token_latency(load, some_limits(inter_token_latency_seconds=0.04))) == expected


@pytest.mark.parametrize(
    ("mean", "idle", "expected"),
    [
        pytest.param(0.045, None, 9, id="unknown: 45 of 40, with headroom"),
        pytest.param(0.045, 0.007, 8, id="a 7 ms step: 0.844/0.825, with headroom"),
        pytest.param(0.045, 0.035, 9, id="a 35 ms step: most of it cannot be divided, so work halves for little"),
        pytest.param(0.045, 0.050, 9, id="a step that is late by itself: by the excess"),
    ],
)
def test_the_step_for_inter_token_latency_leaves_out_what_replicas_cannot_divide(mean, idle, expected):
    load = a_load(6, running=60, inter_token_latency=a_latency({mean: 1000}))
    limits = some_limits(inter_token_latency_seconds=0.04, idle_token_seconds=idle)
    assert replicas(inter_token_latency(load, limits)) == expected


@pytest.mark.parametrize(
    ("preempted", "finished", "running", "expected"),
    [
        pytest.param(None, 500, 40, None, id="unknown is not zero, and no violation"),
        pytest.param(2, 0, 40, None, id="two are chance"),
        pytest.param(3, 0, 40, 5, id="three"),
        pytest.param(9, 1000, 40, None, id="below one of a hundred"),
        pytest.param(10, 1000, 40, 5, id="one of a hundred"),
        pytest.param(10, 100, 3, None, id="less than one request per replica"),
    ],
)
def test_preemptions(preempted, finished, running, expected):
    load = a_load(4, running=running, preempted=preempted, finished=finished)
    assert replicas(preemptions(load, some_limits())) == expected
    if expected:
        assert str(preempted) in known(preemptions(load, some_limits())).because


@pytest.mark.parametrize(
    ("rejected", "finished", "expected"),
    [
        pytest.param(None, 500, None, id="an engine without the counter"),
        pytest.param(2, 500, None, id="two are chance"),
        pytest.param(50, 950, 6, id="5 percent, with headroom"),
        pytest.param(500, 500, 6, id="half: one bounded step"),
        pytest.param(500, 0, 6, id="all"),
    ],
)
def test_admission_rejections(rejected, finished, expected):
    load = a_load(4, running=400, rejected=rejected, finished=finished)
    assert replicas(admission_rejections(load, some_limits())) == expected


def test_a_step_up_is_at_least_one_replica():
    load = a_load(4, running=400, preempted=50, rejected=50, finished=50)
    assert [p.replicas for p in propose(load, some_limits(headroom=0.0))] == [5, 6]


def test_a_guard_extrapolates_from_the_replicas_it_knows():
    load = a_load(8, known=4, waiting=84)
    assert replicas(queue_depth(load, some_limits(queue_depth=20))) == 11


def test_guards_are_ored_and_each_says_its_numbers():
    load = a_load(2, waiting=57, kv=0.3)
    (only,) = propose(load, some_limits(queue_depth=20))
    assert only.rule == "queue_depth"
    assert re.findall(r"\d+", only.because) == ["57", "2", "20"]
    both = propose(a_load(2, waiting=57, kv=0.95), some_limits())
    assert [proposal.rule for proposal in both] == ["queue_depth", "kv_cache"]


def test_no_load_at_all_is_no_violation():
    assert propose(a_load(0), some_limits()) == ()


@pytest.mark.parametrize(
    ("running", "expected"), [pytest.param(4, 6, id="in company"), pytest.param(3, None, id="alone")]
)
def test_lateness_with_less_than_one_request_per_replica_is_no_matter_of_replicas(running, expected):
    late, slow = a_latency({1.0: 0, 30.0: 50}), a_latency({0.2: 1000})
    limits = some_limits()
    assert replicas(queue_wait(a_load(4, running=running, queue_time=late), limits)) == expected
    assert replicas(time_to_first_token(a_load(4, running=running, time_to_first_token=late), limits)) == expected
    assert replicas(inter_token_latency(a_load(4, running=running, inter_token_latency=slow), limits)) == expected
