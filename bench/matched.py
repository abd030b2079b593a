"""What a rule spends that keeps as much as Forebay does: asked of those that are cheaper and keep less.

A rule tuned to 99 % may undercut a planner that aims at 99.5 % and say nothing about which of them is better. So the
next more careful settings of its grid are played on the very traffic that all are judged by, which is more than its
users could do, and the one that comes as close as it takes stands beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean
from typing import Any, Final

from bench.policies_page import cheaper
from bench.summary import summary
from forebay.simulation.compare.comparison import FOREBAY, TUNED
from forebay.simulation.peers.peer_grid import PeerSetting, grid

MATCHED: Final = " (matched)"
TRIED: Final = 3
"""Settings that are more careful than the tuned one, the next first."""
AS_MUCH: Final = 0.0002
"""In time: what is no further below is as much."""


Play = Callable[[int, Sequence[PeerSetting]], Sequence[dict[str, Any]]]
"""Rows of these settings on the traffic of a seed that all are judged by."""


def matched(played: dict[str, Any], play: Play) -> dict[str, Any]:
    """The results with a row more for each rule that undercuts Forebay."""
    told = list(summary(played))
    ours = next(row["attainment"] for row in told if row["name"] == FOREBAY)
    for row in cheaper(told):
        settings = _more_careful(row["name"].removesuffix(TUNED), row["target"])
        if not settings:
            continue
        tried = [play(seed, settings) for seed in played["seeds"]]
        kept = [fmean(of_seed[n]["attainment"] for of_seed in tried) for n in range(len(settings))]
        enough = [n for n, share in enumerate(kept) if share >= ours - AS_MUCH]
        chosen = enough[0] if enough else max(range(len(settings)), key=lambda n: kept[n])
        for run, of_seed in zip(played["runs"], tried, strict=True):
            run["policies"].append(of_seed[chosen] | {"name": settings[chosen].rule + MATCHED})
    return played


def _more_careful(rule: str, target: str) -> list[PeerSetting]:
    """Of the grid, whose most careful settings come first; none of a rule with its default."""
    of_rule = [entry for entry in grid() if entry.rule == rule]
    at = next((n for n, entry in enumerate(of_rule) if entry.target == target), 0)
    return of_rule[max(0, at - TRIED) : at][::-1]
