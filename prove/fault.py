"""A planted fault: changes that make one claim of `docs/proofs.md` false."""

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


class MisfitError(Exception):
    """A fault does not fit the project as it is; the message says why, for people."""


class Change(Protocol):
    """One change to one file, found by the name of what it changes."""

    def rewritten(self, root: Path) -> tuple[Path, str]:
        """The file below `root` and its new text. Raises MisfitError."""


@dataclass(frozen=True, slots=True)
class Fault:
    name: str
    """`area.what-is-broken`."""
    claim: str
    """What the guards say is true, and the fault makes false."""
    planted: str
    """What the changes do, in words."""
    changes: tuple[Change, ...]
    guards: tuple[str, ...]
    """Tests that must turn red, each of them: `test_name`, or `test_file::test_name` where the name alone is not
    unique."""
    before: tuple[str, ...] = ()
    """Test files, without `.py`, that run before the guards, since a guard reads what they left; they may be green."""
    quick: bool = False
    """Part of `make prove-quick`: its guards need Python alone, and seconds."""

    @property
    def area(self) -> str:
        return self.name.partition(".")[0]
