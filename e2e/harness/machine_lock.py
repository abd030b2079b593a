"""One cluster of real nodes per machine: they share a bridge, addresses and packet rules.

The lock outlives the command that takes it, as the cluster does; it is void when the cluster is abandoned.
"""

from __future__ import annotations

from pathlib import Path

from e2e.harness.binaries import exclusively
from e2e.harness.failure import HarnessError
from e2e.harness.state import State

HOLDER = Path("/run/forebay-cluster")
"""Holds the folder of the cluster that has the machine."""
GATE = Path("/run/forebay-cluster.lock")


def take(directory: Path) -> bool:
    """Makes the machine this cluster's; True when it was not already, and left-overs are to be expected.

    Raises when another cluster lives on it.
    """
    with exclusively(GATE):
        other = holder()
        if other == directory:
            return False
        state = State.read(other) if other else None
        if other and state and not state.abandoned:
            raise HarnessError(
                f"This machine has {state.described(other)}, and room for one cluster of real nodes. Wait for it, or "
                f"stop it with: python -m e2e.harness down --mode nodes --directory {other}"
            )
        HOLDER.write_text(str(directory))
        return True


def release(directory: Path) -> None:
    with exclusively(GATE):
        if holder() == directory:
            HOLDER.unlink()


def holder() -> Path | None:
    """Folder of the cluster that has the machine, or had it."""
    try:
        return Path(HOLDER.read_text())
    except FileNotFoundError:
        return None
