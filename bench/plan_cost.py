"""`python -m bench.plan_cost --against COMMIT`: CPU seconds of `plan()` for 1,000 services of 10 pods, both in one run.

The two take turns, so that what else the machine does falls on both. Alone without `--against`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
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
        took: dict[str, list[float]] = {name: [] for name in checkouts}
        for _ in range(ROUNDS):
            for name, checkout in checkouts.items():
                took[name].append(_measured(checkout))
    for name, seconds in took.items():
        print(f"{name}: {min(seconds):.3f} s of CPU a tick (of {', '.join(f'{each:.3f}' for each in seconds)})")
    if arguments.against:
        print(f"ratio {min(took['here']) / min(took[arguments.against]):.2f}")
    return 0


def _measured(checkout: Path) -> float:
    """The quickest settled tick."""
    script = CHECKOUT / "bench" / "decisions" / "measured_plan.py"
    done = subprocess.run(
        [sys.executable, str(script), str(SERVICES), str(REPLICAS), str(TICKS)],
        cwd=checkout,
        env={**os.environ, "PYTHONPATH": f"{checkout / 'operator'}:{checkout}"},
        check=True,
        capture_output=True,
        text=True,
    )
    return float(json.loads(done.stdout)["settled"])


if __name__ == "__main__":
    sys.exit(main())
