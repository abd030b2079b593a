"""Operator-wide limits: how much one planner may do at once, whatever it believes."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Settings:
    """Blast radius and time limits; all operator flags, none of them a service's business."""

    max_drains_per_10_minutes: int = 40
    max_creates_per_minute: int = 200
    max_gpus: int | None = None
    """Ceiling over all services, pods that are ending included; None leaves it to what the nodes have."""
    pending_timeout_seconds: float = 300.0
    """A pod that stays unscheduled or cannot pull its image for longer is marked and no longer counted as capacity."""
    variant_hold_seconds: float = 600.0
    """A variant that could not be had is not tried again for so long; twice as long after each further time."""
    stale_after_seconds: float = 30.0
    lost_after_seconds: float = 300.0
    stall_after_seconds: float = 120.0
    """An engine that says it runs requests and has made no step for so long hangs."""
    node_lost_after_seconds: float = 60.0
    """A node that is not ready, or that is gone, for so long has lost its replicas."""
    drain_grace_seconds: float = 5.0
    """A drained pod may still get requests for so long, from proxies that have not heard yet."""
    placeholder_priority_class: str = "forebay-placeholder"
    """The PriorityClass of placeholders, below that of every pod that may take their place."""
