"""Texts that were reworded on purpose since the recorded commit: each a pattern in the old text, and what it is now.

A pattern pins the numbers and the rule around the words, so that only words can differ.
"""

from typing import Final

REWORDED: Final[tuple[tuple[str, str], ...]] = ()
