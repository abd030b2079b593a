"""`python -m bench.scale`: the operator beside fleets of growing size, on a real API server with KWOK's nodes.

Writes bench/results/scale.json and its table in docs/scale.md. Needs no root. Each size has a control plane of its own,
so a run may be ended between two sizes; the rows that are finished are kept.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.plan_cost import measured
from bench.scale.fleet import Fleet, Size, fleet
from bench.scale.page import RESULTS, ROOT, write_page
from bench.scale.readings import Measured, TickCost, measure
from e2e.harness.progress import working_on
from forebay import __version__

SIZES = "100x10,300x10,1000x10"
TICKS = 60
TICKS_AT_REST = 12
PLAN_TICKS = 8


def main() -> int:
    options = _parser().parse_args()
    if options.page_only:
        write_page()
        return 0
    rows: list[dict[str, Any]] = []
    for size in map(Size.parse, options.sizes.split(",")):
        with tempfile.TemporaryDirectory(prefix="forebay-scale-", ignore_cleanup_errors=True) as folder:
            for row in rows_of(size, Path(folder), options):
                _write([*rows, row], options)
        rows.append(row)
        print(json.dumps(row), flush=True)
    return 0


def rows_of(size: Size, directory: Path, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Measure one size. Its row comes twice, first without what restarts show: a large fleet takes half an hour to
    come up, and is not to be measured in vain when they fail."""
    with working_on(f"{size}: plan() with all signals new"):
        plan = measured(size.services, size.replicas, PLAN_TICKS)
    with fleet(size, directory, options.requests_per_second) as up:
        with working_on(f"{size}: {options.ticks} ticks"):
            busy = measure(up.operator, options.ticks, up.parts)
        yield _row(up, plan, busy)
        with working_on(f"{size}: restarts, then {options.ticks_at_rest} ticks at rest"):
            start_seconds = up.restart()
            up.restart_without_scrapes()
            rest = measure(up.operator, options.ticks_at_rest, up.parts, counts=_is_at_rest)
        yield _row(up, plan, busy) | {
            "planSecondsAtRest": round(rest.median(lambda tick: tick.plan_cpu_seconds), 4),
            "megabytes": round(max(busy.most_megabytes, rest.most_megabytes), 1),
            "startSeconds": round(start_seconds, 2),
        }


def _row(up: Fleet, plan: dict[str, float], busy: Measured) -> dict[str, Any]:
    return {
        "services": up.size.services,
        "pods": up.size.pods,
        "planSeconds": round(plan["sampled"], 4),
        "planTicks": plan["ticks"],
        "planSecondsWhole": round(plan["whole"], 4),
        "planSecondsInOperation": round(busy.median(lambda tick: tick.plan_cpu_seconds), 4),
        "planSecondsAtRest": None,
        "observeSeconds": round(busy.median(lambda tick: tick.observe_cpu_seconds), 4),
        "tickSeconds": round(busy.median(lambda tick: tick.seconds), 4),
        "worstTickSeconds": round(max(tick.seconds for tick in busy.ticks), 4),
        "megabytes": round(busy.most_megabytes, 1),
        "requestsPerTick": round(busy.requests / len(busy.ticks), 2),
        "startSeconds": None,
        "oldestSignalSeconds": round(busy.oldest_signal_seconds, 1),
        "scrapesPerSecond": round(busy.scrapes / busy.seconds, 1),
        "ticks": len(busy.ticks),
        "measuredSeconds": round(busy.seconds, 1),
        "createSeconds": round(up.create_seconds, 1),
        "cores": {part: round(cores, 3) for part, cores in busy.cores.items()},
    }


def _is_at_rest(tick: TickCost) -> bool:
    return tick.scrapes == 0.0


def _write(rows: list[dict[str, Any]], options: argparse.Namespace) -> None:
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    results = {
        "version": __version__,
        "commit": commit.stdout.strip(),
        "date": datetime.now(UTC).date().isoformat(),
        "machine": f"{os.cpu_count()} cores, shared by the operator, the simulated engines and the control plane",
        "says": options.says,
        "requestsPerSecond": options.requests_per_second,
        "rows": rows,
    }
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    write_page()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.scale", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    flag = parser.add_argument
    flag("--sizes", default=SIZES, help="services x pods of each, such as 1000x10, by commas; default: %(default)s")
    flag("--ticks", type=int, default=TICKS, help="measured in operation; default: %(default)s")
    flag("--ticks-at-rest", type=int, default=TICKS_AT_REST, help="default: %(default)s")
    flag("--requests-per-second", type=float, default=1.0, help="of each service; default: %(default)s")
    flag("--says", default="", help="a sentence for the page: what else the machine did meanwhile")
    flag("--page-only", action="store_true", help="write the table from the committed results, and measure nothing")
    return parser


if __name__ == "__main__":
    sys.exit(main())
