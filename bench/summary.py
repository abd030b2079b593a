"""Results of a suite over its seeds, and where they are not those of this code."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from statistics import fmean
from typing import Any, Final

MEND: Final = "run make bench-quick and commit what it writes"
SAME: Final = 0.002
"""Results that are no further apart are the same."""


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
    """Of numbers; a word, or nothing, where one of them is none."""
    found = list(values)
    numbers = [value for value in found if isinstance(value, (int, float))]
    if len(numbers) == len(found):
        return fmean(numbers)
    return next(value for value in found if not isinstance(value, (int, float)))


def differences(committed: Sequence[dict[str, Any]], now: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Where the page tells of another code than this; a little is left to the arithmetic of other processors."""
    before = {(row["name"], row["target"]): row for row in committed}
    for row in now:
        name = f"{row['name']} ({row['target']})"
        told = before.pop((row["name"], row["target"]), None)
        if told is None:
            yield f"{name} is not in bench/results; {MEND}"
        elif abs(row["attainment"] - told["attainment"]) > SAME or abs(row["gpuHours"] / told["gpuHours"] - 1) > SAME:
            yield (
                f"{name} keeps {100 * row['attainment']:.2f} % in time with {row['gpuHours']:.2f} GPU-hours, and "
                f"bench/results says {100 * told['attainment']:.2f} % with {told['gpuHours']:.2f}; {MEND}"
            )
    for name, target in before:
        yield f"{name} ({target}) is in bench/results and was not played; {MEND}"
