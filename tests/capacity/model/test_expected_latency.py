"""Expected latencies against the simulated engine, which has the same coefficients and simulates every step."""

from statistics import fmean, median

import pytest

from forebay.capacity.model.engine_profile import BUILT_IN
from forebay.capacity.model.expected_latency import MeanAndVariance, expected_latency
from forebay.capacity.model.replica_model import EngineModel, Mix, Promise, batched_tokens, capacity
from forebay.simulation.engine.replica_engine import EngineLimits, ReplicaEngine
from tests.simulation.load import poisson, run

PROMISE = Promise(0.5, 0.040)


@pytest.mark.parametrize(
    ("name", "prompt", "output", "share"),
    [
        pytest.param("8b-h100", 500, 200, 0.67, id="8B with a headroom of 1.5"),
        pytest.param("8b-h100", 500, 200, 0.9, id="8B with little headroom"),
        pytest.param("8b-h100", 1500, 50, 0.67, id="8B, long prompts that queue for the step"),
        pytest.param("7b-mha-h100", 500, 200, 0.67, id="7B MHA"),
        pytest.param("8b-a100", 1024, 128, 0.67, id="8B on an A100"),
        pytest.param("70b-h100-tp4", 500, 200, 0.67, id="70B on four H100"),
    ],
)
def test_expected_latencies_match_the_simulated_engine(name, prompt, output, share):
    """TTFT: the median within 20 %, the p95 between −10 % and +35 %; ITL within 10 %; end to end within 15 %."""
    profile, mix = BUILT_IN[name].profile, Mix.fixed(prompt, output)
    engine = EngineModel(profile, profile.kv_tokens)
    rate = share * capacity(engine, mix, PROMISE).requests_per_second
    chunk = batched_tokens(engine, mix, PROMISE, 8192)
    seconds = 2500 / rate
    played = run(
        ReplicaEngine(profile, EngineLimits(engine.max_num_seqs, chunk)), poisson(rate, seconds, prompt, output)
    )
    steady = [done for done in played if seconds * 0.2 < done.request.arrival < seconds * 0.9]
    first_token = sorted(done.first_token_seconds or 0 for done in steady)
    end_to_end = sorted(done.finished - done.request.arrival for done in steady)
    latency = expected_latency(engine, mix, rate, chunk)
    assert latency.first_token_p50 == pytest.approx(median(first_token), rel=0.2)
    assert 0.9 <= latency.first_token_p95 / first_token[int(0.95 * len(first_token))] <= 1.35
    assert latency.inter_token_mean == pytest.approx(fmean(done.token_seconds or 0 for done in steady), rel=0.1)
    assert latency.end_to_end_p95 == pytest.approx(end_to_end[int(0.95 * len(end_to_end))], rel=0.15)


def test_an_idle_engine_answers_after_a_prefill():
    """6 ms of overhead, no step of other sequences, then 6.9 ms + 128 × 17.3 µs. Tokens take 6.9 ms + c + d·192."""
    profile = BUILT_IN["8b-h100"].profile
    latency = expected_latency(EngineModel(profile, profile.kv_tokens), Mix.fixed(128, 128), 0.001, 8192)
    assert latency.first_token_p50 == pytest.approx(0.006 + 0.0069 + 128 * 17.3e-6, rel=0.01)
    assert latency.inter_token_mean == pytest.approx(0.0069 + 5e-6 + 192 * 52e-9, rel=0.001)
    assert latency.end_to_end_mean == pytest.approx(latency.first_token_p50 + 127 * 0.0069, rel=0.01)


def test_more_load_is_never_faster():
    profile, mix = BUILT_IN["8b-h100"].profile, Mix.fixed(500, 200)
    engine = EngineModel(profile, profile.kv_tokens)
    latencies = [expected_latency(engine, mix, rate, 1383) for rate in range(1, 60)]
    for slower, faster in zip(latencies[1:], latencies, strict=False):
        assert slower.first_token_p95 >= faster.first_token_p95
        assert slower.inter_token_mean >= faster.inter_token_mean
        assert slower.end_to_end_p95 >= faster.end_to_end_p95


def test_quantiles_of_a_lognormal():
    """Mean 1 and variance e − 1 are those of exp(z − ½), whose median is e^−½ and whose 95 % is e^(1.6449 − ½)."""
    p50, p95 = MeanAndVariance(1.0, 1.718281828).quantiles()
    assert p50 == pytest.approx(0.60653, abs=1e-4)
    assert p95 == pytest.approx(3.142, abs=1e-3)
