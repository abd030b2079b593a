"""Copies of the project to plant faults in; the project itself is never touched."""

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from prove.fault import Fault

ROOT = Path(__file__).resolve().parent.parent


class MisfitError(Exception):
    """A fault that does not fit the project as it is; its message is for people."""


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
    """Raises MisfitError."""
    must_fit(fault, root)
    for edit in fault.edits:
        path = root / edit.path
        path.write_text(path.read_text().replace(edit.old, edit.new))


def must_fit(fault: Fault, root: Path) -> None:
    """Raises MisfitError for a piece of text that is not there exactly once."""
    for edit in fault.edits:
        path = root / edit.path
        text = path.read_text() if path.is_file() else ""
        if (times := text.count(edit.old)) != 1:
            raise MisfitError(
                f"{edit.path} holds the text {times} times instead of once; plant the fault where its claim is kept "
                f"now:\n{edit.old}"
            )


def must_have_guards(fault: Fault, root: Path) -> None:
    """Raises MisfitError for a guard that is not there. pytest would refuse the whole run for one wrong name."""
    for test in fault.tests:
        file, _, name = test.partition("::")
        path, function = root / file, name.rpartition("::")[2]
        if not path.is_file() or (name and f"def {function}(" not in path.read_text()):
            raise MisfitError(f"there is no test {test}; name the one that guards the claim now")
