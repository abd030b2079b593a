"""`make prove`: plants faults in copies of the project; the tests that guard their claims must turn red.

A suite that cannot fail proves nothing. Each fault breaks one claim of `docs/proofs.md`; the guarding tests must pass
without it and fail with it, by what they assert and not by code that does not run.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from time import monotonic

from prove.copies import ROOT
from prove.fault import Fault
from prove.faults import FAULTS
from prove.proof import Located, prove


def main(arguments: Sequence[str]) -> int:
    options = _parser().parse_args(arguments)
    if unknown := [name for name in options.names if not _chosen([name])]:
        print(f"no such fault or area: {', '.join(unknown)}; there are {', '.join(fault.name for fault in FAULTS)}")
        return 2
    chosen = [fault for fault in _chosen(options.names) if fault.quick or not options.quick]
    if options.list:
        print("\n".join(row(fault) for fault in chosen))
        return 0
    began = monotonic()
    left_out = [fault for fault in chosen if os.geteuid() != 0 and Located.of(fault, ROOT).needs_nodes]
    red = missed = 0
    for result in prove([fault for fault in chosen if fault not in left_out], options.jobs):
        red, missed = (red, missed + 1) if result.trouble else (red + 1, missed)
        mark = "NOT RED" if result.trouble else "red"
        print(f"{mark:<9} {result.fault.name}: {result.fault.claim} ({result.seconds:.0f} s)", flush=True)
        if result.trouble or options.verbose:
            print(result.trouble or result.said, flush=True)
    for fault in left_out:
        print(f"left out  {fault.name}: it needs real nodes, so root")
    took = f"{monotonic() - began:.0f} s"
    print(f"{red} faults turned their tests red, {missed} did not, {len(left_out)} left out; {took}")
    return 1 if missed else 0


def row(fault: Fault) -> str:
    """Of the table in `docs/proofs.md`."""
    guards = "<br>".join(f"`{guard}`" for guard in fault.guards)
    return f"| `{fault.name}` | {fault.claim} | {fault.planted} | {guards} |"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m prove", description=__doc__)
    parser.add_argument("names", nargs="*", help="faults or areas, such as drain (default: all)")
    parser.add_argument("--quick", action="store_true", help="only those whose guards need Python alone, and seconds")
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1), help="faults at a time (default 2)")
    parser.add_argument("--verbose", action="store_true", help="show what the guards print for faults they find, too")
    parser.add_argument("--list", action="store_true", help="print the faults as rows of the table, and end")
    return parser


def _chosen(names: Sequence[str]) -> list[Fault]:
    return [fault for fault in FAULTS if not names or fault.name in names or fault.area in names]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
