"""Continuous batching: traces computed by hand, and the closed-form engine against one that takes every step."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.naive_engine import NaiveEngine
from forebay.simulation.engine.engine_stats import Completion, EngineRequest
from forebay.simulation.engine.replica_engine import EngineLimits, ReplicaEngine
from tests.simulation.load import a_profile, a_request, run


def an_engine(profile=None, **limits) -> ReplicaEngine:
    return ReplicaEngine(profile or a_profile(), EngineLimits(**limits))


def test_one_request_by_hand():
    """Prefill of 5 tokens: 10 + 5 = 15 ms; then decode steps of 10 + 2 + 0.1 × (6, 7) ms."""
    [completion] = run(an_engine(), [a_request("r", prompt=5, output=3)])
    assert completion.first_token == pytest.approx(0.015)
    assert completion.finished == pytest.approx(0.015 + 0.0126 + 0.0127)
    assert completion.tokens == 3
    assert completion.reason == "length"


def test_one_token_ends_with_the_prefill():
    [completion] = run(an_engine(), [a_request("r", prompt=5, output=1)])
    assert completion.finished == completion.first_token == pytest.approx(0.015)


def test_the_request_overhead_comes_before_the_queue():
    engine = an_engine(a_profile(request_overhead_seconds=0.006))
    [completion] = run(engine, [a_request("r", prompt=5, output=1, at=1.0)])
    assert completion.scheduled == pytest.approx(1.006)
    assert completion.first_token_seconds == pytest.approx(0.021)
    assert engine.stats.queue_seconds.total == pytest.approx(0.0)


def test_a_prefill_slows_the_decoder_beside_it():
    """`b` arrives during a's first decode step (15 to 27.6 ms) and joins the step after it.

    That step: 10 + 3 prompt tokens + 2 + 0.1 × 7 = 15.7 ms, and gives a its third token, b its first.
    """
    engine = an_engine()
    done = run(engine, [a_request("a", prompt=5, output=4), a_request("b", prompt=3, output=2, at=0.020)])
    a, b = sorted(done, key=lambda completion: completion.request.id)
    assert b.scheduled == pytest.approx(0.0276)
    assert b.first_token == pytest.approx(0.0276 + 0.0157)
    # Both decode: 10 + 2 × 2 + 0.1 × (8 + 4) = 15.2 ms.
    assert a.finished == b.finished == pytest.approx(0.0433 + 0.0152)
    assert engine.stats.token_seconds.total == pytest.approx(0.0126 + 0.0157 + 2 * 0.0152)


def test_decode_goes_first_and_prompts_are_cut_to_what_is_left():
    """Budget 4: `a` decodes 1 token, so b's 5-token prompt takes two steps of 3 and 2 tokens."""
    engine = an_engine(max_num_seqs=4, max_num_batched_tokens=4)
    done = run(engine, [a_request("a", prompt=4, output=9), a_request("b", prompt=5, output=1, at=0.001)])
    b = next(completion for completion in done if completion.request.id == "b")
    start = 0.014
    first = 0.010 + 3 * 0.001 + 0.002 + 0.0001 * 5
    second = 0.010 + 2 * 0.001 + 0.002 + 0.0001 * 6
    assert b.scheduled == pytest.approx(start)
    assert b.first_token == pytest.approx(start + first + second)


def test_max_num_seqs_makes_the_third_wait_for_a_finish():
    engine = an_engine(max_num_seqs=2, max_num_batched_tokens=64)
    requests = [a_request(name, prompt=4, output=output) for name, output in (("a", 3), ("b", 6), ("c", 2))]
    done = {completion.request.id: completion for completion in run(engine, requests)}
    assert done["c"].scheduled == done["a"].finished


def test_waiting_and_running_are_seen_while_time_passes():
    engine = an_engine(max_num_seqs=2, max_num_batched_tokens=64)
    for name in "abc":
        engine.submit(a_request(name, prompt=4, output=10))
    engine.advance(0.05)
    assert (engine.running, engine.waiting, engine.outstanding, engine.queued) == (2, 1, 3, 1)


