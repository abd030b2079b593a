"""Forebay beside the scaling rules of others, on the same recorded traffic: `python -m bench.policies`.

`make bench-quick` plays the excerpt that the repository holds; `make bench TRACES=DIR` the suites on whole traces. Each
suite plays every policy with the same arrivals, lengths, starts and router, for several seeds, which draw how far the
true engine is off from its profile. Peers come with their defaults and with the best setting of a grid, chosen on the
first third of the recording; all are judged on the rest. Results go to `bench/results/`, and `docs/benchmarks.md` is
made from them.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from rich.console import Console
from rich.progress import Progress

from bench.policies_page import page, picture
from forebay.simulation.cold_start import ColdStarts
from forebay.simulation.comparison import Case, Comparison, Result, true_model
from forebay.simulation.peers.lineup import Entry, defaults, grid, static
from forebay.simulation.report import document
from forebay.simulation.served_model import view_of_manifest
from forebay.simulation.traces import Trace, between, rate_factor, read_file, steps, synthetic

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench" / "results"
EXCERPT = ROOT / "examples" / "traces" / "azure-2023-conv-first-15-minutes.csv"
WANTED = 0.99
"""A setting that keeps so many requests in time is tuned for GPU-hours; one that does not, for requests in time."""
TUNING_SHARE = 1 / 3
OFF_BY = 0.2


@dataclass(frozen=True, slots=True)
class Suite:
    """One recording, or a shape, and the service that meets it."""

    name: str
    says: str
    source: str
    """A file below the traces' folder; empty for a shape."""
    rate: float = 1.0
    model: str = "hf://meta-llama/Llama-3.1-70B-Instruct"
    tensor_parallel: int = 4
    most: int = 16
    cold_start_seconds: float = 120.0


SUITES = (
    Suite(
        "A",
        "Azure 2023 conversation, to about 8 replicas of a 70B model",
        "azure-2023/AzureLLMInferenceTrace_conv.csv",
        5.0,
    ),
    Suite("C", "Mooncake conversation: long contexts", "mooncake-fast25/conversation_trace.jsonl", 1.0, most=40),
    Suite("D", "a flash crowd: three times the requests within a minute", ""),
    Suite("F", "Azure 2023 code: prefill in bursts", "azure-2023/AzureLLMInferenceTrace_code.csv", 4.0),
)
QUICK = Suite("quick", "the first 15 minutes of Azure 2023 conversation", "", 4.0)


def manifest(suite: Suite) -> dict[str, Any]:
    spec = {
        "model": {"source": suite.model},
        "engine": {"tensorParallelSize": suite.tensor_parallel},
        "gpu": {"product": "NVIDIA-H100-80GB-HBM3"},
        "scaling": {"minReplicas": 1, "maxReplicas": suite.most},
    }
    return {"metadata": {"name": suite.name.lower(), "namespace": "bench"}, "spec": spec}


def trace_of(suite: Suite, traces: Path | None, seed: int) -> Trace:
    """Scaled to the suite's rate; a shape is drawn anew for each seed."""
    if suite.name == "D":
        rate = steps((0, 8.0), (1200, 16.0), (1230, 24.0), (3000, 8.0))
        return synthetic("flash crowd", rate, 4800, seed, lengths=(1155, 211), spread=0.8)
    path = EXCERPT if traces is None else traces / suite.source
    return rate_factor(read_file(path), suite.rate, seed)


def comparison(suite: Suite, trace: Trace, seed: int, off_by: float = OFF_BY) -> Comparison:
    view = view_of_manifest(manifest(suite))
    starts = ColdStarts(ready_seconds=suite.cold_start_seconds)
    return Comparison(Case(true_model(view, seed, off_by), trace, trace.seconds, seed, starts=starts))


