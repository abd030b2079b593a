"""Queue recovery: the replicas ordered for an overload serve, and the queue is shrinking.

A shrinking queue, and for a while the wait times it caused, do not mean that more replicas are needed. If guards acted
on them, every overload would be answered twice.
"""

from dataclasses import dataclass
from math import inf
from typing import Final

from forebay.api.instants import rfc3339
from forebay.scaling.limits import Limits
from forebay.scaling.load.load_window import LoadWindow
from forebay.scaling.load.service_load import ServiceLoad

SETTLING_SECONDS: Final = 45.0
"""Time after new replicas begin to serve until they have been scraped and the queue shows their effect. At most
scaleUpCooldown."""
STEADY_SECONDS: Final = 6.0
"""Time for which a queue has to shrink at every look: one low look is no recovery."""
PACE_SECONDS: Final = 30.0
"""Shortest time over which the pace of a shrinking queue is measured."""
LINGERING_SECONDS: Final = 60.0
"""Time after a shrinking queue in which guards still wait: engines report a wait when it ends, so reports come late."""
SHORTEST_LEAD_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class QueueRecovery:
    """What is remembered of a queue between two ticks."""

    most_serving: int = 0
    """Most replicas that served at once, of those that are wanted now."""
    grew_at: float = -inf
    """Time when more replicas served than before. One that crashed and came back adds nothing."""
    shrinks_since: float | None = None
    """Since when each look showed a queue that shrinks fast enough; None when the last one did not."""
    shrinking_at: float = -inf
    """Time when the queue was last shrinking fast enough, and for long enough, to be gone before a new replica could
    serve."""
    shrinking_since: float = -inf
    """Time when guards began to wait for a queue that shrinks, or when it was last found to have halved."""
    shrinking_from: float = 0.0
    """Requests that waited then."""
    overdue: bool = False
    """Whether the queue did not halve in the time allowed, so that guards act again."""


def update_queue_recovery(
    before: QueueRecovery,
    serving: int,
    desired: int,
    load: ServiceLoad,
    load_window: LoadWindow,
    lead_seconds: float,
    now: float,
) -> QueueRecovery:
    """The state with one more observation. Replicas that exist when the operator starts do not count as new."""
    grew = 0 < before.most_serving < serving
    clears = _clears_in_time(load, load_window, lead_seconds, now)
    since = (now if before.shrinks_since is None else before.shrinks_since) if clears else None
    shrinking = since is not None and now - since >= STEADY_SECONDS
    begins = grew or (shrinking and now - before.shrinking_at >= LINGERING_SECONDS)
    overdue = now - before.shrinking_since > max(lead_seconds, SHORTEST_LEAD_SECONDS) + LINGERING_SECONDS
    waiting = max((part.waiting_requests for part in load_window.parts[-2:]), default=0.0)
    renewed = begins or (overdue and waiting <= before.shrinking_from / 2)
    return QueueRecovery(
        most_serving=max(serving, min(before.most_serving, desired)),
        grew_at=now if grew else before.grew_at,
        shrinks_since=since,
        shrinking_at=now if shrinking else before.shrinking_at,
        shrinking_since=now if renewed else before.shrinking_since,
        shrinking_from=waiting if renewed else before.shrinking_from,
        overdue=overdue and not renewed,
    )


def waits_for(queue_recovery: QueueRecovery, limits: Limits, now: float) -> str:
    """What guards have to wait for; empty when they may act."""
    cooldown = limits.scale_up_cooldown_seconds
    if now - queue_recovery.grew_at < min(SETTLING_SECONDS, cooldown):
        return f"the effect of the replicas that began to serve at {rfc3339(queue_recovery.grew_at)}"
    if not queue_recovery.overdue and now - queue_recovery.shrinking_at < min(LINGERING_SECONDS, cooldown):
        return "a shrinking queue that will be empty before another replica could serve"
    return ""


def _clears_in_time(load: ServiceLoad, load_window: LoadWindow, lead_seconds: float, now: float) -> bool:
    """Whether the queue, at its recent pace, is empty before a replica that is created now would serve."""
    before = next((part for part in reversed(load_window.parts) if part.since <= now - PACE_SECONDS), None)
    if before is None or not load.complete or load.waiting_requests >= before.waiting_requests:
        return False
    gone_per_second = (before.waiting_requests - load.waiting_requests) / (now - before.since)
    return load.waiting_requests / gone_per_second <= max(lead_seconds, SHORTEST_LEAD_SECONDS)
