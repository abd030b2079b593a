"""The replica engine against published measurements.

Rows that the profile was fitted to must be within 5 %, all others within 25 %. These rows are not modelled, so they are
not tested:

- TTFT at 64 streams (26.0 ms): the source does not say how its streams are spaced; the engine gives 18 ms when they are
  spread and 155 ms in lockstep, and the published figure must lie between (tested below).
- Llama-3.1-70B and Qwen2.5-7B on H100 (ITL 17.1 to 18.8 ms and 7.0 ms, TTFT 52 to 54 and 26.7 ms): the loads and
  prompt lengths are not published; only the floor of one stream is tested.
- Qwen3-32B, 1,000/1,000 (knee at 2 requests a second): neither GPU nor parallel sizes are published; no profile.
- Splitwise's table for Llama-2-70B on four H100 (29.7 ms at batch 1): an older engine with twice today's step.
"""

from statistics import fmean

import pytest

from forebay.simulation.engine.replica_engine import EngineLimits, ReplicaEngine
from forebay.simulation.engine.simulated_profile import BUILT_IN
from tests.simulation.load import a_profile, a_request, closed_loop, poisson, run

FITTED, PREDICTED = 0.05, 0.25
H100_LIMITS = EngineLimits(max_num_seqs=1024, max_num_batched_tokens=8192)


def measure(profile: str, streams: int, prompt: int, output: int):
    return closed_loop(
        ReplicaEngine(BUILT_IN[profile], H100_LIMITS), streams, prompt, output, requests=100 + 40 * streams
    )


@pytest.mark.parametrize(
    ("profile", "streams", "prompt", "figure", "published", "within"),
    [
        pytest.param("8b-h100", 1, 128, "tokens_per_second", 140.7, FITTED, id="8B H100, 1 stream, tokens/s"),
        pytest.param("8b-h100", 1, 128, "first_token_seconds", 0.0150, FITTED, id="8B H100, 1 stream, TTFT"),
        pytest.param("8b-h100", 1, 128, "token_seconds", 0.0070, FITTED, id="8B H100, 1 stream, ITL"),
        pytest.param("8b-h100", 64, 128, "requests_per_second", 56.65, FITTED, id="8B H100, 64 streams, requests/s"),
        pytest.param("8b-h100", 64, 128, "tokens_per_second", 7252, FITTED, id="8B H100, 64 streams, tokens/s"),
        pytest.param("8b-h100", 64, 128, "token_seconds", 0.0087, FITTED, id="8B H100, 64 streams, ITL"),
        pytest.param("8b-a100", 1, 1024, "tokens_per_second", 75, FITTED, id="8B A100, 1 stream, tokens/s"),
        pytest.param("8b-a100", 8, 1024, "tokens_per_second", 6.6 * 75, PREDICTED, id="8B A100, 8 streams, tokens/s"),
        pytest.param("70b-h100-tp4", 1, 500, "token_seconds", 0.0171, PREDICTED, id="70B on 4 H100, floor of ITL"),
    ],
)
def test_row(profile, streams, prompt, figure, published, within):
    assert getattr(measure(profile, streams, prompt, 128), figure) == pytest.approx(published, rel=within)


def test_ttft_of_64_streams_lies_between_spread_and_lockstep():
    lockstep = ReplicaEngine(BUILT_IN["8b-h100"], H100_LIMITS)
    together = run(lockstep, [a_request(f"r{stream}", 128, 128) for stream in range(64)])
    assert measure("8b-h100", 64, 128, 128).first_token_seconds < 0.026 < (together[0].first_token_seconds or 0)


@pytest.mark.parametrize(
    ("profile", "rate", "token_seconds"),
    [
        pytest.param("8b-h100", 46, 0.025, id="8B H100 holds 25 ms at 46 requests a second"),
        pytest.param("8b-h100", 52, 0.040, id="8B H100 holds 40 ms at 52 requests a second"),
        pytest.param("7b-mha-h100", 19, 0.025, id="7B MHA H100 holds 25 ms at 19 requests a second"),
    ],
)
def test_steady_state_follows_the_closed_form(profile, rate, token_seconds):
    """With random arrivals the engine's step takes `T = a / (1 − r·s)`, the formula of the capacity plan.

    a is the fixed time of a step, r the rate of requests and s the work of a request in seconds.
    """
    engine_profile = BUILT_IN[profile]
    done = run(ReplicaEngine(engine_profile, H100_LIMITS), poisson(rate, seconds=240, prompt=500, output=200))
    steady = [completion for completion in done if 60 < completion.request.arrival < 220]
    measured = fmean(completion.token_seconds or 0 for completion in steady)
    step_seconds = engine_profile.step_seconds / (1 - rate * engine_profile.work_seconds(500, 200))
    assert measured == pytest.approx(step_seconds, rel=0.06)
    assert measured == pytest.approx(token_seconds, rel=0.06)


@pytest.mark.parametrize(
    ("profile", "rate"),
    [
        pytest.param("7b-mha-h100", 24, id="7B MHA collapses when its KV cache is full"),
        pytest.param("8b-h100", 60, id="8B collapses when the GPU is full"),
    ],
)
def test_collapse(profile, rate):
    engine = ReplicaEngine(BUILT_IN[profile], H100_LIMITS)
    done = run(engine, poisson(rate, seconds=240, prompt=500, output=200))
    late = [completion for completion in done if completion.request.arrival > 200]
    assert fmean(completion.first_token_seconds or 0 for completion in late) > 5
    assert engine.stats.preemptions > 0


def test_real_vllm_under_kv_pressure():
    """vLLM 0.32 on a CPU, 32 streams of 400 + 700 tokens, 128 blocks of 32: 8 preemptions, each prompt counted once."""
    engine = ReplicaEngine(
        a_profile(kv_tokens=4096),
        EngineLimits(max_num_seqs=4, max_num_batched_tokens=2048, block_size=32, kv_blocks=128),
    )
    for index in range(32):
        engine.submit(a_request(f"r{index}", 400, 700))
    assert engine.next_event_time == 0.0
    engine.advance(2.0)
    assert (engine.running, engine.waiting) == (4, 28)
    assert len(engine.advance(1e9)) == 32
    assert engine.stats.preemptions == 8
    assert engine.stats.prompt_tokens == 32 * 400
    assert engine.stats.generation_tokens == 32 * 700


def test_kv_fraction_of_real_vllm():
    """Four requests that hold 15 blocks each out of 127 usable ones: vLLM's gauge said 0.472."""
    engine = ReplicaEngine(
        a_profile(prompt_token_seconds=0.0, sequence_seconds=0.0, kv_token_seconds=0.0),
        EngineLimits(max_num_seqs=4, max_num_batched_tokens=2048, block_size=32, kv_blocks=128),
    )
    for index in range(4):
        engine.submit(a_request(f"r{index}", 450, 700))
    engine.advance(0.010)
    assert engine.kv_fraction == pytest.approx(60 / 127)
