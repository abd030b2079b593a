"""Clusters whose test run was killed before it stopped them. Every start of a cluster looks for them."""

from __future__ import annotations

from e2e.harness import leftovers, machine_lock
from e2e.harness.state import NODES_MODE, forget, noted, stop_processes


def clean_abandoned() -> None:
    """Stops them and removes their files, and for real nodes also what they left on the machine."""
    for directory, state in noted():
        if not state.abandoned:
            continue
        stop_processes(directory)
        if state.mode == NODES_MODE and machine_lock.holder() == directory:
            leftovers.clean()
            machine_lock.release(directory)
        forget(directory)
