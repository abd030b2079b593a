"""`python -m bench.plan_cost --against COMMIT`: CPU seconds of `plan()` for 1,000 services of 10 pods, both in one run.

The two take turns, so that what else the machine does falls on both. Alone without `--against`. What is compared is a
tick in which everything is new; the other figures of `measured_plan` are those of the quickest round.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from operator import itemgetter
from pathlib import Path

from bench.decisions.checkouts import CHECKOUT, laid_out

SERVICES, REPLICAS, TICKS, ROUNDS = 1000, 10, 8, 3


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.plan_cost", description=__doc__)
    parser.add_argument("--against", help="the commit to compare this checkout with")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="forebay-plan-cost-") as folder:
        checkouts = {"here": CHECKOUT}
        if arguments.against:
            checkouts = {arguments.against: laid_out(arguments.against, Path(folder)), **checkouts}
        took: dict[str, list[dict[str, float]]] = {name: [] for name in checkouts}
        for _ in range(ROUNDS):
            for name, checkout in checkouts.items():
                took[name].append(measured(SERVICES, REPLICAS, TICKS, checkout))
    quickest = {name: min(rounds, key=itemgetter("whole")) for name, rounds in took.items()}
    for name, rounds in took.items():
        print(f"{name}: {quickest[name]['whole']:.3f} s of CPU a tick (of {', '.join(_seconds(rounds))});", end=" ")
        print(
            "with only the samples new {sampled:.3f} s in each of {ticks}, at rest {rest:.3f} s".format(
                **quickest[name]
            )
        )
    if arguments.against:
        print(f"ratio {quickest['here']['whole'] / quickest[arguments.against]['whole']:.2f}")
    return 0


def _seconds(rounds: list[dict[str, float]]) -> list[str]:
    return [f"{each['whole']:.3f}" for each in rounds]


def measured(services: int, replicas: int, ticks: int, checkout: Path = CHECKOUT) -> dict[str, float]:
    """The figures of `measured_plan` for a checkout, in a process of its own."""
    script = CHECKOUT / "bench" / "decisions" / "measured_plan.py"
    done = subprocess.run(
        [sys.executable, str(script), str(services), str(replicas), str(ticks)],
        cwd=checkout,
        env={**os.environ, "PYTHONPATH": f"{checkout / 'operator'}:{checkout}"},
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


if __name__ == "__main__":
    sys.exit(main())
