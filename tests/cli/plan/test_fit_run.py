"""`forebay fit` turns results of benchmark tools and engine metrics into a profile for plans."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner, Result

from forebay.api.schema.manifest import read_profile
from forebay.capacity.model.engine_profile import BUILT_IN
from forebay.cli.main import app
from forebay.simulation.engine.replica_engine import EngineLimits, ReplicaEngine
from tests.simulation.load import closed_loop, poisson

MODEL, PRODUCT = "hf://meta-llama/Llama-3.1-8B-Instruct", "NVIDIA-A100-SXM4-80GB"
TRUE = BUILT_IN["8b-h100"].profile
"""The measured engine, which is faster than the built-in profile of its GPU."""
LIMITS = EngineLimits(1024, 8192)
LOADS = ((1, 128, 128), (8, 128, 128), (64, 128, 128), (4, 2000, 100), (16, 2000, 100), (32, 500, 800))
SAMPLES = Path(__file__).parents[2] / "samples"


def fit(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["fit", *arguments, "--model", MODEL, "--gpu", PRODUCT])


def profile_of(result: Result) -> Any:
    assert result.exit_code == 0, result.output
    return read_profile(yaml.safe_load(result.stdout)).spec


def measured(streams: int, prompt: int, output: int) -> dict[str, float]:
    seen = closed_loop(ReplicaEngine(TRUE, LIMITS), streams, prompt, output, requests=60 + 20 * streams)
    return {
        "rate": seen.requests_per_second,
        "first": seen.first_token_seconds * 1000,
        "token": seen.token_seconds * 1000,
        "prompt": prompt,
        "output": output,
        "streams": streams,
    }


@pytest.fixture(scope="module")
def loads() -> list[dict[str, float]]:
    return [measured(*load) for load in LOADS]


def as_guidellm(loads: list[dict[str, float]]) -> str:
    def mean(value: float) -> dict[str, Any]:
        return {"successful": {"mean": value, "median": value}, "total": {"mean": value}}

    benchmarks = [
        {
            "metrics": {
                "requests_per_second": mean(load["rate"]),
                "request_concurrency": mean(load["streams"]),
                "prompt_token_count": mean(load["prompt"]),
                "output_token_count": mean(load["output"]),
                "time_to_first_token_ms": mean(load["first"]),
                "inter_token_latency_ms": mean(load["token"]),
            }
        }
        for load in loads
    ]
    return json.dumps({"benchmarks": benchmarks})


def as_aiperf(load: dict[str, float], *, nested: bool) -> str:
    records = {
        "request_throughput": {"unit": "requests/sec", "avg": load["rate"]},
        "input_sequence_length": {"unit": "tokens", "avg": load["prompt"]},
        "output_sequence_length": {"unit": "tokens", "avg": load["output"]},
        "time_to_first_token": {"unit": "ms", "avg": load["first"], "p95": load["first"]},
        "inter_token_latency": {"unit": "ms", "avg": load["token"]},
    }
    return json.dumps({"records": records} if nested else records)


def as_metrics(engine: ReplicaEngine) -> str:
    stats, labels = engine.stats, 'engine="0",model_name="m"'
    blocks, size = engine.blocks.usable + 1, engine.blocks.size
    values = {
        "vllm:iteration_tokens_total_count": stats.step_tokens.count,
        "vllm:inter_token_latency_seconds_sum": stats.token_seconds.total,
        "vllm:inter_token_latency_seconds_count": stats.token_seconds.count,
        "vllm:prompt_tokens_total": stats.prompt_tokens,
        "vllm:generation_tokens_total": stats.generation_tokens,
        "vllm:kv_cache_usage_perc": engine.kv_fraction,
    }
    lines = [f"{name}{{{labels}}} {value}" for name, value in values.items()]
    lines.append(f'vllm:cache_config_info{{block_size="{size}",num_gpu_blocks="{blocks}",engine="0"}} 1.0')
    return "\n".join(lines) + "\n"


def check_profile(spec: Any) -> None:
    """What plans need of the fit: the time of an empty step, and the work of a request."""
    assert spec.step_milliseconds == pytest.approx(TRUE.step_seconds * 1000, rel=0.08)
    work = 500 * spec.prompt_token_microseconds * 1e-6 + 200 * (
        spec.sequence_microseconds * 1e-6 + 600 * spec.kv_token_nanoseconds * 1e-9
    )
    assert work == pytest.approx(TRUE.work_seconds(500, 200), rel=0.12)


def test_a_result_of_guidellm(loads, tmp_path):
    path = tmp_path / "benchmarks.json"
    path.write_text(as_guidellm(loads))
    result = fit(str(path))
    check_profile(profile_of(result))
    assert "8b-a100" in result.stderr


@pytest.mark.parametrize("nested", [True, False])
def test_results_of_aiperf(loads, tmp_path, nested):
    for index, load in enumerate(loads):
        (tmp_path / f"{index}.json").write_text(as_aiperf(load, nested=nested))
    check_profile(profile_of(fit(str(tmp_path))))


def test_a_series_of_metrics(tmp_path):
    """One engine, scraped every ten seconds under loads of different lengths."""
    engine = ReplicaEngine(TRUE, LIMITS)
    start, scrapes = 0.0, 0
    for rate, prompt, output in ((5, 128, 128), (30, 128, 128), (60, 128, 200), (4, 4000, 50), (8, 2000, 400)):
        arrivals = poisson(rate, 40, prompt, output)
        for offset in range(0, 40, 10):
            for request in arrivals:
                if offset <= request.arrival < offset + 10:
                    at = start + request.arrival
                    engine.advance(at)
                    engine.submit(type(request)(f"{rate}-{request.id}-{prompt}", prompt, output, at))
            engine.advance(start + offset + 10)
            (tmp_path / f"{scrapes:03}.txt").write_text(as_metrics(engine))
            scrapes += 1
        start += 60
        engine.advance(start)
    check_profile(profile_of(fit(str(tmp_path))))


def test_real_answers_of_vllm_are_read(tmp_path):
    """Two responses of one vLLM 0.32: idle, then under load."""
    for index, name in enumerate(("idle", "load")):
        (tmp_path / f"{index}.txt").write_text((SAMPLES / f"vllm-metrics-{name}.txt").read_text())
    result = fit(str(tmp_path))
    assert result.exit_code in (0, 1)
    assert yaml.safe_load(result.stdout)["spec"]["product"] == PRODUCT


def test_the_profile_says_what_it_is_for(loads, tmp_path):
    path = tmp_path / "benchmarks.json"
    path.write_text(as_guidellm(loads))
    result = fit(str(path), "--weight-bits", "16", "--engine-version", "0.32", "--name", "ours")
    manifest = yaml.safe_load(result.stdout)
    assert manifest["metadata"] == {"name": "ours"}
    assert (manifest["spec"]["weightBits"], manifest["spec"]["engineVersion"]) == (16, "0.32")
    assert manifest["spec"]["measuredWith"].startswith("forebay fit, 7 observations")
    assert yaml.safe_load(fit(str(path)).stdout)["metadata"]["name"] == (
        "llama-3.1-8b-instruct-nvidia-a100-sxm4-80gb-tp1"
    )


def test_loads_of_one_length_are_reported_as_insufficient(loads, tmp_path):
    path = tmp_path / "benchmarks.json"
    path.write_text(as_guidellm(loads[1:3]))
    assert "vary the prompt and output lengths" in fit(str(path)).stderr


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.json", "{", "not a result of guidellm or aiperf"),
        ("a.json", "{}", "not a result of guidellm or aiperf ('request_throughput' is missing)"),
        ("a.json", '{"benchmarks": [{"metrics": {}}]}', "'requests_per_second' is missing"),
        ("a.json", '{"benchmarks": 5}', "not a result of guidellm or aiperf"),
        ("a.json", '{"benchmarks": []}', "no measurement"),
        ("a.txt", "vllm:prompt_tokens_total 5", "truncated"),
        ("a.txt", "# nothing\n", "no measurement"),
    ],
)
def test_files_without_measurements_are_refused(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    result = fit(str(tmp_path / name))
    assert result.exit_code == 2
    assert message in result.stderr


def test_a_series_that_lacks_a_name(tmp_path):
    for index in range(2):
        (tmp_path / f"{index}.txt").write_text("vllm:prompt_tokens_total 5\n")
    result = fit(str(tmp_path))
    assert result.exit_code == 2
    assert "vllm:iteration_tokens_total_count is missing" in result.stderr


@pytest.mark.parametrize(
    ("model", "gpu", "message"),
    [
        ("hf://a/b", PRODUCT, '--model: "hf://a/b" is not in the catalogue; give its config.json with --config'),
        (MODEL, "H100", '--gpu: "H100" is not a GPU of the catalogue'),
    ],
)
def test_an_unknown_model_or_gpu_is_refused(tmp_path, model, gpu, message):
    result = CliRunner().invoke(app, ["fit", str(tmp_path), "--model", model, "--gpu", gpu])
    assert result.exit_code == 2
    assert message in result.stderr
