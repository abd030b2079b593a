"""What was measured of an engine, read into observations of its steps.

Two kinds of files are read. A benchmark's result (guidellm's `benchmarks`, or aiperf's `profile_export_aiperf.json`):
each load gives a mean time between tokens and a mean time to the first token. A series of vLLM's `/metrics`, one answer
a file in order of time: each pair of answers gives the mean step between them.
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
"""Between two answers; fewer are left out, as one of them is then half of what is seen."""
FIRST_TOKEN_WEIGHT = 0.25
"""Beside the time between tokens: how arrivals fall into steps is in it too."""


@dataclass(frozen=True, slots=True)
class MeasuredLoad:
    """One load of a benchmark, in seconds and tokens; streams run at the same time."""

    requests_per_second: float
    prompt_tokens: float
    output_tokens: float
    first_token: float
    token: float
    streams: float


def read_observations(paths: Sequence[Path]) -> list[Observation]:
    """Raises FitError, naming the file."""
    observations: list[Observation] = []
    series: list[tuple[str, Readings]] = []
    for path in _files(paths):
        body = _body(path)
        if body.lstrip()[:1] in (b"{", b"["):
            observations += _benchmark(path, body)
        else:
            series.append((str(path), _metrics(path, body)))
    observations += [seen for (_, before), (name, after) in pairwise(series) if (seen := _step(name, before, after))]
    if not observations:
        raise FitError(
            "nothing was measured in these files; give a result of guidellm or aiperf, or two answers or more of one "
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
    """A step between tokens; and, for a single stream, the prefill of a prompt, which nothing else disturbs."""
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
        raise FitError(f"{path}: not an answer of vLLM's /metrics: {error}") from error


def _step(name: str, before: Readings, after: Readings) -> Observation | None:
    """The mean step between two answers; None when the engine restarted between them or hardly worked."""
    steps = _grown(name, (STEPS,), before, after)
    tokens = _grown(name, TOKEN_COUNTS, before, after)
    seconds = _grown(name, TOKEN_SUMS, before, after)
    prompts, outputs = (_grown(name, (series,), before, after) for series in (PROMPTS, OUTPUTS))
    if steps < FEWEST_STEPS or tokens <= 0 or min(seconds, prompts, outputs) < 0:
        return None
    use = (_value(name, KV_USE, before) + _value(name, KV_USE, after)) / 2
    return Observation(
        seconds=seconds / tokens,
        prompt_tokens=prompts / steps,
        sequences=outputs / steps,
        kv_tokens=use * _cache_tokens(name, after),
    )


def _grown(name: str, series: Sequence[str], before: Readings, after: Readings) -> float:
    return _value(name, series, after) - _value(name, series, before)


def _value(name: str, series: Sequence[str], readings: Readings) -> float:
    for one in series:
        if one in readings:
            if len(readings[one]) > 1:
                raise FitError(f"{name}: {one} is there {len(readings[one])} times; give the answer of one engine")
            return readings[one][0].value
    raise FitError(f"{name}: {series[0]} is not in it")


def _cache_tokens(name: str, readings: Readings) -> float:
    if CACHE not in readings:
        raise FitError(f"{name}: {CACHE} is not in it")
    labels = readings[CACHE][0].labels
    try:
        return float(labels["num_gpu_blocks"]) * float(labels["block_size"])
    except (KeyError, ValueError) as error:
        raise FitError(f"{name}: {CACHE} does not say num_gpu_blocks and block_size") from error
