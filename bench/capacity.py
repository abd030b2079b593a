"""Compares the capacity plan with published measurements, with logs of engines, and with the simulated engine.

`python -m bench.capacity` rewrites the tables in docs/capacity.md and prints how long planning 200 services takes. It
fails if the error of a row is larger than its label allows.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from statistics import fmean, median

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "operator"), str(ROOT)]

from bench.engine_logs import LOGS  # noqa: E402
from bench.made_section import with_section  # noqa: E402
from bench.published_rows import ROWS, UNMODELLED  # noqa: E402
from forebay.capacity.model.engine_profile import BUILT_IN  # noqa: E402
from forebay.capacity.model.expected_latency import expected_latency  # noqa: E402
from forebay.capacity.model.gpu_memory import Sizes  # noqa: E402
from forebay.capacity.model.model_catalogue import gpus, models  # noqa: E402
from forebay.capacity.model.quantization import UNQUANTIZED, quantization_of  # noqa: E402
from forebay.capacity.model.replica_model import EngineModel, Mix, Promise, batched_tokens, capacity  # noqa: E402
from forebay.capacity.model.roofline import estimate  # noqa: E402
from forebay.simulation.engine.replica_engine import EngineLimits, ReplicaEngine  # noqa: E402
from tests.simulation.load import poisson, run  # noqa: E402

PAGE = ROOT / "docs/capacity.md"
DEFAULT_OVERHEAD_GIB = "4"
WITHIN_DEFAULT = 0.10
MIXES = ((500, 200), (128, 128), (2000, 2000), (2048, 28), (6000, 300))
SIMULATED = (("8b-h100", 500, 200), ("8b-h100", 1500, 50), ("7b-mha-h100", 500, 200), ("70b-h100-tp4", 500, 200))
SERVICES = 200
MOST_SECONDS = 2.0


def kv_cache() -> list[str]:
    """KV cache tokens in the logs of engines, and as the plan computes them."""
    rows = []
    for log in LOGS:
        computed, default = log.computed().kv_tokens, log.computed(DEFAULT_OVERHEAD_GIB).kv_tokens
        rows.append(
            (
                log.name,
                f"{log.kv_tokens:,}",
                f"{log.overhead_gib} GiB",
                f"{computed:,} ({'exact' if computed == log.kv_tokens else _percent(computed / log.kv_tokens - 1)})",
                f"{default:,} ({_percent(default / log.kv_tokens - 1)})",
                log.source,
            )
        )
    return _table(("engine", "logged tokens", "its overhead", "computed", "with 4 GiB of overhead", "source"), rows)


def published() -> list[str]:
    """Published measurements beside the replica model."""
    rows = [
        (
            row.name,
            f"{row.published:,g}",
            f"{row.model:,.4g}",
            _percent(row.error),
            "fitted, within 5 %" if row.fitted else "predicted, within 25 %",
            row.source,
        )
        for row in ROWS
    ]
    unmodelled = [(row.name, row.published, row.why) for row in UNMODELLED]
    return [
        *_table(("row", "published", "model", "error", "label", "source"), rows),
        "",
        "Not modelled:",
        "",
        *_table(("row", "published", "why"), unmodelled),
    ]


def rooflines() -> list[str]:
    """Relative errors of the requests per second within the promise, by roofline estimate instead of profile."""
    rows = []
    for name, entry in BUILT_IN.items():
        quantization = UNQUANTIZED if entry.bits == 16 else quantization_of("fp8", None, None)
        assert quantization is not None
        roofline = estimate(
            models()[entry.models[0]].architecture,
            gpus()[entry.gpus[0]],
            Sizes(entry.tensor_parallel_size),
            quantization=quantization,
            kv_tokens=entry.profile.kv_tokens,
        )
        promise = Promise(0.5, 2.5 * entry.profile.step_seconds)
        errors = []
        for prompt, output in MIXES:
            mix = Mix.fixed(prompt, output)
            estimated, measured = (
                capacity(
                    EngineModel(profile, entry.profile.kv_tokens, usable_share=0.9), mix, promise
                ).requests_per_second
                for profile in (roofline, entry.profile)
            )
            errors.append(_percent(estimated / measured - 1))
        rows.append((name, *errors))
    return _table(("profile", *(f"{prompt:,} + {output:,}" for prompt, output in MIXES)), rows)


def simulated() -> list[str]:
    """Expected latencies beside those of the simulated engine, at two thirds of capacity."""
    rows = []
    promise = Promise(0.5, 0.040)
    for name, prompt, output in SIMULATED:
        profile, mix = BUILT_IN[name].profile, Mix.fixed(prompt, output)
        engine = EngineModel(profile, profile.kv_tokens)
        rate = capacity(engine, mix, promise).requests_per_second / 1.5
        chunk = batched_tokens(engine, mix, promise, 8192)
        latency = expected_latency(engine, mix, rate, chunk)
        seconds = 2500 / rate
        played = run(
            ReplicaEngine(profile, EngineLimits(engine.max_num_seqs, chunk)), poisson(rate, seconds, prompt, output)
        )
        steady = [done for done in played if seconds * 0.2 < done.request.arrival < seconds * 0.9]
        first_token = sorted(done.first_token_seconds or 0.0 for done in steady)
        end_to_end = sorted(done.finished - done.request.arrival for done in steady)
        token = fmean(done.token_seconds or 0.0 for done in steady)
        rows.append(
            (
                f"{name}, {prompt:,} + {output:,}, {rate:.1f}/s",
                _pair(latency.first_token_p50 * 1000, median(first_token) * 1000),
                _pair(latency.first_token_p95 * 1000, first_token[int(0.95 * len(first_token))] * 1000),
                _pair(latency.inter_token_mean * 1000, token * 1000),
                _pair(latency.end_to_end_p95, end_to_end[int(0.95 * len(end_to_end))]),
            )
        )
    return _table(("engine and load", "TTFT p50, ms", "TTFT p95, ms", "ITL, ms", "end to end p95, s"), rows)


SECTIONS = {"kv-cache": kv_cache, "published": published, "roofline": rooflines, "simulated": simulated}


def page(text: str, names: Iterable[str] = SECTIONS) -> str:
    """The text of the page with new tables in these sections."""
    for name in names:
        text = with_section(text, name, "bench.capacity", "\n".join(SECTIONS[name]()))
    return text


def broken() -> list[str]:
    """Rows whose error is larger than their label allows."""
    faults = [f"{row.name}: {_percent(row.error)}" for row in ROWS if abs(row.error) > row.within]
    for log in LOGS:
        computed, default = log.computed().kv_tokens, log.computed(DEFAULT_OVERHEAD_GIB).kv_tokens
        if log.exact and computed != log.kv_tokens:
            faults.append(f"{log.name}: {computed} tokens, logged {log.kv_tokens}")
        if abs(default / log.kv_tokens - 1) > WITHIN_DEFAULT:
            faults.append(f"{log.name}: {default} tokens with the default overhead, logged {log.kv_tokens}")
    return faults


def manifests(count: int) -> str:
    """Services of different models, GPUs and loads, as JSON documents in one YAML stream."""
    sources = ["meta-llama/Llama-3.1-8B", "meta-llama/Llama-3.1-70B", "Qwen/Qwen3-32B", "google/gemma-2-9b"]
    products = ["NVIDIA-H100-80GB-HBM3", "NVIDIA-H200", "NVIDIA-L40S"]
    documents = [
        {
            "apiVersion": "forebay.dev/v1alpha1",
            "kind": "InferenceService",
            "metadata": {"name": f"service-{index}", "namespace": f"team-{index % 7}"},
            "spec": {
                "model": {"source": f"hf://{sources[index % 4]}", "maxModelLen": 8192},
                "gpu": {"product": products[index % 3]},
                "traffic": {
                    "requestsPerMonth": 1_000_000 * (1 + index),
                    "peakFactor": 4,
                    "promptTokens": 400 + index,
                    "outputTokens": 200,
                },
                "scaling": {"maxReplicas": 1000},
            },
        }
        for index in range(count)
    ]
    return "\n---\n".join(json.dumps(document) for document in documents)


def seconds_to_plan(count: int) -> float:
    """CPU seconds of a whole `forebay plan` process, including the start of Python."""
    before = getrusage(RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "forebay.cli.main", "plan", "-f", "-", "--no-details"]
    completed = subprocess.run(command, input=manifests(count), capture_output=True, text=True, check=False)
    if completed.returncode not in (0, 1) or "ask for" not in completed.stdout:
        raise SystemExit(f"forebay plan failed: {completed.stderr}")
    after = getrusage(RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Writes the page, prints the time, and fails if the error of a row is too large."""
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    print(f"wrote {PAGE.relative_to(ROOT)}")
    seconds = seconds_to_plan(SERVICES)
    print(f"{SERVICES} services planned in {seconds:.2f} s of CPU, Python's start included (most {MOST_SECONDS:g} s)")
    faults = broken()
    if seconds > MOST_SECONDS:
        faults.append(f"{SERVICES} services took {seconds:.2f} s")
    if faults:
        raise SystemExit("\n".join(faults))


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(header)} |", f"|{'---|' * len(header)}", *(f"| {' | '.join(row)} |" for row in rows)]


def _percent(error: float) -> str:
    return f"{error * 100:+.1f} %"


def _pair(expected: float, simulated: float) -> str:
    return f"{expected:.3g} / {simulated:.3g}"


if __name__ == "__main__":
    main()
