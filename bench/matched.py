"""Finds what a cheaper rule costs once it keeps as many requests in time as Forebay.

A rule tuned to 99 % may cost less than a planner that aims at 99.5 %, which does not show which of the two is better.
So for each rule that costs less and keeps less, the next more careful settings of its grid are played on the traffic
that judges all policies, and the setting that comes as close to Forebay as needed is added. Users of the rule could not
do that, since they do not have the traffic in advance.
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
"""At most this many settings more careful than the tuned one are played, the nearest first."""
AS_MUCH: Final = 0.0002
"""An attainment at most this far below Forebay's counts as equal."""


Play = Callable[[int, Sequence[PeerSetting]], Sequence[dict[str, Any]]]
"""Plays settings on the traffic of a seed that judges all policies, and returns their rows."""


def matched(played: dict[str, Any], play: Play) -> dict[str, Any]:
    """The results with a row added for each rule that costs less than Forebay and keeps less."""
    summaries = list(summary(played))
    ours = next(row["attainment"] for row in summaries if row["name"] == FOREBAY)
    for row in cheaper(summaries):
        settings = _more_careful(row["name"].removesuffix(TUNED), row["target"])
        if not settings:
            continue
        tried = [play(seed, settings) for seed in played["seeds"]]
        attained = [fmean(of_seed[n]["attainment"] for of_seed in tried) for n in range(len(settings))]
        enough = [n for n, share in enumerate(attained) if share >= ours - AS_MUCH]
        chosen = enough[0] if enough else max(range(len(settings)), key=lambda n: attained[n])
        for run, of_seed in zip(played["runs"], tried, strict=True):
            run["policies"].append(of_seed[chosen] | {"name": settings[chosen].rule + MATCHED})
    return played


def _more_careful(rule: str, target: str) -> list[PeerSetting]:
    """The next more careful settings of the grid, which begins with the most careful; none for a default setting."""
    of_rule = [entry for entry in grid() if entry.rule == rule]
    at = next((n for n, entry in enumerate(of_rule) if entry.target == target), 0)
    return of_rule[max(0, at - TRIED) : at][::-1]
