"""Reads measurements of an engine as observations of its steps.

Two kinds of files are read:
- the result of a benchmark (guidellm's `benchmarks`, or aiperf's `profile_export_aiperf.json`): each load gives a mean
  time between tokens and a mean time to the first token;
- a series of vLLM's `/metrics`, one response per file in order of time: each pair of responses gives the mean step
  between them.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from forebay.capacity.calibration.step_fit import FitError, Observation
from forebay.capacity.model.engine_profile import REQUEST_OVERHEAD_SECONDS
from forebay.telemetry.text_format import MalformedMetrics, Readings, TextReader

STEPS = "vllm:iteration_tokens_total_count"
TOKEN_SUMS = ("vllm:inter_token_latency_seconds_sum", "vllm:time_per_output_token_seconds_sum")
TOKEN_COUNTS = ("vllm:inter_token_latency_seconds_count", "vllm:time_per_output_token_seconds_count")
PROMPTS = "vllm:prompt_tokens_total"
OUTPUTS = "vllm:generation_tokens_total"
KV_USE = ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc")
CACHE = "vllm:cache_config_info"
FEWEST_STEPS = 20
"""Between two responses; with fewer steps, the step in progress at either end distorts the mean too much."""
FIRST_TOKEN_WEIGHT = 0.25
"""Relative to the time between tokens: a first token also waits for the step that runs when its request arrives."""


@dataclass(frozen=True, slots=True)
class MeasuredLoad:
    """One load of a benchmark, in means: seconds, tokens, and streams at the same time."""

    requests_per_second: float
    prompt_tokens: float
    output_tokens: float
    first_token: float
    token: float
    streams: float


def read_observations(paths: Sequence[Path]) -> list[Observation]:
    """The observations of all files. Raises FitError that names the file."""
    observations: list[Observation] = []
    responses: list[tuple[str, Readings]] = []
    for path in _files(paths):
        body = _body(path)
        if body.lstrip()[:1] in (b"{", b"["):
            observations += _benchmark(path, body)
        else:
            responses.append((str(path), _metrics(path, body)))
    steps = (_step(name, before, after) for (_, before), (name, after) in pairwise(responses))
    observations += [step for step in steps if step is not None]
    if not observations:
        raise FitError(
            "these files contain no measurement; give a result of guidellm or aiperf, or at least two responses of one "
            "engine's /metrics under load, in order of time"
        )
    return observations


def _files(paths: Sequence[Path]) -> Iterator[Path]:
    for path in paths:
        if path.is_dir():
            yield from sorted(file for file in path.iterdir() if file.is_file())
        else:
            yield path


def _body(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise FitError(f"{path}: cannot be read: {error.strerror}") from error


def _benchmark(path: Path, body: bytes) -> Iterator[Observation]:
    try:
        document = json.loads(body)
        loads = list(_loads(document))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        reason = f"{error.args[0]!r} is missing" if isinstance(error, KeyError) else str(error)
        raise FitError(f"{path}: not a result of guidellm or aiperf ({reason})") from error
    for load in loads:
        yield from _observations(load)


def _loads(document: Any) -> Iterator[MeasuredLoad]:
    if "benchmarks" in document:
        for benchmark in document["benchmarks"]:
            yield _guidellm(benchmark["metrics"])
    else:
        yield _aiperf(document.get("records", document))


def _guidellm(metrics: Mapping[str, Any]) -> MeasuredLoad:
    def mean(name: str) -> float:
        return float(metrics[name]["successful"]["mean"])

    return MeasuredLoad(
        requests_per_second=mean("requests_per_second"),
        prompt_tokens=mean("prompt_token_count"),
        output_tokens=mean("output_token_count"),
        first_token=mean("time_to_first_token_ms") / 1000,
        token=mean("inter_token_latency_ms") / 1000,
        streams=mean("request_concurrency"),
    )


def _aiperf(records: Mapping[str, Any]) -> MeasuredLoad:
    def mean(name: str) -> float:
        return float(records[name]["avg"])

    rate, output = mean("request_throughput"), mean("output_sequence_length")
    first, token = mean("time_to_first_token") / 1000, mean("inter_token_latency") / 1000
    return MeasuredLoad(
        requests_per_second=rate,
        prompt_tokens=mean("input_sequence_length"),
        output_tokens=output,
        first_token=first,
        token=token,
        streams=rate * (first + (output - 1) * token),
    )


def _observations(load: MeasuredLoad) -> Iterator[Observation]:
    """The step between tokens and, for a single stream, the prefill of a prompt, which no other request disturbs."""
    decoding = load.requests_per_second * load.output_tokens * load.token
    yield Observation(
        seconds=load.token,
        prompt_tokens=load.requests_per_second * load.prompt_tokens * load.token,
        sequences=decoding,
        kv_tokens=decoding * (load.prompt_tokens + load.output_tokens / 2),
    )
    prefill = load.first_token - REQUEST_OVERHEAD_SECONDS
    if load.streams <= 1.05 and prefill > 0:
        yield Observation(prefill, load.prompt_tokens, 0.0, 0.0, weight=FIRST_TOKEN_WEIGHT)


_READER = TextReader([STEPS, *TOKEN_SUMS, *TOKEN_COUNTS, PROMPTS, OUTPUTS, *KV_USE, CACHE])


def _metrics(path: Path, body: bytes) -> Readings:
    try:
        return _READER.read(body)
    except MalformedMetrics as error:
        raise FitError(f"{path}: not a response of vLLM's /metrics: {error}") from error


def _step(name: str, before: Readings, after: Readings) -> Observation | None:
    """The mean step between two responses; None when the engine restarted between them or was almost idle."""
    steps = _increase(name, (STEPS,), before, after)
    tokens = _increase(name, TOKEN_COUNTS, before, after)
    seconds = _increase(name, TOKEN_SUMS, before, after)
    prompts, outputs = (_increase(name, (series,), before, after) for series in (PROMPTS, OUTPUTS))
    if steps < FEWEST_STEPS or tokens <= 0 or min(seconds, prompts, outputs) < 0:
        return None
    use = (_value(name, KV_USE, before) + _value(name, KV_USE, after)) / 2
    return Observation(
        seconds=seconds / tokens,
        prompt_tokens=prompts / steps,
        sequences=outputs / steps,
        kv_tokens=use * _cache_tokens(name, after),
    )


def _increase(name: str, series: Sequence[str], before: Readings, after: Readings) -> float:
    return _value(name, series, after) - _value(name, series, before)


def _value(name: str, series: Sequence[str], readings: Readings) -> float:
    """The first of these series that is in the response; vLLM has renamed some of them."""
    for metric in series:
        if metric in readings:
            if len(readings[metric]) > 1:
                raise FitError(
                    f"{name}: {metric} occurs {len(readings[metric])} times; give the response of one engine"
                )
            return readings[metric][0].value
    raise FitError(f"{name}: {series[0]} is missing")


def _cache_tokens(name: str, readings: Readings) -> float:
    if CACHE not in readings:
        raise FitError(f"{name}: {CACHE} is missing")
    labels = readings[CACHE][0].labels
    try:
        return float(labels["num_gpu_blocks"]) * float(labels["block_size"])
    except (KeyError, ValueError) as error:
        raise FitError(f"{name}: {CACHE} lacks num_gpu_blocks or block_size") from error
