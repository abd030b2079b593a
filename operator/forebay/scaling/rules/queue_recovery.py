"""Queue recovery: the replicas ordered for an overload serve, and the queue is shrinking.

A shrinking queue, and for a while the wait times it caused, do not mean that more replicas are needed. If guards acted
on them, every overload would be answered twice.
"""

from dataclasses import dataclass
from math import inf
from typing import Final

from forebay.scaling.decision import seconds
from forebay.scaling.limits import Limits
from forebay.scaling.load.load_window import LoadWindow
from forebay.scaling.load.service_load import ServiceLoad

SETTLING_SECONDS: Final = 45.0
"""Time after new replicas begin to serve until they have been scraped and the queue shows their effect. At most
scaleUpCooldown."""
PACE_SECONDS: Final = 30.0
"""Shortest time over which the pace of a shrinking queue is measured."""
LINGERING_SECONDS: Final = 60.0
"""Time after a shrinking queue in which guards still wait: engines report a wait when it ends, so reports come late."""
SHORTEST_LEAD_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class QueueRecovery:
    """What is remembered of a queue between two ticks."""

    serving: int = 0
    grew_at: float = -inf
    """Time when the number of serving replicas last rose."""
    shrinking_at: float = -inf
    """Time when the queue was last shrinking fast enough to be gone before a new replica could serve."""


def update_queue_recovery(
    queue_recovery: QueueRecovery,
    serving: int,
    load: ServiceLoad,
    load_window: LoadWindow,
    lead_seconds: float,
    now: float,
) -> QueueRecovery:
    """The state with one more observation. Replicas that exist when the operator starts do not count as new."""
    return QueueRecovery(
        serving=serving,
        grew_at=now if 0 < queue_recovery.serving < serving else queue_recovery.grew_at,
        shrinking_at=now if _clears_in_time(load, load_window, lead_seconds, now) else queue_recovery.shrinking_at,
    )


def waits_for(queue_recovery: QueueRecovery, limits: Limits, now: float) -> str:
    """What guards have to wait for; empty when they may act."""
    cooldown = limits.scale_up_cooldown_seconds
    if now - queue_recovery.grew_at < min(SETTLING_SECONDS, cooldown):
        return f"the effect of replicas that began to serve {seconds(now - queue_recovery.grew_at)} ago"
    if now - queue_recovery.shrinking_at < min(LINGERING_SECONDS, cooldown):
        return "a shrinking queue that will be empty before another replica could serve"
    return ""


def _clears_in_time(load: ServiceLoad, load_window: LoadWindow, lead_seconds: float, now: float) -> bool:
    """Whether the queue, at its recent pace, is empty before a replica that is created now would serve."""
    before = next((part for part in reversed(load_window.parts) if part.since <= now - PACE_SECONDS), None)
    if before is None or not load.complete or load.waiting_requests >= before.waiting_requests:
        return False
    gone_per_second = (before.waiting_requests - load.waiting_requests) / (now - before.since)
    return load.waiting_requests / gone_per_second <= max(lead_seconds, SHORTEST_LEAD_SECONDS)
