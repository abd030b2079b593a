"""Freshness: whether a sample is recent enough to act on. A missing value is not zero, and an old one not current."""

from dataclasses import dataclass
from enum import StrEnum


class Freshness(StrEnum):
    FRESH = "Fresh"
    STALE = "Stale"
    """Nothing is scaled down."""
    LOST = "Lost"
    """Nothing is scaled down, and status and Events report it."""


@dataclass(frozen=True, slots=True)
class Ages:
    """Ages in seconds after which a sample is stale or lost."""

    stale_after_seconds: float = 30.0
    lost_after_seconds: float = 300.0


def freshness(taken_at: float | None, expected_since: float, now: float, ages: Ages) -> Freshness:
    """Freshness of a pod's last sample. Without a sample, the age counts from when the pod became ready.

    A sample from the future is fresh: its clock differs from ours.
    """
    age_seconds = now - (expected_since if taken_at is None else taken_at)
    if age_seconds > ages.lost_after_seconds:
        return Freshness.LOST
    if taken_at is None or age_seconds > ages.stale_after_seconds:
        return Freshness.STALE
    return Freshness.FRESH
