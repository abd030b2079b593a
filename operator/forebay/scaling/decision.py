"""The decision record: what every rule proposed, which one bound, and with what numbers.

Status, events and the command line are rendered from it and from nothing else, so that they cannot disagree.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import ceil
from typing import Final

ROUNDING: Final = 1e-9
"""What floating point may add to a whole number before it counts as more."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """A replica count and the sentence people will read in `status.decision`."""

    replicas: int
    rule: str
    """Name of the function that proposes."""
    because: str
    waits_for: str = ""
    """Why the proposal does not count yet, such as a cooldown; empty when it does."""


@dataclass(frozen=True, slots=True)
class Due:
    """Something that comes by itself."""

    at: float | None
    """Unix seconds; None when only the order is known."""
    what: str
    """A sentence that says it without its time."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What is wanted for one service at one moment."""

    desired: int
    """What the rules come to. In mode Recommend this is advice."""
    rule: str
    because: str
    applied: int
    """What the planner works towards; differs from `desired` in the modes that only advise."""
    proposals: tuple[Proposal, ...] = ()
    """Of every rule that had one, in the order of the rules."""
    inputs: Mapping[str, str] = field(default_factory=dict)
    """The numbers that the rules saw, with units."""
    unbounded: int = 0
    """What would be wanted without maxReplicas."""
    before: int = 0
    """What was worked towards until now."""
    needed: int = 0
    """What arrives, waits or holds as a floor asks for, without warm replicas."""
    would_raise: tuple[str, ...] = ()
    """What would have to change for more replicas, each a sentence with what it is now."""
    would_lower: tuple[str, ...] = ()
    """The same for one replica less."""
    ahead: tuple[Due, ...] = ()
    """The clocks of scaling that run."""


def whole_replicas(replicas: float) -> int:
    """Replicas are not divisible: the next whole number, forgiving what floating point added."""
    return ceil(replicas - ROUNDING)


def number(value: float) -> str:
    """As people write it: 3 for 3.0, 2.5 for 2.46."""
    rounded = round(value, 1)
    return f"{rounded:.0f}" if rounded == int(rounded) else f"{rounded:.1f}"


def significant(value: float) -> str:
    """With two digits that count, so that noise does not look like news: 0.35, 2.1, 130."""
    if value <= 0:
        return "0"
    return f"{float(f'{value:.2g}'):g}"


def seconds(value: float) -> str:
    """A latency or a span with its unit: 40 ms, 1.5 s, 300 s."""
    return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.3g} s" if value < 100 else f"{value:.0f} s"


def percent(fraction: float) -> str:
    return f"{fraction * 100:.0f} %"


def amount(value: float, noun: str) -> str:
    """`1 request`, `2.5 requests`: of what is measured, with two digits that count."""
    shown = significant(value)
    return f"{shown} {noun}" if shown == "1" else f"{shown} {noun}s"


def count(amount: int, noun: str) -> str:
    """`1 replica`, `2 replicas`."""
    return f"{amount} {noun}" if amount == 1 else f"{amount} {noun}s"
