"""Operator-wide limits: how much one planner may do at once, whatever it believes."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Settings:
    """Blast radius and time limits; all operator flags, none of them a service's business."""

    max_drains_per_10_minutes: int = 40
    max_creates_per_minute: int = 200
    max_gpus: int | None = None
    """Ceiling over all services; None means what the nodes have."""
    pending_timeout_seconds: float = 300.0
    """A pod that stays unscheduled or cannot pull its image for longer is marked and no longer counted as capacity."""
    stale_after_seconds: float = 30.0
    lost_after_seconds: float = 300.0
    stall_after_seconds: float = 120.0
