"""The order of a proof: all guards once in a sound copy, then each fault in a copy of its own."""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from prove.copies import ROOT, MisfitError, copy_of_project, copy_with, must_have_guards
from prove.fault import Fault
from prove.guards import Verdict, run


@dataclass(frozen=True, slots=True)
class Result:
    fault: Fault
    seconds: float
    """For the run with the fault in it."""
    trouble: str = ""
    """Why the fault does not count as found, for people; empty when its guards turned red."""
    said: str = ""
    """The last lines of the guards with the fault in it."""


def prove(faults: Sequence[Fault], jobs: int, root: Path = ROOT) -> Iterator[Result]:
    """The results as they come. `jobs` faults are planted at a time, but only one on real nodes."""
    with copy_of_project(root) as sound:
        fitting = []
        for fault in faults:
            try:
                must_have_guards(fault, sound)
                fitting.append(fault)
            except MisfitError as error:
                yield Result(fault, 0.0, str(error))
        yield from _prove_all([fault for fault in fitting if not fault.needs_nodes], sound, jobs)
        yield from _prove_all([fault for fault in fitting if fault.needs_nodes], sound, 1)


def _prove_all(faults: Sequence[Fault], sound: Path, jobs: int) -> Iterator[Result]:
    suites = by_suite(tuple(dict.fromkeys(test for fault in faults for test in fault.tests)))
    # What starts a control plane is slow: its sound run comes first, and its faults come when that has ended.
    ordered = sorted(faults, key=lambda fault: (fault.needs_control_plane, not fault.before))
    with ThreadPoolExecutor(jobs) as pool:
        green = {suite: pool.submit(run, suites[suite], sound) for suite in sorted(suites)}
        running = [pool.submit(_prove_one, fault, sound, green) for fault in ordered]
        for done in as_completed(running):
            yield done.result()


def _prove_one(fault: Fault, sound: Path, green: Mapping[str, Future[Verdict]]) -> Result:
    """`green` are the runs without a fault, by suite."""
    suites = by_suite(fault.tests)
    for suite, tests in suites.items():
        if trouble := green[suite].result().not_green(tests):
            return Result(fault, 0.0, trouble)
    began = monotonic()
    guards = by_suite(fault.guards)
    try:
        with copy_with(fault, sound) as copy:
            verdicts = {suite: run(tests, copy) for suite, tests in suites.items()}
    except MisfitError as error:
        return Result(fault, 0.0, str(error))
    troubles = filter(None, (verdict.not_red(guards[suite]) for suite, verdict in verdicts.items()))
    said = "\n".join(verdict.said for verdict in verdicts.values())
    return Result(fault, monotonic() - began, "\n".join(troubles), said)


def by_suite(tests: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Tests by the folder that one run of pytest covers, since suites of different clusters do not share a run."""
    suites: dict[str, tuple[str, ...]] = {}
    for test in tests:
        parts = test.split("/")
        suite = "/".join(parts[:2]) if parts[0] == "e2e" else parts[0]
        suites[suite] = (*suites.get(suite, ()), test)
    return suites
