"""The parts of the replica engine: profiles, histograms and KV blocks."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forebay.simulation.engine.histogram import BucketHistogram, token_bounds
from forebay.simulation.engine.kv_blocks import KVBlocks
from forebay.simulation.engine.simulated_profile import BUILT_IN, EngineProfile, parse_profile


class TestProfile:
    def test_work_of_the_reference_rows(self):
        """500/200 on an H100: 36.45 ms of GPU for a 7B with MHA, 15.89 ms for an 8B with GQA."""
        assert BUILT_IN["7b-mha-h100"].work_seconds(500, 200) == pytest.approx(0.03645, abs=5e-6)
        assert BUILT_IN["8b-h100"].work_seconds(500, 200) == pytest.approx(0.01589, abs=5e-6)

    def test_a_built_in_name(self):
        assert parse_profile("8b-h100") is BUILT_IN["8b-h100"]

    def test_json_in_seconds(self):
        assert parse_profile('{"a": 0.05, "b": 2e-5, "c": 5e-6, "d": 5e-8, "kv_tokens": 20000}') == EngineProfile(
            0.05, 2e-5, 5e-6, 5e-8, 20_000
        )

    def test_a_built_in_profile_slowed_and_changed(self):
        profile = parse_profile('{"name": "8b-h100", "slow": 10, "kv_tokens": 8000}')
        assert profile.step_seconds == pytest.approx(0.069)
        assert profile.prompt_token_seconds == pytest.approx(173e-6)
        assert profile.kv_tokens == 8000
        assert profile.request_overhead_seconds == 0.006

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            pytest.param("h200", "'h200' is neither one of 8b-h100", id="unknown name"),
            pytest.param("[1]", "not a JSON object", id="a list"),
            pytest.param('{"name": "h200"}', "'h200' is not built in", id="unknown name in JSON"),
            pytest.param('{"name": "8b-h100", "f": 1}', "profile key: 'f' is not known", id="unknown key"),
            pytest.param('{"a": 0.05}', "b, c, d, kv_tokens missing", id="incomplete"),
            pytest.param('{"name": "8b-h100", "a": "fast"}', "'fast' is not a number", id="text as a number"),
            pytest.param('{"name": "8b-h100", "a": 0}', "a step must take time", id="no time"),
            pytest.param('{"name": "8b-h100", "d": -1}', "kv_token_seconds: -1 is negative", id="negative"),
            pytest.param('{"name": "8b-h100", "kv_tokens": 0}', "kv_tokens: 0 is not above 0", id="no cache"),
            pytest.param('{"name": "8b-h100", "slow": 0}', "slow-down factor: 0", id="infinitely fast"),
        ],
    )
    def test_refusals_name_what_is_wrong(self, text, message):
        with pytest.raises(ValueError, match=message):
            parse_profile(text)


class TestHistogram:
    def test_a_value_on_a_bound_belongs_to_it(self):
        histogram = BucketHistogram((1.0, 2.0))
        for value in (1.0, 1.5, 2.5):
            histogram.observe(value)
        assert histogram.counts == [1, 1, 1]
        assert histogram.total == 5.0
        assert histogram.mean == pytest.approx(5 / 3)

    def test_token_bounds_stop_at_the_longest_request(self):
        assert token_bounds(2048) == (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000)

    @given(
        first=st.floats(0.001, 100),
        slope=st.one_of(st.just(0.0), st.floats(1e-6, 1.0)),
        steps=st.integers(1, 300),
        times=st.integers(0, 5),
    )
    def test_a_ramp_is_its_values_one_by_one(self, first, slope, steps, times):
        bounds = (0.01, 0.1, 0.5, 1.0, 5.0, 20.0, 80.0)
        ramp, single = BucketHistogram(bounds), BucketHistogram(bounds)
        ramp.observe_ramp(first, slope, steps, times)
        for step in range(steps):
            single.observe(first + slope * step, times)
        assert ramp.count == single.count == steps * times
        assert ramp.total == pytest.approx(single.total)
        # A value within rounding of a bound may fall on either side of it.
        assert all(abs(left - right) <= times for left, right in zip(ramp.counts, single.counts, strict=True))


class TestKVBlocks:
    def test_one_block_is_vllms_null_block(self):
        assert KVBlocks(total=128, size=32).usable == 127

    def test_a_cache_that_holds_nothing_is_refused(self):
        with pytest.raises(ValueError, match="at least 2 blocks"):
            KVBlocks(total=1, size=16)

    @settings(max_examples=80)
    @given(
        lengths=st.lists(st.integers(1, 80), min_size=1, max_size=12),
        size=st.sampled_from([1, 4, 16]),
        spare=st.integers(0, 60),
        limit=st.integers(1, 100),
    )
    def test_growth_in_one_go_is_growth_step_by_step(self, lengths, size, spare, limit):
        held = sum(-(-length // size) for length in lengths)
        blocks = KVBlocks(total=held + spare + 1, size=size)
        for length in lengths:
            blocks.free -= blocks.blocks_for(length)
            blocks.join(length)
        fits = 0
        while fits < limit and sum(-(-(length + fits + 1) // size) for length in lengths) <= held + spare:
            fits += 1
        assert blocks.steps_that_fit(limit) == fits
        assert blocks.demand() == sum(1 for length in lengths if length % size == 0)
        blocks.grow(fits)
        assert blocks.free == held + spare - sum(-(-(length + fits) // size) for length in lengths)
        for length in lengths:
            blocks.leave(length + fits)
        assert blocks.free == blocks.usable
