"""Copies of the project to plant faults in; the project itself is never touched."""

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from prove.fault import Fault, MisfitError

ROOT = Path(__file__).resolve().parent.parent
UNDEFINED_NAMES = "F821"
"""The rule of ruff."""


@contextmanager
def copy_of_project(root: Path) -> Iterator[Path]:
    """What is in the working tree and not ignored by git."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=root,
        check=True,
        capture_output=True,
        text=True,
    )
    with tempfile.TemporaryDirectory(prefix="forebay-prove-") as directory:
        copy = Path(directory)
        for name in filter(None, listed.stdout.split("\0")):
            source, target = root / name, copy / name
            if source.is_file():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, target)
        yield copy


@contextmanager
def copy_with(fault: Fault, sound: Path) -> Iterator[Path]:
    """A copy of the copy with the fault in it. Raises MisfitError."""
    with tempfile.TemporaryDirectory(prefix="forebay-fault-") as directory:
        copy = Path(directory) / "copy"
        shutil.copytree(sound, copy, ignore=shutil.ignore_patterns(".cluster", ".hypothesis", "__pycache__"))
        plant(fault, copy)
        yield copy


def plant(fault: Fault, root: Path) -> None:
    """Raises MisfitError, also for code that names what it does not know.

    The planner reports an exception in the status instead of raising it, so a NameError could turn a test red by what
    it asserts, and would prove nothing.
    """
    changed = []
    for change in fault.changes:
        path, text = change.rewritten(root)
        path.write_text(text)
        changed.append(path)
    sources = [str(path) for path in changed if path.suffix == ".py"]
    if sources:
        command = [sys.executable, "-m", "ruff", "check", "--isolated", "--no-cache", "--select", UNDEFINED_NAMES]
        checked = subprocess.run([*command, *sources], capture_output=True, text=True)
        if checked.returncode != 0:
            raise MisfitError(f"the planted code does not run:\n{checked.stdout}{checked.stderr}")


def must_fit(fault: Fault, root: Path) -> None:
    """Raises MisfitError when something that the fault changes is not there, or not once."""
    for change in fault.changes:
        change.rewritten(root)
