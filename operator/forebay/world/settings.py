"""Operator-wide limits and timeouts. They bound what one planner may do at once, even when its input is wrong."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Settings:
    """Limits on the blast radius and on time. All are operator flags; no service can set them."""

    max_drains_per_10_minutes: int = 40
    max_creates_per_minute: int = 200
    max_gpus: int | None = None
    """Ceiling on GPUs over all services, terminating pods included, pods of lost nodes excluded. None means no ceiling
    but the nodes' GPUs."""
    pending_timeout_seconds: float = 300.0
    """A pod that is unscheduled or cannot pull its image for longer than this is marked as stuck and no longer counts
    as capacity."""
    variant_hold_seconds: float = 600.0
    """How long a variant that found no capacity is not tried again. The time doubles with each further failure."""
    stale_after_seconds: float = 30.0
    lost_after_seconds: float = 300.0
    stall_after_seconds: float = 120.0
    """An engine that reports running requests but has made no step for this long counts as hung."""
    node_lost_after_seconds: float = 60.0
    """A node that has been not ready, or missing, for this long has lost its replicas."""
    drain_grace_seconds: float = 5.0
    """How long a draining pod may still receive requests from proxies whose endpoints are not yet updated."""
    placeholder_priority_class: str = "forebay-placeholder"
    """The PriorityClass of placeholders. It is lower than that of every pod that may preempt them."""
    default_tenant: str = "default"
    """The tenant of the namespaces that no TenantQuota claims."""
