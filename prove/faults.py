"""The faults of `make prove`: one for each headline claim."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Edit:
    path: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Fault:
    name: str
    claim: str
    """What the guarding test says is true, and the fault makes false."""
    edits: tuple[Edit, ...]
    guards: tuple[str, ...]
    """Arguments for pytest."""
    needs_root: bool = False


FAULTS: tuple[Fault, ...] = ()
