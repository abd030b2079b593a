"""Regions: how many replicas each needs so that the others can carry the traffic of any lost region."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil


@dataclass(frozen=True, slots=True)
class Region:
    """A region and its share of the traffic."""

    name: str
    share: Fraction
    """Share of the traffic while all regions are up; all shares add up to 1."""


@dataclass(frozen=True, slots=True)
class RegionPlan:
    """The replicas that one region needs."""

    name: str
    share: float
    """Share of the traffic while all regions are up."""
    largest_share: float
    """Share of the traffic when the region whose loss adds most to this one is down."""
    lost: str
    """Name of that region."""
    active: int
    warm: int
    gpus: int


class RegionError(ValueError):
    """A problem of a list of regions, as one sentence."""


def read_regions(text: str) -> tuple[Region, ...]:
    """Reads `north=50,south=30,west=20`; the shares may have any sum. Raises RegionError."""
    shares = []
    for part in text.split(","):
        name, separator, number = (piece.strip() for piece in part.partition("="))
        try:
            share = Fraction(number)
        except (ValueError, ZeroDivisionError):
            share = Fraction(0)
        if not separator or not name or share <= 0:
            raise RegionError(f'"{part.strip()}" is not name=share; write north=50,south=30,west=20')
        shares.append((name, share))
    names = [name for name, _ in shares]
    if len(set(names)) < len(names):
        raise RegionError(f'"{next(name for name in names if names.count(name) > 1)}" appears twice; keep one')
    if len(shares) < 2:
        raise RegionError("one region cannot take over its own traffic; name two or more")
    total = sum(share for _, share in shares)
    return tuple(Region(name, share / total) for name, share in shares)


def plan_regions(regions: Sequence[Region], exact: float, warm: int, gpus_per_replica: int) -> tuple[RegionPlan, ...]:
    """The plan of each region. `exact` replicas, before rounding, carry all of the traffic. The traffic of a lost
    region goes to the others in proportion to their shares."""
    plans = []
    for region in regions:
        lost = max((other for other in regions if other is not region), key=lambda other: other.share)
        largest = region.share / (1 - lost.share)
        active = max(1, ceil(round(exact * float(largest), 9)))
        plans.append(
            RegionPlan(
                name=region.name,
                share=float(region.share),
                largest_share=float(largest),
                lost=lost.name,
                active=active,
                warm=warm,
                gpus=(active + warm) * gpus_per_replica,
            )
        )
    return tuple(plans)
