"""Compares Forebay with other systems' scaling rules on the same traffic: `python -m bench.policies`.

`make bench-quick` plays the excerpt that the repository holds; `make bench TRACES=DIR` plays the suites on whole
recordings. Each suite plays every policy with the same arrivals, lengths, cold starts and router, for several seeds. A
seed draws how far the true engine differs from its profile. Peers play with their defaults and with the best setting of
a grid, which is tuned on other traffic than the traffic that judges them. Results go to `bench/results/`, and
`docs/benchmarks.md` is generated from them.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import ceil
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.progress import Progress

from bench.matched import MATCHED, Play, matched
from bench.policies_page import WANTED, page
from bench.policies_picture import picture
from bench.runs import Run, of_entry, rows
from bench.suites import (
    EPOCH,
    PROMISED,
    QUICK,
    ROOT,
    SUITES,
    TUNED_IN_SECONDS,
    Suite,
    judged_trace,
    manifest,
    tuning_trace,
)
from bench.summary import differences, summary
from forebay.simulation.cluster.cold_start import ColdStarts
from forebay.simulation.cluster.gateway_model import GatewaySettings
from forebay.simulation.cluster.served_model import view_of_manifest
from forebay.simulation.compare.comparison import FOREBAY, TUNED, ComparedCase, Comparison, true_model
from forebay.simulation.compare.oracle import Needs
from forebay.simulation.compare.simulation_report import document
from forebay.simulation.peers.peer_grid import PeerSetting, defaults, grid, static
from forebay.simulation.traffic.flow import Flow
from forebay.simulation.traffic.traces import Trace, between

RESULTS = ROOT / "bench" / "results"
OFF_BY: Final = 0.2
AS_GOOD: Final = 0.001
"""When no setting of a rule attains `WANTED`, the cheapest one within this distance of the best attainment wins."""
FLOOR_QUANTILE: Final = 0.5
"""The schedule's floor is this quantile of the replicas that the peak needed a week before; rules handle the rest."""


Window = tuple[float, float]
"""Begin and end of a scheduled peak, in seconds since the start of the traffic."""


@dataclass(frozen=True, slots=True)
class Tuned:
    """The setting of a rule that was best on the tuning traffic."""

    entry: PeerSetting
    inside_grid: bool


def comparison(
    suite: Suite,
    traffic: Trace | Flow,
    seed: int,
    window_replicas: int = 0,
    windows: Sequence[Window] | None = None,
    epoch: float = EPOCH,
) -> Comparison:
    """A comparison with a floor for the scheduled windows, which default to those of the suite."""
    if windows is None:
        windows = (suite.window,) if suite.window else ()
    model = true_model(view_of_manifest(manifest(suite, window_replicas)), seed, OFF_BY)
    case = ComparedCase(
        replace(model, prefill_on_top=suite.prefill_on_top),
        traffic,
        traffic.seconds,
        seed,
        starts=ColdStarts(ready_seconds=suite.cold_start_seconds),
        windows=tuple(windows) if window_replicas else (),
        window_replicas=max(1, window_replicas),
        epoch=epoch,
        judged_by=PROMISED,
        flash_crowd=suite.flash_crowd,
    )
    if suite.sheds:
        gateway = GatewaySettings(queued_per_replica=ceil(Comparison(case).batch))
        case = replace(case, gateway=gateway)
    return Comparison(case)


def floor_of(needs: Needs, windows: Sequence[Window]) -> int:
    """The replicas that scheduled peaks needed a week before, at `FLOOR_QUANTILE`; 0 without any peak."""
    within = sorted(
        count
        for index, count in enumerate(needs.counts)
        if any(begin <= index * needs.step_seconds < end for begin, end in windows)
    )
    return within[ceil(FLOOR_QUANTILE * len(within)) - 1] if within else 0


def tuned(tried: Sequence[tuple[PeerSetting, dict[str, Any]]]) -> Iterator[Tuned]:
    """The best setting of each rule, and whether it lies inside its grid."""
    for rule in dict.fromkeys(entry.rule for entry, _ in tried):
        of_rule = [(entry, row) for entry, row in tried if entry.rule == rule]
        best = max(row["attainment"] for _, row in of_rule)
        enough = WANTED if best >= WANTED else best - AS_GOOD
        candidates = [pair for pair in of_rule if pair[1]["attainment"] >= enough]
        chosen = min(candidates, key=lambda pair: float(pair[1]["gpuHours"]))[0]
        yield Tuned(chosen, chosen not in (of_rule[0][0], of_rule[-1][0]))


def play(suite: Suite, traces: Path | None, seeds: Sequence[int], progress: Progress) -> dict[str, Any]:
    """All runs of one suite."""
    settings = list(grid()) if traces else []
    untuned = [*defaults(), static()]
    rules = len({entry.rule for entry in settings})
    task = progress.add_task(suite.name, total=len(settings) + len(seeds) * (len(untuned) + rules + 2))
    tuning = tuning_trace(suite, traces)
    floor = floor_of(comparison(suite, tuning, 0).needs, (suite.window,)) if suite.window else 0

    def with_progress(compared: Comparison, chosen: Sequence[Run]) -> Iterator[dict[str, Any]]:
        for row in rows(compared, chosen):
            progress.advance(task)
            yield row

    on_tuning: Iterable[dict[str, Any]] = ()
    if settings:
        beginning = between(tuning, 0.0, TUNED_IN_SECONDS)
        on_tuning = with_progress(comparison(suite, beginning, 0, floor), [of_entry(entry) for entry in settings])
    best = list(tuned(list(zip(settings, on_tuning, strict=True))))
    runs, judged = [], _judged(suite, traces, floor)
    for seed in seeds:
        compared = judged(seed)
        entries = (*untuned, *(setting.entry for setting in best))
        policies = list(with_progress(compared, [Comparison.forebay, Comparison.oracle, *map(of_entry, entries)]))
        report = document(compared, [], {"offBy": OFF_BY, "windowReplicas": floor})
        runs.append(report | {"policies": policies})
    return matched(results(suite.name, suite.says, seeds, best, runs), _plays(judged))


