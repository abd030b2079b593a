"""The report of a simulation as JSON: its inputs and the figures of every policy, for tables and pictures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from math import inf
from typing import Any

from forebay.simulation.compare.comparison import Comparison, Result
from forebay.simulation.compare.oracle import static_peak

TIMELINE_POINTS = 240
"""The largest number of points in a timeline."""
MAX_DECISIONS = 200


def document(comparison: Comparison, results: Sequence[Result], inputs: dict[str, Any]) -> dict[str, Any]:
    """The report. Times are in seconds, shares from 0 to 1.

    Ratios to the oracle, and to the static peak if that was not run, use replica-hours computed from the need.
    """
    case = comparison.case
    hours = {result.name: result.summary.gpu_hours for result in results}
    wanted = case.model.view.wanted
    assert wanted is not None
    oracle_hours = comparison.fleet.replica_hours(case.played_seconds) * wanted.shape.gpus
    static_hours = static_peak(comparison.needs) * case.played_seconds / 3600 * wanted.shape.gpus
    return {
        "service": str(case.key),
        "model": case.kind,
        "inputs": _inputs(comparison) | inputs,
        "oracleGpuHours": oracle_hours,
        "policies": [
            _policy(result, oracle_hours, hours.get("static peak", static_hours))
            | {"schedules": schedules(comparison, result)}
            for result in results
        ],
    }


def _inputs(comparison: Comparison) -> dict[str, Any]:
    case = comparison.case
    return {
        "trace": case.trace.name,
        "sha256": case.trace.sha256,
        "method": list(case.trace.method),
        "seed": case.seed,
        "seconds": case.seconds,
        "requests": len(case.trace),
        "promise": asdict(case.promise),
        "judgedBy": asdict(case.judging_promise) | {"prefillOnTop": case.model.prefill_on_top},
        "gateway": asdict(case.gateway),
        "bounds": list(case.bounds),
        "coldStartSeconds": asdict(case.starts),
        "believed": asdict(case.replica_capacity.engine.step_profile),
        "true": asdict(case.model.profile),
    }


def _policy(result: Result, oracle_hours: float, static_hours: float | None) -> dict[str, Any]:
    summary = result.summary
    possible = 1 - summary.impossible
    return {
        "name": result.name,
        "version": result.version,
        "target": result.target,
        "attainment": summary.attainment,
        "attainmentOfPossible": summary.attainment / possible if possible > 0 else None,
        "strictAttainment": result.strict_attainment,
        "recoverySeconds": result.recovery_seconds if result.recovery_seconds != inf else "never",
        "attainmentByClass": {name: share.attainment for name, share in result.by_class.items()},
        "offeredByClass": {name: share.offered for name, share in result.by_class.items()},
        "impossible": summary.impossible,
        "offered": summary.offered,
        "shed": summary.shed,
        "failed": summary.failed,
        "unfinished": summary.unfinished,
        "refused": summary.refused,
        "gpuHours": summary.gpu_hours,
        "oracleRatio": summary.gpu_hours / oracle_hours if oracle_hours else None,
        "staticRatio": summary.gpu_hours / static_hours if static_hours else None,
        "timeToFirstToken": asdict(summary.time_to_first_token),
        "interTokenLatency": asdict(summary.inter_token_latency),
        "replicaChangesPerDay": summary.changes_per_day,
        "mostReplicas": summary.most_replicas,
        # empty for a flow, which does not distinguish tenants
        "tenants": [{"name": name, "asked": offered, "served": served} for name, offered, served in result.by_tenant],
        "timeline": timeline(result),
        "decisions": [
            {"at": decision.at, "desired": decision.desired, "rule": decision.rule, "because": decision.because}
            for decision in result.decisions[:MAX_DECISIONS]
        ],
    }


def schedules(comparison: Comparison, result: Result) -> dict[str, int]:
    """How many schedule windows began, and in how many of them the floor's replicas served at the start."""
    case = comparison.case
    floors = case.window_floors or (case.window_replicas,) * len(case.windows)
    windows = [(begin, floor) for (begin, _), floor in zip(case.windows, floors, strict=True) if begin <= case.seconds]
    ticks = result.outcome.ticks
    met = [next((tick.serving for tick in ticks if tick.at >= begin), 0) >= floor for begin, floor in windows]
    return {"total": len(windows), "metByStart": sum(met)}


def timeline(result: Result) -> dict[str, list[float]]:
    """The run as at most `TIMELINE_POINTS` points. Each is the maximum of its span, so that no peak is lost."""
    ticks = result.outcome.ticks
    span = max(1, -(-len(ticks) // TIMELINE_POINTS))
    columns: dict[str, Sequence[float]] = {
        "desired": [tick.desired for tick in ticks],
        "serving": [tick.serving for tick in ticks],
        "waiting": [tick.waiting for tick in ticks],
        "kv": [tick.kv_fraction for tick in ticks],
    }
    starts = range(0, len(ticks), span)
    points: dict[str, list[float]] = {"at": [ticks[start].at for start in starts]}
    for name, values in columns.items():
        points[name] = [round(float(max(values[start : start + span])), 4) for start in starts]
    edges = [*points["at"], (ticks[-1].at if ticks else 0.0) + 1]
    points["firstToken"] = [round(seconds, 4) for seconds in result.outcome.late_first_tokens(edges)]
    return points