def best(rule: str, results: Sequence[tuple[Entry, Result]]) -> tuple[Entry, bool] | None:
    """The setting to judge a rule by, and whether it lies inside the grid."""
    mine = [(entry, result.summary) for entry, result in results if entry.rule == rule]
    if not mine:
        return None
    good = [pair for pair in mine if pair[1].attainment >= WANTED]
    chosen = (
        min(good, key=lambda pair: pair[1].gpu_hours) if good else max(mine, key=lambda pair: pair[1].attainment)
    )[0]
    return chosen, chosen not in (mine[0][0], mine[-1][0])


def play(suite: Suite, traces: Path | None, seeds: Sequence[int], progress: Progress, *, tune: bool) -> dict[str, Any]:
    """All runs of one suite."""
    settings = list(grid()) if tune else []
    lined_up = [*defaults(), static()]
    rules = sorted({entry.rule for entry in settings})
    task = progress.add_task(suite.name, total=len(settings) + len(seeds) * (len(lined_up) + len(rules) + 2))
    whole = trace_of(suite, traces, 0)
    first = between(whole, 0.0, whole.seconds * TUNING_SHARE)
    tuned: list[Entry] = []
    tunings: list[dict[str, Any]] = []
    if settings:
        ground = comparison(suite, first, 0)
        tried = []
        for entry in settings:
            tried.append((entry, ground.peer(entry)))
            progress.advance(task)
        for rule in rules:
            if (found := best(rule, tried)) is not None:
                tuned.append(found[0])
                tunings.append({"rule": rule, "target": found[0].target, "insideGrid": found[1]})
    runs = []
    for seed in seeds:
        trace = trace_of(suite, traces, seed)
        rest = between(trace, trace.seconds * TUNING_SHARE, trace.seconds + 1) if tune else trace
        ground = comparison(suite, rest, seed)
        results = [ground.forebay(), ground.oracle()]
        progress.advance(task, 2)
        for entry in (*lined_up, *tuned):
            results.append(ground.peer(entry))
            progress.advance(task)
        runs.append(document(ground, results, {"offBy": OFF_BY}))
    return {"suite": suite.name, "says": suite.says, "seeds": list(seeds), "tunings": tunings, "runs": runs}


def summary(played: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """One row per policy: the mean over the seeds, and the worst seed's attainment."""
    names = [(policy["name"], policy["target"]) for policy in played["runs"][0]["policies"]]
    for name, target in names:
        rows = [
            policy
            for run in played["runs"]
            for policy in run["policies"]
            if (policy["name"], policy["target"]) == (name, target)
        ]
        yield {
            "name": name,
            "target": target,
            "attainment": fmean(row["attainment"] for row in rows),
            "worst": min(row["attainment"] for row in rows),
            "ofPossible": fmean(row["attainmentOfPossible"] or 0.0 for row in rows),
            "gpuHours": fmean(row["gpuHours"] for row in rows),
            "oracleRatio": fmean(row["oracleRatio"] or 0.0 for row in rows),
            "firstTokenP99": fmean(row["timeToFirstToken"]["p99"] for row in rows),
            "shed": sum(row["shed"] for row in rows),
            "changesPerDay": fmean(row["replicaChangesPerDay"] for row in rows),
        }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--traces", type=Path, help="folder with the recordings; without it only the excerpt is played")
    parser.add_argument("--suites", default="ACDF", help="letters of the suites to play")
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args()
    quick = options.traces is None
    chosen = [QUICK] if quick else [suite for suite in SUITES if suite.name in options.suites]
    seeds = [1] if quick else list(range(1, options.seeds + 1))
    RESULTS.mkdir(exist_ok=True)
    with Progress(console=Console(stderr=True)) as progress:
        for suite in chosen:
            played = play(suite, options.traces, seeds, progress, tune=not quick)
            rows = list(summary(played))
            for run in played["runs"]:
                for policy in run["policies"]:
                    del policy["timeline"], policy["decisions"]
            kept = {**played, "summary": rows}
            (RESULTS / f"{suite.name}.json").write_text(json.dumps(kept, indent=1) + "\n")
            picture(rows, suite.says, RESULTS / f"{suite.name}.png")
    page(RESULTS, ROOT / "docs" / "benchmarks.md")
    return 0


if __name__ == "__main__":
    sys.exit(main())
