"""The decision record: what every rule proposed, which proposal won, and the numbers behind it.

Status, Events and the command line are rendered from this record alone, so they cannot disagree.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import ceil
from typing import Final

ROUNDING: Final = 1e-9
"""Tolerance when rounding up: a smaller excess over a whole number is a floating-point error."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """A replica count and the sentence people will read in `status.decision`."""

    replicas: int
    rule: str
    """Name of the function that proposes."""
    because: str
    waits_for: str = ""
    """What the proposal has to wait for before it counts, such as a cooldown; empty when it counts now."""


@dataclass(frozen=True, slots=True)
class Due:
    """A change that will happen without any change in load, such as the end of a cooldown."""

    at: float | None
    """Unix seconds; None when only the order of changes is known."""
    what: str
    """A sentence that describes the change without its time."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The replica count of one service at one moment, and how the rules arrived at it."""

    desired: int
    """Replica count by the rules, within maxReplicas. In mode Recommend this is advice."""
    rule: str
    because: str
    applied: int
    """Replica count that the planner works towards; differs from `desired` in modes that only advise."""
    proposals: tuple[Proposal, ...] = ()
    """All proposals, in the order of the rules."""
    inputs: Mapping[str, str] = field(default_factory=dict)
    """The numbers that the rules read, with units."""
    unbounded: int = 0
    """Replica count without the limit of maxReplicas."""
    before: int = 0
    """Replica count that the planner worked towards before this decision."""
    needed: int = 0
    """Replica count that arrivals, backlog and floors ask for, without warm replicas."""
    would_raise: tuple[str, ...] = ()
    """Changes that would raise the count; each sentence also gives the present value."""
    would_lower: tuple[str, ...] = ()
    """Changes that would lower the count by one replica."""
    upcoming: tuple[Due, ...] = ()
    """Ends of the cooldowns and idle clocks that are running."""


def whole_replicas(replicas: float) -> int:
    """The count rounded up, except for an excess that is only a floating-point error."""
    return ceil(replicas - ROUNDING)


def number(value: float) -> str:
    """At most one decimal place: 3 for 3.0, 2.5 for 2.46."""
    rounded = round(value, 1)
    return f"{rounded:.0f}" if rounded == int(rounded) else f"{rounded:.1f}"


def significant(value: float) -> str:
    """Two significant digits, so that noise does not look like a change: 0.35, 2.1, 130."""
    if value <= 0:
        return "0"
    return f"{float(f'{value:.2g}'):g}"


def seconds(value: float) -> str:
    """A latency or a duration with its unit: 40 ms, 1.5 s, 300 s."""
    return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.3g} s" if value < 100 else f"{value:.0f} s"


def percent(fraction: float) -> str:
    return f"{fraction * 100:.0f} %"


def amount(value: float, noun: str) -> str:
    """`1 request`, `2.5 requests`: a measured quantity with two significant digits."""
    shown = significant(value)
    return f"{shown} {noun}" if shown == "1" else f"{shown} {noun}s"


def count(amount: int, noun: str) -> str:
    """`1 replica`, `2 replicas`."""
    return f"{amount} {noun}" if amount == 1 else f"{amount} {noun}s"
