"""φ by mix: which share of the mean-value capacity keeps nearly every request in time, not just the average one.

A step that computes somebody's prompt is long for everybody who decodes, and an answer of few tokens has few steps to
make up for it. How much that costs follows from two ratios, whatever the model, the card or the lengths: what the
squares of prompts weigh, b²·E[I²]/(s·O·ITL), and the share a/ITL of the limit that an idle step takes; and from the
spread of the lengths. The table beside this module was measured with the simulated engine (`python -m
bench.usable_share`, which says how); between its points it is interpolated.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from math import log
from typing import Final

from forebay.capacity.model.engine_profile import DATA

LARGEST: Final = 0.9
"""More is not planned, however even the mix: load itself is not as even as its mean."""
SMALLEST: Final = 0.05
"""Less is not asked for: so few requests share a replica then that more replicas make little difference."""


@dataclass(frozen=True, slots=True)
class _Table:
    spreads: tuple[float, ...]
    idle: tuple[float, ...]
    weights: tuple[float, ...]
    """Natural logarithms."""
    shares: tuple[tuple[tuple[float, ...], ...], ...]
    """By spread, by idle share, by weight."""


def usable_share(weight: float, idle: float, spread: float) -> float:
    """φ for prompts whose squares weigh so much, taken without their spread; `spread` is variance over squared mean."""
    table = _table()
    corners = product(
        _between(table.spreads, spread),
        _between(table.idle, idle),
        _between(table.weights, log(weight) if weight > 0 else table.weights[0]),
    )
    found = sum(s * i * w * table.shares[at][row][column] for (at, s), (row, i), (column, w) in corners)
    return min(LARGEST, max(SMALLEST, found))


def _between(points: Sequence[float], value: float) -> tuple[tuple[int, float], tuple[int, float]]:
    """The two points around a value, and how much of each it is; beyond the ends, the end alone."""
    above = min(max(bisect_right(points, value), 1), len(points) - 1)
    low, high = points[above - 1], points[above]
    part = min(1.0, max(0.0, (value - low) / (high - low)))
    return (above - 1, 1 - part), (above, part)


@cache
def _table() -> _Table:
    read = json.loads((DATA / "usable_share.json").read_text(encoding="utf-8"))
    return _Table(
        spreads=tuple(read["spreads"]),
        idle=tuple(read["idle"]),
        weights=tuple(log(weight) for weight in read["weights"]),
        shares=tuple(tuple(tuple(row) for row in rows) for rows in read["shares"]),
    )
