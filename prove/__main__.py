"""`make prove`: plants a fault in a copy of the project and wants the test that guards it to turn red.

A suite that cannot fail proves nothing. Each fault breaks one headline claim by exact replacement of a piece of text (a
replacement that no longer fits is an error, so the list cannot rot); the guarding tests must pass without it and fail,
by assertion and not by a broken import, with it.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from prove.faults import FAULTS, Fault

ROOT = Path(__file__).parent.parent
TESTS_FAILED = 1
"""pytest's exit code for failed tests; 2 and more mean it could not run them."""


def copy_project(destination: Path) -> None:
    """Copy what git tracks, as it is in the working tree."""
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in filter(None, names.split("\0")):
        source = ROOT / name
        if source.is_file():
            target = destination / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)


def plant(fault: Fault, copy: Path) -> None:
    """Raises ValueError when a piece of text is not there exactly once."""
    for edit in fault.edits:
        path = copy / edit.path
        text = path.read_text()
        if text.count(edit.old) != 1:
            raise ValueError(f"{fault.name}: {edit.path} holds {text.count(edit.old)} times, not once:\n{edit.old}")
        path.write_text(text.replace(edit.old, edit.new))


def run_guards(fault: Fault, copy: Path) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": f"{copy / 'operator'}:{copy}", "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *fault.guards],
        cwd=copy,
        env=environment,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )


def tail(result: subprocess.CompletedProcess[str], lines: int = 25) -> str:
    return "\n".join((result.stdout + result.stderr).splitlines()[-lines:])


def prove(fault: Fault) -> str | None:
    """None when the guards are green without the fault and red with it; otherwise what is wrong."""
    with tempfile.TemporaryDirectory(prefix="forebay-prove-") as directory:
        copy = Path(directory)
        copy_project(copy)
        sound = run_guards(fault, copy)
        if sound.returncode != 0:
            return f"the guard is not green without the fault (exit {sound.returncode}):\n{tail(sound)}"
        plant(fault, copy)
        broken = run_guards(fault, copy)
        if broken.returncode != TESTS_FAILED:
            return f"the guard did not turn red (exit {broken.returncode}):\n{tail(broken)}"
        return None


def main(names: list[str]) -> int:
    unknown = set(names) - {fault.name for fault in FAULTS}
    if unknown:
        print(f"no such fault: {', '.join(sorted(unknown))}; there are {', '.join(fault.name for fault in FAULTS)}")
        return 2
    chosen = [fault for fault in FAULTS if not names or fault.name in names]
    failed = left_out = 0
    for fault in chosen:
        if fault.needs_root and os.geteuid() != 0:
            left_out += 1
            print(f"left out  {fault.name}: needs real nodes, so root", flush=True)
            continue
        wrong = prove(fault)
        failed += wrong is not None
        print(f"{'red      ' if wrong is None else 'NOT RED  '} {fault.name}: {fault.claim}", flush=True)
        if wrong is not None:
            print(wrong, flush=True)
    print(f"{len(chosen) - failed - left_out} faults turned their test red, {failed} did not, {left_out} left out")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
