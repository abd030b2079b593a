"""One cluster of real nodes per machine: they share a bridge, addresses and packet rules.

The lock outlives the command that takes it, as the cluster does; it is void when the cluster is abandoned.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import asdict
from pathlib import Path

from e2e.harness.binaries import exclusively
from e2e.harness.failure import HarnessError
from e2e.harness.processes import Identity
from e2e.harness.state import State

HOLDER = Path("/run/forebay-cluster")
"""File with the folder of the cluster that uses the machine, and the process that reserved it."""
PATIENCE = "FOREBAY_WAIT_SECONDS"
"""Environment variable: how long to wait while another cluster uses the machine."""

GATE = Path("/run/forebay-cluster.lock")


def take(directory: Path) -> bool:
    """Reserves the machine for this cluster; True if it was not reserved yet, so that leftovers may exist.

    Raises when another cluster lives on it, or another process uses this one, for longer than the user wants to wait.
    """
    deadline = time.monotonic() + float(os.environ.get(PATIENCE, "0"))
    while True:
        with exclusively(GATE):
            refusal = _refusal(directory)
            if refusal is None:
                return _take(directory)
        if time.monotonic() >= deadline:
            raise HarnessError(f"{refusal} Wait for it (with {PATIENCE} set to seconds, this command does) or stop it.")
        time.sleep(1)


def _take(directory: Path) -> bool:
    if holder() == directory and State.read(directory):
        return False
    HOLDER.write_text(json.dumps({"directory": str(directory), "taker": asdict(Identity.mine())}))
    return True


def _refusal(directory: Path) -> str | None:
    """The cluster that uses the machine, if it is not the one in `directory`."""
    other, taker = _read()
    if other is None or taker is None:
        return None
    state = State.read(other)
    if state is None:
        starting = taker.alive() and taker != Identity.mine()
        return f"Process {taker.pid} is starting a cluster of real nodes in {other}." if starting else None
    ours = other == directory and not state.belongs_to_another
    if ours or state.abandoned:
        return None
    return (
        f"This machine has {state.described(other)}, and room for one cluster of real nodes "
        f"(python -m e2e.harness down --mode nodes --directory {other})."
    )


def release(directory: Path) -> None:
    with exclusively(GATE):
        if holder() == directory:
            HOLDER.unlink()


def holder() -> Path | None:
    """Folder of the cluster that uses or last used the machine."""
    return _read()[0]


def _read() -> tuple[Path | None, Identity | None]:
    try:
        found = json.loads(HOLDER.read_text())
        return Path(found["directory"]), Identity(**found["taker"])
    except (FileNotFoundError, ValueError, TypeError, KeyError):
        return None, None