def test_the_newest_is_preempted_and_computed_again():
    """5 usable blocks of 4 tokens; two prompts of 8 fill 4 of them.

    The first decode step needs a block for each: b is preempted and a goes on. When a is done, b prefills its prompt
    and the token it had: 9 tokens.
    """
    engine = an_engine(max_num_seqs=8, max_num_batched_tokens=64, block_size=4, kv_blocks=6)
    done = {c.request.id: c for c in run(engine, [a_request("a", 8, 4), a_request("b", 8, 4)])}
    prefill = 0.010 + 0.016
    decode = 3 * 0.012 + 0.0001 * (9 + 10 + 11)
    assert done["a"].finished == pytest.approx(prefill + decode)
    assert (done["a"].preemptions, done["b"].preemptions) == (0, 1)
    again = 0.010 + 0.009
    assert done["b"].finished == pytest.approx(prefill + decode + again + 2 * 0.012 + 0.0001 * (10 + 11))
    assert engine.stats.preemptions == 1
    assert engine.stats.prompt_tokens == 16
    assert engine.stats.generation_tokens == 8


def test_cached_prompt_tokens_cost_no_prefill_but_are_held_and_read():
    engine = an_engine()
    [completion] = run(engine, [a_request("r", prompt=5, output=2, cached=3)])
    assert completion.first_token == pytest.approx(0.010 + 0.002)
    assert completion.finished == pytest.approx(0.012 + 0.0126)
    assert (engine.stats.queried_tokens, engine.stats.cached_tokens, engine.stats.prompt_tokens) == (5, 3, 5)


def test_long_prompts_cost_the_same_square_however_they_are_cut():
    profile = a_profile(prompt_square_seconds=1e-5)
    whole = run(an_engine(profile), [a_request("r", 40, 1)])[0].finished
    cut = run(an_engine(profile, max_num_seqs=1, max_num_batched_tokens=10), [a_request("r", 40, 1)])[0].finished
    assert whole == pytest.approx(0.010 + 0.040 + 1e-5 * 1600)
    assert cut == pytest.approx(whole + 3 * 0.010)


def test_tokens_appear_at_step_boundaries():
    engine = an_engine()
    engine.submit(a_request("r", prompt=5, output=4))
    engine.advance(0.0)
    tokens = []
    while (time := engine.next_step_time) is not None:
        finished = engine.advance(time)
        tokens.append((round(time, 6), finished[0].tokens if finished else engine.generated("r")))
    assert tokens == [(0.015, 1), (0.0276, 2), (0.0403, 3), (0.0531, 4)]


def test_next_event_is_the_finish_when_nothing_else_can_happen():
    engine = an_engine()
    engine.submit(a_request("r", prompt=5, output=4))
    engine.advance(0.016)
    assert engine.next_event_time == pytest.approx(0.0531)


def test_an_idle_engine_has_no_next_event():
    engine = an_engine()
    assert engine.next_event_time is None
    assert engine.next_step_time is None
    assert engine.advance(5.0) == []
    assert engine.now == 5.0


class TestAbort:
    def test_a_running_request_leaves_at_the_end_of_its_step(self):
        engine = an_engine()
        for name in "ab":
            engine.submit(a_request(name, prompt=5, output=100))
        engine.advance(0.1)
        engine.abort("a")
        boundary = engine.next_step_time
        assert boundary is not None
        engine.advance(boundary)
        assert engine.running == 1
        assert engine.outstanding == 1
        assert engine.stats.finished == {"stop": 0, "length": 0, "abort": 1}

    def test_a_waiting_request_leaves_at_once(self):
        engine = an_engine(max_num_seqs=1, max_num_batched_tokens=64)
        for name in "ab":
            engine.submit(a_request(name, prompt=5, output=100))
        engine.advance(0.1)
        engine.abort("b")
        assert (engine.running, engine.waiting, engine.outstanding) == (1, 0, 1)

    def test_a_request_on_its_way_leaves_at_once(self):
        engine = an_engine(a_profile(request_overhead_seconds=1.0))
        engine.submit(a_request("a", prompt=5, output=100))
        engine.abort("a")
        assert engine.advance(10.0) == []
        assert engine.outstanding == 0

    def test_in_the_middle_of_a_prompt_all_blocks_come_back(self):
        engine = an_engine(max_num_seqs=1, max_num_batched_tokens=10)
        engine.submit(a_request("a", prompt=100, output=100))
        engine.advance(0.05)
        engine.abort("a")
        engine.advance(1.0)
        assert engine.kv_fraction == 0.0
        assert engine.running == 0

    def test_an_unknown_or_finished_request_is_left_alone(self):
        engine = an_engine()
        run(engine, [a_request("a", prompt=5, output=1)])
        engine.abort("a")
        assert engine.stats.finished["abort"] == 0


