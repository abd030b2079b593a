"""Clusters whose test run was killed before it could stop them: found at every start, of whatever kind."""

from __future__ import annotations

from e2e.harness import leftovers, machine_lock
from e2e.harness.state import NODES_MODE, forget, noted, stop_processes


def clean_abandoned() -> None:
    """Stops them and removes what they left, on the machine too if they had real nodes."""
    for directory, state in noted():
        if not state.abandoned:
            continue
        stop_processes(directory)
        if state.mode == NODES_MODE and machine_lock.holder() == directory:
            leftovers.clean()
            machine_lock.release(directory)
        forget(directory)
