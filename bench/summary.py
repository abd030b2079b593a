"""Summarizes the results of a suite over its seeds, and finds where committed results differ from this code's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from statistics import fmean
from typing import Any, Final

FIX: Final = "run make bench-quick and commit what it writes"
SAME: Final = 0.002
"""Results at most this far apart count as equal."""


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
            "strict": _mean(row["strictAttainment"] for row in rows),
            "recovery": _mean(row["recoverySeconds"] for row in rows),
            "impossible": fmean(row["impossible"] for row in rows),
            "shed": sum(row["shed"] for row in rows),
            "changesPerDay": fmean(row["replicaChangesPerDay"] for row in rows),
            "windows": sum(row["schedules"]["total"] for row in rows),
            "windowsMet": sum(row["schedules"]["metByStart"] for row in rows),
        }


def _mean(values: Iterable[float | str | None]) -> float | str | None:
    """The mean of numbers; where a value is a word or None, that value."""
    every = list(values)
    numbers = [value for value in every if isinstance(value, (int, float))]
    if len(numbers) == len(every):
        return fmean(numbers)
    return next(value for value in every if not isinstance(value, (int, float)))


def differences(committed: Sequence[dict[str, Any]], now: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Sentences on where this code gives other results than the committed ones, beyond the rounding of processors."""
    before = {(row["name"], row["target"]): row for row in committed}
    for row in now:
        name = f"{row['name']} ({row['target']})"
        earlier = before.pop((row["name"], row["target"]), None)
        if earlier is None:
            yield f"{name} is not in bench/results; {FIX}"
        elif not _same(row, earlier):
            yield (
                f"{name} keeps {100 * row['attainment']:.2f} % in time with {row['gpuHours']:.2f} GPU-hours, and "
                f"bench/results says {100 * earlier['attainment']:.2f} % with {earlier['gpuHours']:.2f}; {FIX}"
            )
    for name, target in before:
        yield f"{name} ({target}) is in bench/results and was not played; {FIX}"


def _same(row: dict[str, Any], earlier: dict[str, Any]) -> bool:
    """Whether two rows differ by no more than `SAME`: attainment in absolute terms, GPU-hours in relative terms."""
    attainment: float = abs(row["attainment"] - earlier["attainment"])
    hours: float = abs(row["gpuHours"] / earlier["gpuHours"] - 1)
    return attainment <= SAME and hours <= SAME