class TestRefusals:
    def test_a_request_longer_than_the_cache(self):
        engine = an_engine(block_size=16, kv_blocks=3)
        with pytest.raises(ValueError, match="33 tokens do not fit a KV cache of 32"):
            engine.submit(a_request("r", prompt=30, output=4))

    def test_time_running_backwards(self):
        engine = an_engine()
        engine.advance(5.0)
        with pytest.raises(ValueError, match="lies before"):
            engine.submit(a_request("r", prompt=1, output=1, at=4.0))

    def test_the_same_id_twice(self):
        engine = an_engine()
        engine.submit(a_request("r", prompt=1, output=1))
        with pytest.raises(ValueError, match="the same id"):
            engine.submit(a_request("r", prompt=1, output=1))

    @pytest.mark.parametrize(("prompt", "output", "cached"), [(0, 1, 0), (1, 0, 0), (4, 1, 4)])
    def test_nothing_to_compute(self, prompt, output, cached):
        with pytest.raises(ValueError, match="request r"):
            an_engine().submit(a_request("r", prompt, output, cached=cached))

    def test_fewer_batched_tokens_than_sequences(self):
        with pytest.raises(ValueError, match=r"max_num_batched_tokens \(64\) must be greater than or equal"):
            EngineLimits(max_num_seqs=256, max_num_batched_tokens=64)


@st.composite
def cases(draw):
    """An engine that is tight in sequences, tokens and blocks, and requests that all fit it alone."""
    profile = a_profile(
        prompt_token_seconds=2e-5,
        sequence_seconds=1e-5,
        kv_token_seconds=draw(st.sampled_from([0.0, 1e-7])),
        prompt_square_seconds=draw(st.sampled_from([0.0, 1e-9])),
        request_overhead_seconds=draw(st.sampled_from([0.0, 0.006])),
    )
    seqs = draw(st.sampled_from([1, 3, 8, 64]))
    batched = seqs + draw(st.sampled_from([0, 7, 64, 8192]))
    blocks = draw(st.sampled_from([20, 40, 100, 1000]))
    limits = EngineLimits(max_num_seqs=seqs, max_num_batched_tokens=batched, kv_blocks=blocks)
    room = (blocks - 1) * limits.block_size
    chance = random.Random(draw(st.integers(0, 2**32)))
    requests, time = [], 0.0
    for index in range(draw(st.integers(1, 60))):
        time += chance.choice([0.0, 0.001, 0.02, 0.3]) * chance.random()
        prompt = chance.randint(1, min(200, room // 2))
        output = chance.randint(1, min(150, room - prompt + 1))
        requests.append(
            a_request(f"r{index}", prompt, output, time, cached=chance.choice([0, chance.randrange(prompt)]))
        )
    return profile, limits, requests, chance


def piecewise(engine: ReplicaEngine, requests: list[EngineRequest], chance: random.Random) -> list[Completion]:
    """Requests come one by one while time is cut at steps, at events and in between."""
    done: list[Completion] = []
    for request in requests:
        while (time := engine.next_step_time) is not None and time < request.arrival and chance.random() < 0.8:
            done += engine.advance(time)
        before = request.arrival - 1e-9
        if before > engine.now:
            done += engine.advance(before)
        engine.submit(request)
    while (time := chance.choice([engine.next_step_time, engine.next_event_time])) is not None:
        done += engine.advance(time)
    return done


@settings(max_examples=60, deadline=None)
@given(cases())
def test_jumping_and_cutting_time_change_nothing(case):
    """The same requests end at the same times with the same preemptions as step by step, however time is cut."""
    profile, limits, requests, chance = case
    naive = NaiveEngine(profile, limits)
    expected = {sequence.request.id: sequence for sequence in naive.run(requests)}
    jumping = ReplicaEngine(profile, limits)
    cut = ReplicaEngine(profile, limits)
    for engine, done in ((jumping, run(jumping, requests)), (cut, piecewise(cut, requests, chance))):
        assert len(done) == len(requests)
        for completion in done:
            sequence = expected[completion.request.id]
            assert completion.finished == pytest.approx(sequence.finished, abs=1e-7)
            assert completion.first_token == pytest.approx(sequence.first_token, abs=1e-7)
            assert completion.scheduled == pytest.approx(sequence.scheduled, abs=1e-7)
            assert completion.preemptions == sequence.preemptions
        assert engine.kv_fraction == 0.0
        assert engine.stats.preemptions == naive.preemptions
        assert engine.stats.generation_tokens == sum(request.output_tokens for request in requests)
        assert engine.stats.prompt_tokens == sum(request.prompt_tokens for request in requests)
        observed = engine.stats.token_seconds.count + engine.stats.first_token_seconds.count
        assert observed == engine.stats.generation_tokens
    assert jumping.stats.token_seconds.counts == cut.stats.token_seconds.counts
    assert jumping.stats.step_tokens.counts == cut.stats.step_tokens.counts
