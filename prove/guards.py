"""Runs guarding tests in a copy of the project, and reads what they said."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from prove.verdict import PASSED, RED

LONGEST_SECONDS = 600.0
LONGEST_ON_A_CLUSTER_SECONDS = 1800.0
"""Binaries and images may be built, and a cluster started, on the way."""
TESTS_FAILED = 1
"""pytest's exit code for failed tests; 2 and more mean that it could not run them."""
LAST_LINES = 25

ALL_EXAMPLES: Final = {"FOREBAY_SCHEDULES": "300", "FOREBAY_HISTORIES": "25"}
"""Property tests that draw fewer examples in CI draw all of them as guards."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """How the guards ended."""

    outcomes: Mapping[str, str] = field(default_factory=dict)
    """By test, as `prove.verdict` names them."""
    trouble: str = ""
    """Why there is no verdict, for people; empty when there is one."""
    said: str = ""
    """The last lines of pytest."""

    def of(self, guard: str) -> list[str]:
        """Outcomes of the tests that a guard's id stands for: one, or all its cases."""
        return [
            how for test, how in self.outcomes.items() if test == guard or test.startswith((f"{guard}[", f"{guard}::"))
        ]

    def not_green(self, guards: Sequence[str]) -> str:
        """What is wrong with guards that should pass; empty when they do."""
        if self.trouble:
            return self.trouble
        wrong = [guard for guard in guards if not self.of(guard) or set(self.of(guard)) != {PASSED}]
        return f"not green without the fault: {', '.join(wrong)}\n{self.said}" if wrong else ""

    def not_red(self, guards: Sequence[str]) -> str:
        """What is wrong with guards that should have found the fault; empty when each of them has."""
        if self.trouble:
            return self.trouble
        blind = [guard for guard in guards if RED not in self.of(guard)]
        if not blind:
            return ""
        how = "; ".join(f"{guard}: {', '.join(sorted(set(self.of(guard)))) or 'did not run'}" for guard in blind)
        return f"did not turn red by what it asserts: {how}\n{self.said}"


def run(tests: Sequence[str], copy: Path) -> Verdict:
    """Run tests by their ids in a copy of the project."""
    clustered = any(test.startswith("e2e/") for test in tests)
    seconds = LONGEST_ON_A_CLUSTER_SECONDS if clustered else LONGEST_SECONDS
    environment = os.environ | {
        "PYTHONPATH": f"{copy / 'operator'}{os.pathsep}{copy}",
        "PYTHONDONTWRITEBYTECODE": "1",
        **ALL_EXAMPLES,
    }
    with tempfile.TemporaryDirectory(prefix="forebay-verdict-") as folder:
        file = Path(folder) / "verdict.json"
        plugins = ["-p", "no:cacheprovider", "-p", "prove.verdict", f"--verdict={file}"]
        if any("hypothesis" in (copy / test.partition("::")[0]).read_text() for test in tests):
            plugins += ["-p", "prove.same_examples"]
        process = subprocess.Popen(
            [sys.executable, "-m", "pytest", "-q", *plugins, *tests],
            cwd=copy,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        said, in_time = _wait(process, seconds)
        told = json.loads(file.read_text()) if file.exists() else {"outcomes": {}, "strangers": []}
    if not in_time:
        return Verdict(trouble=f"the guards did not end within {seconds:.0f} s\n{said}")
    if process.returncode not in (0, TESTS_FAILED):
        return Verdict(trouble=f"pytest could not run the guards (exit code {process.returncode})\n{said}")
    if told["strangers"]:
        return Verdict(trouble=f"code from outside the copy was run: {', '.join(told['strangers'])}")
    return Verdict(told["outcomes"], said=said)


def _wait(process: subprocess.Popen[str], seconds: float) -> tuple[str, bool]:
    """The last lines it wrote, and whether it ended in time. One that does not is asked to clean up, then killed."""
    in_time = True
    try:
        output, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        in_time = False
        process.send_signal(signal.SIGINT)
        try:
            output, _ = process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
            output, _ = process.communicate()
    return "\n".join(output.splitlines()[-LAST_LINES:]), in_time
