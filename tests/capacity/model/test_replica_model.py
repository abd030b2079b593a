"""The replica model against calculations by hand and every row of the design's reference table."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forebay.capacity.model.engine_profile import BUILT_IN, EngineProfile
from forebay.capacity.model.expected_latency import expected_latency
from forebay.capacity.model.replica_model import (
    Bound,
    EngineModel,
    Mix,
    Promise,
    batched_tokens,
    capacity,
    load,
    work_seconds,
)
from forebay.capacity.model.speculation import Speculation, draft_cost

ITL_40, ITL_25 = Promise(0.5, 0.040), Promise(0.5, 0.025)


def an_engine(name: str = "8b-h100", **changes) -> EngineModel:
    profile = BUILT_IN[name].profile
    return EngineModel(profile, **({"kv_tokens": profile.kv_tokens} | changes))


class TestReferenceTable:
    def test_7b_mha(self):
        result = capacity(an_engine("7b-mha-h100"), Mix.fixed(500, 200), ITL_40)
        assert an_engine("7b-mha-h100").kv_tokens == 115_056
        assert round(result.work_seconds * 1000, 2) == 36.45
        assert round(result.latency_share, 3) == 0.731
        assert round(result.memory_share, 3) == 0.770
        assert round(result.tokens_per_minute) == 842_593
        assert round(100 / result.requests_per_second, 3) == 4.985
        assert result.bound is Bound.ITL

    def test_8b_gqa(self):
        result = capacity(an_engine(), Mix.fixed(500, 200), ITL_40)
        assert an_engine().kv_tokens == 467_000
        assert round(result.work_seconds * 1000, 2) == 15.89
        assert round(result.usable, 3) == 0.745
        assert round(result.tokens_per_minute) == 1_968_502
        assert round(100 / result.requests_per_second, 3) == 2.134

    def test_8b_gqa_with_long_answers_is_bound_by_its_kv_cache(self):
        result = capacity(an_engine(), Mix.fixed(2000, 2000), ITL_40)
        assert result.bound is Bound.KV
        assert round(result.usable, 3) == 0.743
        assert round(result.tokens_per_minute) == 500_285

    def test_8b_gqa_at_25_ms_and_all_of_the_mean_capacity(self):
        engine = an_engine(usable_share=1.0)
        result = capacity(engine, Mix.fixed(500, 200), ITL_25)
        assert round(result.requests_per_second, 2) == 45.56
        assert round(load(engine, Mix.fixed(500, 200), result.requests_per_second).sequences) == 228
        assert round(result.tokens_per_minute) == 1_913_656


@pytest.mark.parametrize(
    ("prompt", "output", "at_25", "at_40", "tokens_per_minute", "batch"),
    [
        (500, 200, 45.6, 52.2, 1.92e6, 228),
        (1155, 211, 20.8, 23.8, 1.71e6, 110),
        (2048, 28, 18.8, 21.5, 2.34e6, 13),
        (6000, 300, 3.6, 4.1, 1.36e6, 27),
        (12_000, 343, 1.7, 1.9, 1.26e6, 15),
    ],
)
def test_capacity_by_mix(prompt, output, at_25, at_40, tokens_per_minute, batch):
    """One 8B replica on an H100 at the mean-value capacity: the mix decides how many tokens per minute it carries."""
    mix, engine = Mix.fixed(prompt, output), an_engine(usable_share=1.0, max_num_seqs=1024)
    slow, fast = capacity(engine, mix, ITL_40), capacity(engine, mix, ITL_25)
    assert fast.requests_per_second == pytest.approx(at_25, rel=0.005, abs=0.05)
    assert slow.requests_per_second == pytest.approx(at_40, rel=0.005, abs=0.05)
    assert fast.tokens_per_minute == pytest.approx(tokens_per_minute, rel=0.01)
    assert load(engine, mix, fast.requests_per_second).sequences == pytest.approx(batch, abs=0.6)


def test_a_small_max_num_seqs_binds():
    """Ten sequences: s·10 / (200·6.9 ms + s·10)."""
    result = capacity(an_engine(max_num_seqs=10), Mix.fixed(500, 200), ITL_40)
    assert result.bound is Bound.SEQUENCES
    assert result.usable == pytest.approx(0.1589 / (1.38 + 0.1589))


def test_at_the_memory_bound_the_batch_is_full():
    engine, mix = an_engine(), Mix.fixed(2000, 2000)
    result = capacity(engine, mix, ITL_40)
    assert load(engine, mix, result.requests_per_second).sequences == pytest.approx(result.most_sequences)
    assert result.most_sequences == pytest.approx(0.72 * 467_000 / 3000)


def test_a_step_slower_than_the_promise_leaves_nothing():
    assert capacity(an_engine("8b-fp8-l4"), Mix.fixed(500, 200), ITL_25).usable < 0


class TestEndToEnd:
    def test_end_to_end_lowers_the_time_between_tokens(self):
        """(4.5 s − 0.5 s) over 199 gaps are 20.1 ms."""
        assert Promise(0.5, 0.040, 4.5).inter_token_limit(Mix.fixed(500, 200)) == pytest.approx(4 / 199)

    def test_a_generous_end_to_end_changes_nothing(self):
        assert Promise(0.5, 0.040, 60).inter_token_limit(Mix.fixed(500, 200)) == 0.040

    def test_an_output_of_one_token_has_no_inter_token_time(self):
        assert Promise(0.5, 0.040, 0.6).inter_token_limit(Mix.fixed(500, 1)) == 0.040

    def test_end_to_end_below_the_first_token_leaves_no_time(self):
        assert capacity(an_engine(), Mix.fixed(500, 200), Promise(0.5, 0.040, 0.4)).usable <= 0


class TestRecordedLengths:
    def test_means_of_products_are_not_products_of_means(self):
        mix = Mix.of([(0, 100), (1000, 300)])
        assert (mix.prompt_tokens, mix.output_tokens) == (500, 200)
        assert mix.reads == (100 * 50 + 300 * 1150) / 2
        assert mix.reads > 200 * 600
        assert mix.prompt_square == 500_000

    def test_the_longest_answers_count_for_end_to_end(self):
        assert Mix.of([(10, length) for length in range(1, 101)]).output_p95 == 96

    def test_requests_without_output_are_ignored(self):
        assert Mix.of([(10, 0), (20, 40)]) == Mix.fixed(20, 40)

    def test_a_window_limits_kv_reads(self):
        assert Mix.fixed(500, 200, lambda context: min(context, 100.0)).held_tokens == 100


class TestSpeculation:
    GUESS = Speculation("eagle3", tokens=3, acceptance=0.5, draft_cost=0.05)

    def test_tokens_a_step_gives(self):
        assert self.GUESS.tokens_per_step == 1 + 0.5 + 0.25 + 0.125

    def test_work_by_hand(self):
        """200 tokens in 106.67 steps of 4 × 5 µs and 600 KV tokens; the prompt as before."""
        engine = an_engine(speculation=self.GUESS)
        by_hand = 500 * 17.3e-6 + 200 / 1.875 * (4 * 5e-6 + 600 * 0.052e-6)
        assert work_seconds(engine, Mix.fixed(500, 200)) == pytest.approx(by_hand)

    def test_latency_share_by_hand(self):
        result = capacity(an_engine(speculation=self.GUESS), Mix.fixed(500, 200), ITL_40)
        assert result.latency_share == pytest.approx(0.9 * (1 - 6.9e-3 * 1.15 / (0.040 * 1.875)))

    def test_guesses_that_are_never_accepted_only_cost_time(self):
        wrong = Speculation("ngram", tokens=4, acceptance=0.0, draft_cost=0.0)
        plain, guessing = (capacity(an_engine(speculation=g), Mix.fixed(500, 200), ITL_40) for g in (None, wrong))
        assert guessing.requests_per_second < plain.requests_per_second

    @pytest.mark.parametrize(
        ("method", "draft", "cost"),
        [("ngram", None, 0.0), ("eagle3", None, 1.5 / 32), ("draft_model", 10**9, 0.125), ("draft_model", None, None)],
    )
    def test_default_costs(self, method, draft, cost):
        assert draft_cost(method, layers=32, target_parameters=8 * 10**9, draft_parameters=draft) == cost


class TestBatchedTokens:
    def test_batched_tokens_match_a_calculation_by_hand(self):
        """At 46.87 requests a second: T 27.03 ms, 253.4 sequences, 152,046 tokens; (40 − 6.9 − 1.27 − 7.91) ms / b."""
        assert batched_tokens(an_engine(), Mix.fixed(500, 200), ITL_40, most=8192) == 1383

    def test_a_step_that_computes_no_more_keeps_the_promise(self):
        engine, mix = an_engine(), Mix.fixed(500, 200)
        state = load(engine, mix, capacity(engine, mix, ITL_40).requests_per_second)
        step = engine.profile
        full = step.step_seconds + step.sequence_seconds * state.sequences + step.kv_token_seconds * state.kv_tokens
        assert full + 1383 * step.prompt_token_seconds <= 0.040 < full + 1384 * step.prompt_token_seconds

    def test_batched_tokens_are_at_least_max_num_seqs(self):
        engine = an_engine("70b-h100-tp4", max_num_seqs=1024)
        assert batched_tokens(engine, Mix.fixed(500, 200), ITL_25, most=8192) == 1024

    def test_batched_tokens_are_at_most_the_default(self):
        assert batched_tokens(an_engine(), Mix.fixed(500, 200), Promise(5, 5.0), most=8192) == 8192


def test_a_rate_beyond_a_second_of_work_is_refused():
    with pytest.raises(ValueError, match="63 requests per second"):
        load(an_engine(), Mix.fixed(500, 200), 63)


@given(st.floats(1, 20_000), st.floats(1, 5_000), st.floats(0.02, 1.0), st.floats(0.05, 1.0))
@settings(max_examples=200, deadline=None)
def test_the_promise_holds_at_capacity(prompt, output, limit, share):
    engine, mix = an_engine(usable_share=share, max_num_seqs=512), Mix.fixed(prompt, output)
    result = capacity(engine, mix, Promise(0.5, limit))
    if result.usable <= 0:
        assert limit <= engine.profile.step_seconds
        return
    state = load(engine, mix, result.requests_per_second)
    assert state.token_seconds <= limit * (1 + 1e-9)
    assert state.sequences <= result.most_sequences * (1 + 1e-9)
    latency = expected_latency(engine, mix, result.requests_per_second * 0.9, 8192)
    assert 0 < latency.first_token_p50 <= latency.first_token_p95
    assert latency.end_to_end_p95 >= latency.first_token_p95 or output < 2


@given(st.floats(0.001, 0.2), st.floats(1.0, 3.0))
def test_a_slower_card_carries_less(step, factor):
    fast = EngineProfile(step, 2e-5, 5e-6, 5e-8, 100_000)
    mix, promise = Mix.fixed(500, 200), Promise(0.5, 1.0)
    rates = [capacity(EngineModel(p, 100_000), mix, promise).requests_per_second for p in (fast, fast.slowed(factor))]
    assert rates[1] <= rates[0]
