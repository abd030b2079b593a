"""Capacity of a replica, and its correction by measurements of live replicas."""

from dataclasses import replace

import pytest

from forebay.capacity.model.profile_choice import Basis
from forebay.capacity.model.replica_model import load as loaded
from forebay.scaling.learning.replica_capacity import FASTEST, SLOWEST, Refinement, ReplicaCapacity, refine
from forebay.scaling.load.arrivals import RequestLengths
from forebay.scaling.load.service_load import ServedTokens
from tests.builders.loads import CHAT, a_load, a_replica_capacity, known
from tests.builders.world import NOW

CAPACITY = a_replica_capacity()
PLANNED = known(CAPACITY.mix_capacity(CHAT))


def after(
    minutes: float,
    *,
    true: float,
    requests: float,
    saturated: bool,
    replica_capacity: ReplicaCapacity = CAPACITY,
    running: float = 40,
    counts_steps: bool = True,
) -> Refinement:
    """The refinement after some seconds of a request rate on each of two replicas that are `true` times as slow."""
    engine = replace(replica_capacity.engine, profile=replica_capacity.engine.profile.slowed(true))
    step = loaded(engine, replica_capacity.mix(CHAT), requests).token_seconds
    load = a_load(
        2,
        running=running,
        served=ServedTokens(2, 2 * requests * 500, 2 * requests * 200, 2 / step if counts_steps else None),
    )
    refinement: Refinement | None = None
    for second in range(0, round(minutes * 60) + 1, 5):
        refinement = refine(refinement, replica_capacity, CHAT, load, saturated, NOW + second)
    return known(refinement)


@pytest.mark.parametrize(
    ("true", "requests", "saturated", "expected"),
    [
        pytest.param(1.0, 46, True, 1.0, id="as the profile says"),
        pytest.param(1.2, 46, True, 1.2, id="slower, refinement at saturation"),
        pytest.param(1.2, 34, False, 1.2, id="slower, from seven tenths of what it may give on"),
        pytest.param(1.2, 30, False, 1.0, id="slower, but at low load: ignored"),
        pytest.param(0.8, 40, False, 1.0, id="faster, but not full: ignored"),
        pytest.param(0.8, 5, False, 1.0, id="a quiet service measures nothing"),
        pytest.param(0.3, 46, True, FASTEST, id="bounded"),
        pytest.param(2.5, 24, True, SLOWEST, id="bounded the other way"),
    ],
)
def test_live_replicas_correct_the_profile(true, requests, saturated, expected):
    assert after(30, true=true, requests=requests, saturated=saturated).factor == pytest.approx(expected, abs=0.005)


def test_a_faster_engine_is_accepted_only_as_far_as_it_was_full():
    requests = 1.1 * PLANNED.usable / PLANNED.work_seconds
    refinement = after(60, true=0.8, requests=requests, saturated=False)
    assert 0.8 < refinement.factor < 1.0
    assert known(CAPACITY.mix_capacity(CHAT, refinement)).usable / known(
        CAPACITY.mix_capacity(CHAT, refinement)
    ).work_seconds == pytest.approx(requests, rel=0.01)


@pytest.mark.parametrize("unknown", [{"counts_steps": False}, {"running": 7}])
def test_an_engine_that_may_have_been_idle_or_counts_no_steps_measures_nothing(unknown):
    assert after(30, true=1.2, requests=46, saturated=True, **unknown).factor == 1.0


def test_capacity_is_called_measured_after_a_minute_of_evidence():
    young, old = (after(minutes, true=1.2, requests=46, saturated=True) for minutes in (0.9, 30))
    assert CAPACITY.mix_capacity(CHAT, young) == PLANNED
    slower = known(CAPACITY.mix_capacity(CHAT, old))
    assert (slower.basis, PLANNED.basis) == (Basis.MEASURED, Basis.PROFILE)
    assert slower.usable < PLANNED.usable
    assert slower.work_seconds == pytest.approx(1.2 * PLANNED.work_seconds, rel=0.01)


def test_another_profile_begins_anew():
    other = replace(CAPACITY, engine=replace(CAPACITY.engine, max_num_seqs=64))
    before = after(30, true=1.2, requests=46, saturated=True)
    assert refine(before, other, CHAT, a_load(2), True, NOW).factor == 1.0


def test_missing_metrics_refine_nothing():
    before = after(30, true=1.2, requests=46, saturated=True)
    assert refine(before, CAPACITY, CHAT, a_load(0), True, NOW + 2000).factor == before.factor


def test_what_a_prefix_cache_spares_is_not_computed_but_is_read():
    spared = known(CAPACITY.mix_capacity(replace(CHAT, computed_share=0.2)))
    assert PLANNED.work_seconds - spared.work_seconds == pytest.approx(0.8 * 500 * 17.3e-6)


def test_a_replica_of_several_engines_carries_as_often():
    assert known(a_replica_capacity(engines=4).mix_capacity(CHAT)).usable == pytest.approx(4 * PLANNED.usable)


def test_the_mix_decides_what_tokens_are_worth():
    assert known(CAPACITY.mix_capacity(RequestLengths(6000, 300))).tokens_per_minute < PLANNED.tokens_per_minute
