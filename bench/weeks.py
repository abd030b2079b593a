"""Plays suite B over weeks, ServeGen m-small in the fluid model: `python -m bench.weeks --traces DIR`.

The daily peak is scheduled. The first week sets the schedule's floor; its first day, which has every load of a week,
tunes the peers; the second week judges. Fourteen days at this rate are sixteen million requests, so the fluid model
plays them (docs/simulation.md says how far it is from discrete events). Options play fewer days of either week, and the
result says how many were played. Results are written after every policy, so a run that is stopped keeps what it has.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import ceil
from pathlib import Path
from typing import Any, Final

from bench.policies import OFF_BY, Tuned, Window, comparison, floor_of, results, tuned, write
from bench.runs import Run, of_entry, rows
from bench.suites import CONVERSATION, SUITES, clients_of
from forebay.simulation.compare.comparison import Comparison
from forebay.simulation.compare.simulation_report import document
from forebay.simulation.peers.peer_grid import PeerSetting, defaults, grid, static
from forebay.simulation.traffic.flow import Flow, FlowLengths, flow_of, join_flows
from forebay.simulation.traffic.servegen import servegen
from forebay.simulation.traffic.traces import read_file, with_lengths_of

DAY_SECONDS: Final = 86_400.0
PEAK_HOURS: Final = (19.0, 22.0)
MIDNIGHT: Final = 1_750_032_000.0
"""2025-06-16T00:00:00Z, at which the trace begins."""
SUITE: Final = replace(next(suite for suite in SUITES if suite.name == "B"), name="B-weeks")


@dataclass(frozen=True, slots=True)
class Plan:
    """The days and peers of a run."""

    days: int = 7
    """Days of the second week, which judges."""
    tuning_days: int = 7
    """Days of the first week, which set the schedule's floor."""
    tuned_on_days: int = 1
    """The first days of the first week, which tune the peers; few, because about a hundred settings are played."""
    rules: tuple[str, ...] = ()
    """Beginnings of the names of peers to play; empty for all."""
    tune: bool = True


@cache
def day(traces: Path, number: int, seed: int) -> Flow:
    """One day, drawn from the models of clients, with the lengths of recorded conversations."""
    clients, digest = clients_of(traces / "servegen")
    begin = number * DAY_SECONDS
    drawn = servegen(
        clients, "ServeGen m-small", begin, begin + DAY_SECONDS, share=SUITE.rate, seed=seed + number, digest=digest
    )
    conversation = read_file(traces / CONVERSATION)
    return flow_of(with_lengths_of(drawn, conversation, seed + number), DAY_SECONDS, FlowLengths.of(conversation))


def days(traces: Path, first: int, count: int, seed: int) -> Flow:
    """Consecutive days as one flow."""
    whole = join_flows([day(traces, number, 100 * seed) for number in range(first, first + count)])
    return replace(whole, method=(*whole.method, f"days {first + 1} to {first + count}, each drawn by itself"))


def evenings(flow: Flow) -> tuple[Window, ...]:
    """The scheduled peak of each day."""
    begin, end = (hour * 3600 for hour in PEAK_HOURS)
    midnights = [number * DAY_SECONDS for number in range(ceil(flow.seconds / DAY_SECONDS))]
    return tuple((midnight + begin, midnight + end) for midnight in midnights)


def _comparison(flow: Flow, seed: int, floor: int) -> Comparison:
    return comparison(SUITE, flow, seed, floor, evenings(flow), MIDNIGHT)


def play(traces: Path, seeds: Sequence[int], plan: Plan, keep: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """All runs; after each of them `keep` is called with the results so far."""
    tuning = days(traces, 0, plan.tuning_days, 0)
    floor = floor_of(_comparison(tuning, 0, 0).needs, evenings(tuning))
    best = list(_tuned(tuning.between(0.0, plan.tuned_on_days * DAY_SECONDS), floor, plan)) if plan.tune else []
    runs: list[dict[str, Any]] = []
    for seed in seeds:
        judged = _comparison(days(traces, 7, plan.days, seed), seed, floor)
        report, policies = document(judged, [], {"offBy": OFF_BY, "windowReplicas": floor}), []
        for row in rows(judged, list(_runs(plan, best))):
            policies.append(row)
            says = f"{row['name']}: {100 * row['attainment']:.2f} % in time, {row['gpuHours']:.0f} GPU-hours"
            print(says, file=sys.stderr, flush=True)
            keep(_results([*runs, report | {"policies": policies}], seeds, best, plan))
        runs.append(report | {"policies": policies})
    return _results(runs, seeds, best, plan)


def _tuned(tuning: Flow, floor: int, plan: Plan) -> Iterator[Tuned]:
    entries = [entry for entry in grid() if _wanted(entry, plan)]
    tried = rows(_comparison(tuning, 0, floor), [of_entry(entry) for entry in entries])
    return tuned(list(zip(entries, tried, strict=True)))


def _runs(plan: Plan, best: Sequence[Tuned]) -> Iterator[Run]:
    yield Comparison.forebay
    yield Comparison.oracle
    for entry in (static(), *defaults(), *(setting.entry for setting in best)):
        if entry.rule == static().rule or _wanted(entry, plan):
            yield of_entry(entry)


def _wanted(entry: PeerSetting, plan: Plan) -> bool:
    return not plan.rules or any(entry.rule.lower().startswith(rule.lower()) for rule in plan.rules)


def _results(runs: Sequence[dict[str, Any]], seeds: Sequence[int], best: Sequence[Tuned], plan: Plan) -> dict[str, Any]:
    """Results in the form of the suites, with a title that says what was played."""
    says = (
        f"{plan.days} days of ServeGen m-small's second week, in the fluid model, the daily peak scheduled by "
        f"{plan.tuning_days} of the first"
    )
    says += f", peers tuned on {plan.tuned_on_days} of them" if best else "; peers with their defaults only"
    return results(SUITE.name, says, seeds[: len(runs)], best, runs)


def main() -> int:
    parser = argparse.ArgumentParser(description="Suite B over weeks of ServeGen, in the fluid model.")
    parser.add_argument("--traces", type=Path, required=True, help="folder with the recordings")
    parser.add_argument("--days", type=int, default=7, help="of the second week, which judges")
    parser.add_argument("--tuning-days", type=int, default=7, help="of the first week")
    parser.add_argument("--peers", default="", help="beginnings of the names of peers, with commas; all by default")
    parser.add_argument("--no-tuning", action="store_true", help="peers with their defaults only")
    parser.add_argument("--seeds", type=int, default=1)
    options = parser.parse_args()
    rules = tuple(filter(None, options.peers.split(",")))
    plan = Plan(options.days, options.tuning_days, rules=rules, tune=not options.no_tuning)
    write(play(options.traces, range(1, options.seeds + 1), plan, write))
    return 0


if __name__ == "__main__":
    sys.exit(main())
