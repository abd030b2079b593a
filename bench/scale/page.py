"""The table of `docs/scale.md`, made from `bench/results/scale.json` alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from bench.made_section import markers, with_section

ROOT = Path(__file__).parents[2]
RESULTS, PAGE = ROOT / "bench" / "results" / "scale.json", ROOT / "docs" / "scale.md"
SECTION, MODULE = "scale", "bench.scale"
BEGIN, END = markers(SECTION, MODULE)

Row = dict[str, Any]


def _seconds(name: str) -> Callable[[Row], str]:
    def shown(row: Row) -> str:
        seconds = row[name]
        if seconds is None:
            return "not measured"
        return f"{seconds:.3f} s" if seconds < 1 else f"{seconds:.1f} s"

    return shown


def _cores(part: str) -> Callable[[Row], str]:
    return lambda row: f"{row['cores'][part]:.2f}"


COLUMNS: Final[tuple[tuple[str, Callable[[Row], str]], ...]] = (
    ("services × pods", lambda row: f"{row['services']:,} × {row['pods'] // row['services']}"),
    ("plan, all signals new", _seconds("planSeconds")),
    ("in ticks", lambda row: f"{row['planTicks']}"),
    ("plan, everything new", _seconds("planSecondsWhole")),
    ("plan, in operation", _seconds("planSecondsInOperation")),
    ("plan, at rest", _seconds("planSecondsAtRest")),
    ("tick", _seconds("tickSeconds")),
    ("worst tick", _seconds("worstTickSeconds")),
    ("memory", lambda row: f"{row['megabytes']:.0f} MB"),
    ("requests a tick", lambda row: f"{row['requestsPerTick']:.1f}"),
    ("start to first plan", _seconds("startSeconds")),
    ("oldest signal", lambda row: f"{row['oldestSignalSeconds']:.0f} s"),
    ("scrapes a second", lambda row: f"{row['scrapesPerSecond']:.0f}"),
    ("operator, cores", _cores("operator")),
    ("fleet-sim, cores", _cores("fleetSim")),
    ("control plane, cores", _cores("controlPlane")),
    ("pods created in", lambda row: f"{row['createSeconds']:.0f} s"),
)


def table(results: Row) -> str:
    """The rows, and above them what they were measured on."""
    rows = results["rows"]
    measured = f"Forebay {results['version']}, commit {results['commit']}, {results['date']}, {results['machine']}."
    lines = [
        f"{measured} {results['says']}".rstrip(),
        "",
        f"| {' | '.join(name for name, _ in COLUMNS)} |",
        f"|{'---|' * len(COLUMNS)}",
        *(f"| {' | '.join(shown(row) for _, shown in COLUMNS)} |" for row in rows),
    ]
    return "\n".join(lines)


def page(text: str, results: Row) -> str:
    """The text of the page with the table of these results."""
    return with_section(text, SECTION, MODULE, table(results))


def write_page() -> None:
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), json.loads(RESULTS.read_text())), encoding="utf-8")