def results(
    suite: str, says: str, seeds: Sequence[int], best: Sequence[Tuned], runs: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    """The results of a suite in the form that `bench/results/` keeps."""
    tunings = [{"rule": t.entry.rule, "target": t.entry.target, "insideGrid": t.inside_grid} for t in best]
    return {"suite": suite, "says": says, "seeds": list(seeds), "tunings": tunings, "runs": list(runs)}


def _judged(suite: Suite, traces: Path | None, floor: int) -> Callable[[int], Comparison]:
    """The comparison of each seed, built once per seed."""
    return cache(lambda seed: comparison(suite, judged_trace(suite, traces, seed), seed, floor))


def _plays(judged: Callable[[int], Comparison]) -> Play:
    return lambda seed, settings: list(rows(judged(seed), [of_entry(entry) for entry in settings]))


def replayed_matches(suite: Suite, traces: Path | None) -> dict[str, Any]:
    """The committed results with only the rows of `bench.matched` played again."""
    played: dict[str, Any] = json.loads((RESULTS / f"{suite.name}.json").read_text())
    for run in played["runs"]:
        run["policies"] = [row for row in run["policies"] if not row["name"].endswith(MATCHED)]
    return matched(played, _plays(_judged(suite, traces, played["runs"][0]["inputs"]["windowReplicas"])))


def replayed(suite: Suite, traces: Path | None, names: Sequence[str], progress: Progress) -> dict[str, Any]:
    """The committed results with some policies played again, for a change that does not affect the others.

    Tuned settings, seeds and floors stay as they were. A policy that is not in the results yet is not played.
    """
    played: dict[str, Any] = json.loads((RESULTS / f"{suite.name}.json").read_text())
    entries = {(entry.rule, entry.target, entry.tuned): of_entry(entry) for entry in (*defaults(), static(), *grid())}
    own: dict[str, Run] = {FOREBAY: Comparison.forebay, "oracle": Comparison.oracle}
    task = progress.add_task(suite.name, total=len(played["runs"]))
    for seed, run in zip(played["seeds"], played["runs"], strict=True):
        compared = _judged(suite, traces, run["inputs"]["windowReplicas"])(seed)
        chosen = [index for index, row in enumerate(run["policies"]) if row["name"] in names]
        known = [run["policies"][index] for index in chosen]
        runs = [own.get(row["name"]) or entries[_entry_of(row)] for row in known]
        for index, row in zip(chosen, rows(compared, runs), strict=True):
            run["policies"][index] = row | {"name": run["policies"][index]["name"]}
        progress.advance(task)
    return played


def _entry_of(row: dict[str, Any]) -> tuple[str, str, bool]:
    rule = row["name"].removesuffix(TUNED).removesuffix(MATCHED)
    return rule, row["target"], rule != row["name"]


def write(played: dict[str, Any]) -> None:
    """Write the results, the picture and the page."""
    rows, name = list(summary(played)), played["suite"]
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps(played | {"summary": rows}, indent=1) + "\n")
    picture(rows, played["says"], RESULTS, name)
    page(RESULTS, ROOT / "docs" / "benchmarks.md")


def main() -> int:
    parser = argparse.ArgumentParser(description="Forebay and other systems' scaling rules on the same traffic.")
    parser.add_argument("--traces", type=Path, help="folder with the recordings; without it only the excerpt is played")
    parser.add_argument("--suites", default="", help="names of the suites to play, with commas; all by default")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--anew", default="", help="names of policies to play again, with commas; all other rows stay")
    parser.add_argument("--match", action="store_true", help="play only the (matched) rows again; all others stay")
    parser.add_argument("--check", action="store_true", help="write nothing; fail when this code gives other results")
    options = parser.parse_args()
    names = tuple(filter(None, options.suites.split(",")))
    replay = tuple(filter(None, options.anew.split(",")))
    chosen = [suite for suite in SUITES if not names or suite.name in names] if options.traces else [QUICK]
    seeds = range(1, options.seeds + 1) if options.traces else (1,)
    with Progress(console=Console(stderr=True)) as progress:
        for suite in chosen:
            if options.match:
                played = replayed_matches(suite, options.traces)
            elif replay:
                played = replayed(suite, options.traces, replay, progress)
            else:
                played = play(suite, options.traces, list(seeds), progress)
            if not options.check:
                write(played)
                continue
            committed = json.loads((RESULTS / f"{suite.name}.json").read_text())["summary"]
            changes = list(differences(committed, list(summary(played))))
            progress.print(
                *changes or [f"{suite.name}: the same as in bench/results, {len(committed)} policies"], sep="\n"
            )
            if changes:
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
