"""Freshness: how much a reading is worth. Missing is not zero, and old is not now."""

from dataclasses import dataclass
from enum import StrEnum


class Freshness(StrEnum):
    FRESH = "Fresh"
    STALE = "Stale"
    """Hold: nothing is scaled down."""
    LOST = "Lost"
    """Hold still, and say so loudly."""


@dataclass(frozen=True, slots=True)
class Ages:
    """From which age on a reading is worth less, in seconds."""

    stale_after_seconds: float = 30.0
    lost_after_seconds: float = 300.0


def freshness(taken_at: float | None, expected_since: float, now: float, ages: Ages) -> Freshness:
    """State of a pod's last sample; without one, the clock runs from when the pod became ready.

    A sample from the future (two clocks) is fresh.
    """
    age_seconds = now - (expected_since if taken_at is None else taken_at)
    if age_seconds > ages.lost_after_seconds:
        return Freshness.LOST
    if taken_at is None or age_seconds > ages.stale_after_seconds:
        return Freshness.STALE
    return Freshness.FRESH
