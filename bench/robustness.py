"""Tests whether the ranking holds with other cold starts and engines: `python -m bench.robustness`.

A cold start takes 45, 120 or 300 s. The coefficients a (step), b (prompt token) and d (KV token) of the true engine are
20 % above or below the profile that all policies plan with, one coefficient at a time. Without `--traces` the excerpt
of the repository is played; `--fluid` plays it in the fluid model. Seeds draw the requests that a rate factor adds, and
how long each start takes. Results go to `bench/results/robustness/` and from there to `docs/benchmarks.md`.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from bench.policies import RESULTS, comparison
from bench.policies_page import page
from bench.runs import of_entry, rows
from bench.suites import QUICK, ROOT, SUITES, judged_trace
from forebay.simulation.cluster.cold_start import ColdStarts
from forebay.simulation.compare.comparison import ComparedCase, Comparison
from forebay.simulation.engine.simulated_profile import EngineProfile
from forebay.simulation.peers.peer_grid import PeerSetting, defaults, static
from forebay.simulation.traffic.flow import flow_of
from forebay.simulation.traffic.traces import Trace

COLD_STARTS: Final = (45.0, 120.0, 300.0)
COEFFICIENTS: Final = {"a": "step_seconds", "b": "prompt_token_seconds", "d": "kv_token_seconds"}
OFF: Final = 0.2
ROBUSTNESS: Final = RESULTS / "robustness"


def variants(case: ComparedCase) -> Iterator[tuple[str, ComparedCase]]:
    """The name and case of each variant. All else is as in the suite, with an engine that matches its profile."""
    profile = case.replica_capacity.engine.step_profile
    for seconds in COLD_STARTS:
        starts = replace(case.starts, ready_seconds=seconds, warm_seconds=min(seconds, ColdStarts().warm_seconds))
        yield f"cold start {seconds:.0f} s", replace(_with(case, profile), starts=starts)
    for letter, field in COEFFICIENTS.items():
        for factor in (1 - OFF, 1 + OFF):
            changed = replace(profile, **{field: getattr(profile, field) * factor})
            yield f"{letter} × {factor:.1f}", _with(case, changed)


def _with(case: ComparedCase, profile: EngineProfile) -> ComparedCase:
    return replace(case, model=replace(case.model, profile=profile))


def play(case: ComparedCase, entries: Sequence[PeerSetting]) -> Iterator[dict[str, Any]]:
    """One row per variant and policy."""
    for says, changed in variants(case):
        for row in rows(Comparison(changed), [Comparison.forebay, Comparison.oracle, *map(of_entry, entries)]):
            attainment, hours = row["attainment"], row["gpuHours"]
            print(f"{says:16} {row['name']:20} {100 * attainment:6.2f} % {hours:8.2f} GPU-hours", flush=True)
            keys = ("name", "target", "attainment", "gpuHours")
            yield {"variant": says, "seed": case.seed} | {name: row[name] for name in keys}


def main() -> int:
    parser = argparse.ArgumentParser(description="Does the ranking hold with other cold starts and engines?")
    parser.add_argument("--traces", type=Path, help="folder with the recordings; without it the excerpt is played")
    parser.add_argument("--suite", default="A", help="letter of the suite, with --traces")
    parser.add_argument("--peers", default="", help="beginnings of the names of peers, with commas; all by default")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--fluid", action="store_true", help="play the flow of each 2.5 seconds, not every request")
    options = parser.parse_args()
    suite = next(suite for suite in SUITES if suite.name == options.suite) if options.traces else QUICK
    names = tuple(filter(None, options.peers.lower().split(",")))
    entries = [entry for entry in (*defaults(), static()) if not names or entry.rule.lower().startswith(names)]
    played_rows: list[dict[str, Any]] = []
    for seed in range(1, options.seeds + 1):
        case = comparison(suite, judged_trace(suite, options.traces, seed), seed).case
        if options.fluid:
            assert isinstance(case.trace, Trace)
            case = replace(case, trace=flow_of(case.trace, case.seconds))
        played_rows += play(case, entries)
    ROBUSTNESS.mkdir(parents=True, exist_ok=True)
    inputs = {"suite": suite.name, "says": suite.says, "model": case.kind, "seeds": options.seeds}
    played = inputs | {"sha256": case.trace.sha256, "rows": played_rows}
    (ROBUSTNESS / f"{suite.name}.json").write_text(json.dumps(played, indent=1) + "\n")
    page(RESULTS, ROOT / "docs" / "benchmarks.md")
    return 0


if __name__ == "__main__":
    sys.exit(main())
