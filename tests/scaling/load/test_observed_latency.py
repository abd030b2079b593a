"""Quantiles of the latency between two scrapes."""

from math import inf

import pytest

from forebay.scaling.load.observed_latency import Latency, latency_of
from forebay.scaling.load.signals import HistogramSample
from tests.builders.loads import a_latency
from tests.builders.world import a_histogram


@pytest.mark.parametrize(
    ("quantile", "expected"),
    [
        pytest.param(0.5, 0.1, id="the first bucket ends there"),
        pytest.param(0.25, 0.05, id="half-way through the first bucket"),
        pytest.param(0.75, 0.3, id="half-way through the second"),
        pytest.param(1.0, 0.5, id="the end of the second"),
    ],
)
def test_a_quantile_is_interpolated_within_its_bucket(quantile, expected):
    assert a_latency({0.1: 10, 0.5: 10}).quantile_seconds(quantile) == pytest.approx(expected)


def test_beyond_the_last_finite_bound_that_bound_is_the_answer():
    latency = Latency((1.0, inf), (0.0, 10.0), 90.0)
    assert latency.quantile_seconds(0.99) == 1.0
    assert latency.above(1.0) == 10
    assert latency.above(2.0) == 0, "what is beyond is not known to be above 2 s"


def test_how_many_were_above_a_limit():
    latency = a_latency({0.1: 10, 0.5: 10})
    assert latency.above(0.1) == 10
    assert latency.above(0.3) == pytest.approx(5)
    assert latency.above(0.5) == 0


def test_nothing_observed_has_no_quantile_and_no_mean():
    assert a_latency({}).quantile_seconds(0.99) is None
    assert a_latency({}).mean_seconds is None


def test_only_what_came_between_the_scrapes_counts():
    latency = latency_of([(a_histogram({0.1: 1000, 5.0: 0}), a_histogram({0.1: 1000, 5.0: 20}))])
    assert latency is not None
    assert latency.count == 20
    assert latency.mean_seconds == pytest.approx(5.0)


def test_counts_that_went_down_mean_a_restart():
    latency = latency_of([(a_histogram({0.1: 1000}), a_histogram({0.1: 7}))])
    assert latency is not None
    assert latency.count == 7


def test_pods_are_summed_and_other_buckets_do_not_mix():
    nothing = a_histogram({0.1: 0})
    other = HistogramSample((0.2, inf), (3.0, 3.0), 0.6)
    latency = latency_of(
        [
            (nothing, a_histogram({0.1: 10})),
            (nothing, a_histogram({0.1: 5})),
            (HistogramSample((0.2, inf), (0.0, 0.0), 0.0), other),
            (None, other),
        ]
    )
    assert latency is not None
    assert (latency.bounds[0], latency.count) == (0.1, 15)


def test_without_two_scrapes_nothing_is_known():
    assert latency_of([]) is None
    assert latency_of([(None, a_histogram({0.1: 10}))]) is None
