"""Memory and CPU time of processes and their children, from /proc."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

PROC = Path("/proc")


def tree(pid: int) -> Iterator[int]:
    """The process and all its descendants that live now."""
    yield pid
    for task in _tasks(pid):
        with suppress(OSError):
            for child in (task / "children").read_text().split():
                yield from tree(int(child))


def megabytes(pid: int) -> float:
    """Memory of the process and its descendants; pages that they share are counted once (PSS)."""
    return sum(map(_proportional_bytes, tree(pid))) / 1e6


def cpu_seconds(pids: Iterable[int]) -> float:
    """CPU time so far of these processes and their living descendants."""
    return sum(_own_cpu_seconds(each) for pid in pids for each in tree(pid))


def _tasks(pid: int) -> list[Path]:
    try:
        return list((PROC / str(pid) / "task").iterdir())
    except OSError:
        return []


def _proportional_bytes(pid: int) -> int:
    try:
        lines = (PROC / str(pid) / "smaps_rollup").read_text().splitlines()
    except OSError:
        return 0  # it has ended
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


def _own_cpu_seconds(pid: int) -> float:
    try:
        stat = (PROC / str(pid) / "stat").read_text()
    except OSError:
        return 0.0
    # The command's name stands in parentheses and may hold anything; utime and stime are fields 14 and 15.
    fields = stat.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
