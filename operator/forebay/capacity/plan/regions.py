"""Regions: how large each must be so that the loss of any one is carried by the others."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil


@dataclass(frozen=True, slots=True)
class Region:
    name: str
    share: Fraction
    """Of the traffic, while all are there; all shares add up to 1."""


@dataclass(frozen=True, slots=True)
class RegionPlan:
    name: str
    share: float
    """While all regions are there."""
    largest_share: float
    """When the region whose loss hurts this one most is gone."""
    lost: str
    """That region."""
    active: int
    warm: int
    gpus: int


class RegionError(ValueError):
    """What is wrong with a list of regions."""


def read_regions(text: str) -> tuple[Region, ...]:
    """`north=50,south=30,west=20`: shares of any sum. Raises RegionError."""
    found = []
    for part in text.split(","):
        name, separator, number = (piece.strip() for piece in part.partition("="))
        try:
            share = Fraction(number)
        except (ValueError, ZeroDivisionError):
            share = Fraction(0)
        if not separator or not name or share <= 0:
            raise RegionError(f'"{part.strip()}" is not name=share; write north=50,south=30,west=20')
        found.append((name, share))
    names = [name for name, _ in found]
    if len(set(names)) < len(names):
        raise RegionError(f'"{next(name for name in names if names.count(name) > 1)}" is there twice; keep one')
    if len(found) < 2:
        raise RegionError("one region cannot survive its own loss; name two or more")
    total = sum(share for _, share in found)
    return tuple(Region(name, share / total) for name, share in found)


def plan_regions(regions: Sequence[Region], exact: float, warm: int, gpus_per_replica: int) -> tuple[RegionPlan, ...]:
    """`exact` replicas, before rounding, carry all of the traffic; what a lost region had goes to the others by their
    shares."""
    found = []
    for region in regions:
        lost = max((other for other in regions if other is not region), key=lambda other: other.share)
        largest = region.share / (1 - lost.share)
        active = max(1, ceil(round(exact * float(largest), 9)))
        found.append(
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
    return tuple(found)
