"""Forebay beside the scaling rules of others, on the same traffic: `python -m bench.policies`.

`make bench-quick` plays the excerpt that the repository holds; `make bench TRACES=DIR` the suites on whole recordings.
Each suite plays every policy with the same arrivals, lengths, starts and router, for several seeds, which draw how far
the true engine is off from its profile. Peers come with their defaults and with the best setting of a grid, chosen on
other traffic than they are judged by. Results go to `bench/results/`, and `docs/benchmarks.md` is made from them.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from statistics import fmean
from typing import Any, Final

from rich.console import Console
from rich.progress import Progress

from bench.policies_page import page, picture
from bench.suites import EPOCH, QUICK, ROOT, SUITES, Suite, judged_trace, manifest, tuning_trace
from forebay.simulation.cold_start import ColdStarts
from forebay.simulation.comparison import Case, Comparison, Result, true_model
from forebay.simulation.peers.lineup import Entry, defaults, grid, static
from forebay.simulation.report import document
from forebay.simulation.served_model import view_of_manifest
from forebay.simulation.traces import Trace

RESULTS = ROOT / "bench" / "results"
WANTED: Final = 0.99
"""A setting that keeps so many requests in time is tuned for GPU-hours; one that does not, for requests in time."""
OFF_BY: Final = 0.2
FLOOR_QUANTILE: Final = 0.95


@dataclass(frozen=True, slots=True)
class Tuned:
    """The setting of a rule that was best on the tuning traffic."""

    entry: Entry
    inside_grid: bool


def comparison(suite: Suite, trace: Trace, seed: int, window_replicas: int = 0) -> Comparison:
    view = view_of_manifest(manifest(suite, window_replicas))
    windows = (suite.window,) if suite.window and window_replicas else ()
    return Comparison(
        Case(
            true_model(view, seed, OFF_BY),
            trace,
            trace.seconds,
            seed,
            starts=ColdStarts(ready_seconds=suite.cold_start_seconds),
            windows=windows,
            window_replicas=max(1, window_replicas),
            epoch=EPOCH,
        )
    )


def floor_of_window(suite: Suite, tuning: Trace) -> int:
    """What the scheduled peak needed a week before, for all but a twentieth of the time."""
    if suite.window is None:
        return 0
    needs = comparison(suite, tuning, 0).needs
    begin, end = (int(edge / needs.step_seconds) for edge in suite.window)
    counts = sorted(needs.counts[begin:end])
    return counts[ceil(FLOOR_QUANTILE * len(counts)) - 1]


def tuned(tried: Sequence[tuple[Entry, Result]]) -> Iterator[Tuned]:
    """The best setting of each rule, and whether it lies inside its grid."""
    for rule in dict.fromkeys(entry.rule for entry, _ in tried):
        mine = [(entry, result.summary) for entry, result in tried if entry.rule == rule]
        good = [pair for pair in mine if pair[1].attainment >= WANTED]
        if good:
            chosen = min(good, key=lambda pair: pair[1].gpu_hours)[0]
        else:
            chosen = max(mine, key=lambda pair: pair[1].attainment)[0]
        yield Tuned(chosen, chosen not in (mine[0][0], mine[-1][0]))


def play(suite: Suite, traces: Path | None, seeds: Sequence[int], progress: Progress) -> dict[str, Any]:
    """All runs of one suite."""
    settings = list(grid()) if traces else []
    lined_up = [*defaults(), static()]
    rules = len({entry.rule for entry in settings})
    task = progress.add_task(suite.name, total=len(settings) + len(seeds) * (len(lined_up) + rules + 2))
    tuning = tuning_trace(suite, traces)
    floor = floor_of_window(suite, tuning)
    on_tuning = comparison(suite, tuning, 0, floor)
    tried: list[tuple[Entry, Result]] = []
    for entry in settings:
        tried.append((entry, on_tuning.peer(entry)))
        progress.advance(task)
    best = list(tuned(tried))
    runs = []
    for seed in seeds:
        on_judged = comparison(suite, judged_trace(suite, traces, seed), seed, floor)
        results = [on_judged.forebay(), on_judged.oracle()]
        progress.advance(task, 2)
        for entry in (*lined_up, *(each.entry for each in best)):
            results.append(on_judged.peer(entry))
            progress.advance(task)
        runs.append(document(on_judged, results, {"offBy": OFF_BY, "windowReplicas": floor}))
    tunings = [{"rule": t.entry.rule, "target": t.entry.target, "insideGrid": t.inside_grid} for t in best]
    return {"suite": suite.name, "says": suite.says, "seeds": list(seeds), "tunings": tunings, "runs": runs}


def summary(played: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """One row per policy: means over the seeds, and the worst seed's attainment."""
    for index, first in enumerate(played["runs"][0]["policies"]):
        rows = [run["policies"][index] for run in played["runs"]]
        yield {
            "name": first["name"],
            "target": first["target"],
            "attainment": fmean(row["attainment"] for row in rows),
            "worst": min(row["attainment"] for row in rows),
            "ofPossible": fmean(row["attainmentOfPossible"] or 0.0 for row in rows),
            "gpuHours": fmean(row["gpuHours"] for row in rows),
            "oracleRatio": fmean(row["oracleRatio"] or 0.0 for row in rows),
            "firstTokenP99": fmean(row["timeToFirstToken"]["p99"] for row in rows),
            "shed": sum(row["shed"] for row in rows),
            "changesPerDay": fmean(row["replicaChangesPerDay"] for row in rows),
            "windows": sum(row["schedules"]["total"] for row in rows),
            "windowsMet": sum(row["schedules"]["metByStart"] for row in rows),
        }


def main() -> int:
    parser = argparse.ArgumentParser(description="Forebay beside other systems' scaling rules, on the same traffic.")
    parser.add_argument("--traces", type=Path, help="folder with the recordings; without it only the excerpt is played")
    parser.add_argument("--suites", default="ABCDF", help="letters of the suites to play")
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args()
    chosen = [suite for suite in SUITES if suite.name in options.suites] if options.traces else [QUICK]
    seeds = range(1, options.seeds + 1) if options.traces else (1,)
    RESULTS.mkdir(exist_ok=True)
    with Progress(console=Console(stderr=True)) as progress:
        for suite in chosen:
            played = play(suite, options.traces, list(seeds), progress)
            rows = list(summary(played))
            for run in played["runs"]:
                for policy in run["policies"]:
                    del policy["timeline"], policy["decisions"]
            (RESULTS / f"{suite.name}.json").write_text(json.dumps(played | {"summary": rows}, indent=1) + "\n")
            picture(rows, suite.says, RESULTS / f"{suite.name}.png")
    page(RESULTS, ROOT / "docs" / "benchmarks.md")
    return 0


if __name__ == "__main__":
    sys.exit(main())
