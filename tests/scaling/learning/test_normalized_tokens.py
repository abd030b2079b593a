"""Normalized tokens: tokens by what they cost, in tokens of the declared mix."""

from dataclasses import replace

import pytest

from forebay.scaling.learning.normalized_tokens import UNKNOWN, TokenRates, token_rates
from forebay.scaling.learning.offered_work import OfferedWork
from forebay.scaling.learning.replica_capacity import Refinement, ReplicaCapacity
from forebay.scaling.load.arrivals import Arrivals, RequestLengths
from forebay.scaling.load.service_load import ServedTokens, ServiceLoad
from forebay.scaling.replica_weights import ReplicaWeights
from tests.builders.loads import CHAT, a_load, a_replica_capacity, known

CHATS = a_replica_capacity()
CODE = RequestLengths(2000, 50, requests=100)


def rates(
    load: ServiceLoad,
    *,
    capacity: ReplicaCapacity | None = CHATS,
    measured: RequestLengths | None = None,
    arriving: float | None = None,
    refinement: Refinement | None = None,
    before: TokenRates = UNKNOWN,
) -> TokenRates:
    """The rates; `arriving` is in requests per second."""
    lengths = measured or (None if capacity is None else capacity.declared)
    mix = None if capacity is None or lengths is None else capacity.mix_capacity(lengths, refinement)
    offered = None if mix is None or lengths is None else OfferedWork(arriving, lengths, mix, 4.0)
    return token_rates(capacity, refinement, Arrivals(lengths=measured), offered, load, None, before)


def served(lengths: RequestLengths, per_second: float, replicas: int = 2) -> ServedTokens:
    """What engines count while they serve so many requests per second."""
    computed = lengths.prompt_tokens * lengths.computed_share * per_second
    return ServedTokens(replicas, computed, lengths.output_tokens * per_second)


def test_at_the_declared_mix_a_normalized_token_is_a_token():
    found = rates(a_load(2, served=served(CHAT, 10)), arriving=12)
    assert known(found.used) == pytest.approx(10 * 60 * 700, rel=0.02)
    assert known(found.asked) == pytest.approx(12 * 60 * 700)
    assert known(found.per_replica) == pytest.approx(1_968_502, rel=0.02), "the table of DESIGN §4"
    assert known(found.carried) == pytest.approx(2 * known(found.per_replica))


def test_another_mix_is_counted_by_its_work():
    """A request of 2,000 and 50 tokens costs other GPU-seconds than 2,050 tokens of a chat."""
    chat, code = (known(CHATS.mix_capacity(lengths)).work_seconds for lengths in (CHAT, CODE))
    found = rates(a_load(2, served=served(CODE, 3)), measured=CODE, arriving=3)
    assert known(found.asked) == pytest.approx(3 * 60 * code * 700 / chat)
    assert known(found.used) == pytest.approx(known(found.asked), rel=0.02)
    assert known(found.used) < 0.9 * 3 * 60 * 2050


def test_prompt_tokens_that_a_prefix_cache_spares_are_not_charged():
    cached = replace(CODE, computed_share=0.25)
    all_of_it = rates(a_load(2, served=served(CODE, 3)), measured=CODE, arriving=3)
    a_quarter = rates(a_load(2, served=served(cached, 3)), measured=cached, arriving=3)
    prompts = 0.75 * 3 * 60 * 2000
    assert known(all_of_it.used) - known(a_quarter.used) > 0.25 * prompts
    assert known(a_quarter.asked) < known(all_of_it.asked)


def test_without_a_declared_mix_the_measured_one_is_the_unit():
    found = rates(
        a_load(2, served=served(CODE, 3)), capacity=a_replica_capacity(declared=None), measured=CODE, arriving=3
    )
    assert known(found.asked) == pytest.approx(3 * 60 * 2050)


def test_a_slower_engine_carries_less_and_charges_the_same():
    slow = Refinement(CHATS.engine, factor=1.4, evidence_seconds=120.0)
    fast, slowed = (rates(a_load(2, served=served(CHAT, 10)), arriving=10, refinement=r) for r in (None, slow))
    assert known(slowed.used) == pytest.approx(known(fast.used))
    assert known(slowed.asked) == pytest.approx(known(fast.asked))
    assert known(slowed.carried) < known(fast.carried)


def test_replicas_that_do_not_count_are_taken_to_do_as_much_as_the_others():
    all_count, one_counts = (rates(a_load(2, served=served(CHAT, 10, replicas=n)), arriving=10) for n in (2, 1))
    assert known(one_counts.used) == pytest.approx(2 * known(all_count.used))


def test_replicas_of_other_shapes_carry_by_their_weight():
    load = a_load(2, served=served(CHAT, 10), weights=ReplicaWeights((1.0, 0.5), 1.0))
    found = rates(load, arriving=10)
    assert known(found.carried) == pytest.approx(1.5 * known(found.per_replica))


def test_what_nobody_counts_stays_as_last_known():
    before = TokenRates(1.0, 2.0, asked=5000.0, used=4000.0)
    found = rates(a_load(2), before=before)
    assert (found.asked, found.used) == (5000.0, 4000.0)


def test_a_service_without_replicas_uses_nothing_and_carries_nothing():
    found = rates(a_load(0), before=TokenRates(used=4000.0), arriving=0)
    assert (found.used, found.carried) == (0.0, 0.0)


def test_what_is_used_was_asked_for():
    found = rates(a_load(2, served=served(CHAT, 10)), arriving=1)
    assert found.asked == found.used


def test_without_a_profile_or_lengths_nothing_is_known():
    assert rates(a_load(2, served=served(CHAT, 10)), capacity=None) == UNKNOWN
    assert rates(a_load(2, served=served(CHAT, 10)), capacity=a_replica_capacity(declared=None)) == UNKNOWN
