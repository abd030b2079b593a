"""Runs of one comparison side by side, in as many processes as there are cores.

A run depends on nothing but its comparison, so the figures are the same in whatever order they come about.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import get_context
from typing import Any

from forebay.simulation.compare.comparison import Comparison, Result
from forebay.simulation.compare.simulation_report import document
from forebay.simulation.peers.peer_grid import PeerSetting

Run = Callable[[Comparison], Result]

_shared: list[tuple[Comparison, Sequence[Run]]] = []
"""What a process was forked with: comparisons and rules cannot be sent to one."""


def of_entry(entry: PeerSetting) -> Run:
    return lambda compared: compared.peer(entry)


def rows(compared: Comparison, runs: Sequence[Run]) -> Iterator[dict[str, Any]]:
    """Each policy's entry of the report, in the order of `runs`, without time line and decisions."""
    assert compared.fleet.counts, "the needs are found once, before the processes part"
    with get_context("fork").Pool(os.cpu_count(), _begin, (compared, runs)) as pool:
        yield from pool.imap(_played, range(len(runs)))


def _begin(compared: Comparison, runs: Sequence[Run]) -> None:
    _shared[:] = [(compared, runs)]


def _played(index: int) -> dict[str, Any]:
    compared, runs = _shared[0]
    row: dict[str, Any] = document(compared, [runs[index](compared)], {})["policies"][0]
    return {name: value for name, value in row.items() if name not in ("timeline", "decisions")}
