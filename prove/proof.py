"""The order of a proof: all guards once in a sound copy, then each fault in a copy of its own."""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from prove.copies import ROOT, copy_of_project, copy_with
from prove.definitions import file_of_tests, id_of_test
from prove.fault import Fault, MisfitError
from prove.guards import Verdict, run

SUITE_ON_NODES = "e2e/cluster/"


@dataclass(frozen=True, slots=True)
class Result:
    fault: Fault
    seconds: float
    """For the run with the fault in it."""
    trouble: str = ""
    """Why the fault does not count as found, for people; empty when its guards turned red."""
    said: str = ""
    """The last lines of the guards with the fault in it."""


@dataclass(frozen=True, slots=True)
class Located:
    """A fault with its tests by pytest's ids."""

    fault: Fault
    guards: tuple[str, ...]
    before: tuple[str, ...]

    @classmethod
    def of(cls, fault: Fault, root: Path) -> "Located":
        """Raises MisfitError for a test that is not there."""
        guards = tuple(id_of_test(guard, root) for guard in fault.guards)
        return cls(fault, guards, tuple(file_of_tests(stem, root) for stem in fault.before))

    @property
    def tests(self) -> tuple[str, ...]:
        return (*self.before, *self.guards)

    @property
    def needs_nodes(self) -> bool:
        """And so root."""
        return any(guard.startswith(SUITE_ON_NODES) for guard in self.guards)

    @property
    def is_slow(self) -> bool:
        """It starts a control plane."""
        return any(guard.startswith("e2e/") for guard in self.guards)


def prove(faults: Sequence[Fault], jobs: int, root: Path = ROOT) -> Iterator[Result]:
    """The results as they come. `jobs` faults are planted at a time, but only one on real nodes."""
    with copy_of_project(root) as sound:
        fitting = []
        for fault in faults:
            try:
                fitting.append(Located.of(fault, sound))
            except MisfitError as error:
                yield Result(fault, 0.0, str(error))
        yield from _prove_all([each for each in fitting if not each.needs_nodes], sound, jobs)
        yield from _prove_all([each for each in fitting if each.needs_nodes], sound, 1)


def _prove_all(faults: Sequence[Located], sound: Path, jobs: int) -> Iterator[Result]:
    suites = by_suite(tuple(dict.fromkeys(test for each in faults for test in each.tests)))
    # What starts a control plane is slow: its sound run comes first, and its faults come when that has ended.
    ordered = sorted(faults, key=lambda each: (each.is_slow, not each.before))
    with ThreadPoolExecutor(jobs) as pool:
        green = {suite: pool.submit(run, suites[suite], sound) for suite in sorted(suites)}
        running = [pool.submit(_prove_one, each, sound, green) for each in ordered]
        for done in as_completed(running):
            yield done.result()


def _prove_one(located: Located, sound: Path, green: Mapping[str, Future[Verdict]]) -> Result:
    """`green` are the runs without a fault, by suite."""
    fault = located.fault
    suites = by_suite(located.tests)
    for suite, tests in suites.items():
        if trouble := green[suite].result().not_green(tests):
            return Result(fault, 0.0, trouble)
    began = monotonic()
    guards = by_suite(located.guards)
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
