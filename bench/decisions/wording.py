"""Texts that were reworded on purpose since the recorded commit: each a pattern in the old text, and what it is now.

A pattern pins the numbers and the rule around the words, so that only words can differ.
"""

from typing import Final

from bench.decisions import wording_others, wording_planner, wording_scaling

REWORDED: Final[tuple[tuple[str, str], ...]] = (
    *wording_scaling.REWORDED,
    *wording_planner.REWORDED,
    *wording_others.REWORDED,
)
