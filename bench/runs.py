"""Plays the runs of one comparison in parallel, in as many processes as there are cores.

A run depends only on its comparison, so the order in which runs finish does not change the figures.
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
"""What each process inherits when it is forked: comparisons and rules cannot be pickled."""


def of_entry(entry: PeerSetting) -> Run:
    """The run of a peer's setting."""
    return lambda compared: compared.peer(entry)


def rows(compared: Comparison, runs: Sequence[Run]) -> Iterator[dict[str, Any]]:
    """The report's entry of each policy in the order of `runs`, without time line and decisions."""
    assert compared.fleet.counts, "the oracle's needs are computed once, before the processes fork"
    with get_context("fork").Pool(os.cpu_count(), _share, (compared, runs)) as pool:
        yield from pool.imap(_played, range(len(runs)))


def _share(compared: Comparison, runs: Sequence[Run]) -> None:
    _shared[:] = [(compared, runs)]


def _played(index: int) -> dict[str, Any]:
    compared, runs = _shared[0]
    row: dict[str, Any] = document(compared, [runs[index](compared)], {})["policies"][0]
    return {name: value for name, value in row.items() if name not in ("timeline", "decisions")}
