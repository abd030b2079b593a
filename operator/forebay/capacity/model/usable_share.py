"""φ, the usable share: the share of the mean-value capacity at which nearly every request is in time.

A step that computes a prompt delays every decoding sequence, and a short answer has few steps to make up for the delay.
φ depends on three values, whatever the model, the GPU and the lengths:

- the weight of the squared prompts, b²·E[I²]/(s·O·ITL),
- the share a/ITL of the limit that an idle step takes,
- the spread of the lengths.

a and b are coefficients of a step (see `engine_profile`), I and O the prompt and answer tokens of a request, s its GPU
seconds, and ITL the limit between tokens. The table in `data/usable_share.json` was measured with the simulated engine
(`python -m bench.usable_share` says how). Values between its points are interpolated.
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

LARGEST_SHARE: Final = 0.9
"""Upper bound of φ for any mix, because load varies around its mean."""
SMALLEST_SHARE: Final = 0.05
"""Lower bound of φ: below it so few requests share a replica that more replicas make little difference."""


@dataclass(frozen=True, slots=True)
class _Table:
    spreads: tuple[float, ...]
    idle: tuple[float, ...]
    log_weights: tuple[float, ...]
    shares: tuple[tuple[tuple[float, ...], ...], ...]
    """φ by spread, by idle share, by weight."""


def usable_share(weight: float, idle: float, spread: float) -> float:
    """φ by interpolation. `weight` is that of the squared prompts, with E[I]² in place of E[I²]; `idle` is the share of
    the limit that an idle step takes; `spread` is the variance of the lengths over their squared mean."""
    table = _table()
    corners = product(
        _neighbours(table.spreads, spread),
        _neighbours(table.idle, idle),
        _neighbours(table.log_weights, log(weight) if weight > 0 else table.log_weights[0]),
    )
    share = sum(s * i * w * table.shares[layer][row][column] for (layer, s), (row, i), (column, w) in corners)
    return min(LARGEST_SHARE, max(SMALLEST_SHARE, share))


def _neighbours(points: Sequence[float], value: float) -> tuple[tuple[int, float], tuple[int, float]]:
    """The indices of the two points around a value, each with its weight; beyond the ends only the end counts."""
    above = min(max(bisect_right(points, value), 1), len(points) - 1)
    low, high = points[above - 1], points[above]
    part = min(1.0, max(0.0, (value - low) / (high - low)))
    return (above - 1, 1 - part), (above, part)


@cache
def _table() -> _Table:
    document = json.loads((DATA / "usable_share.json").read_text(encoding="utf-8"))
    return _Table(
        spreads=tuple(document["spreads"]),
        idle=tuple(document["idle"]),
        log_weights=tuple(log(weight) for weight in document["weights"]),
        shares=tuple(tuple(tuple(row) for row in rows) for rows in document["shares"]),
    )
