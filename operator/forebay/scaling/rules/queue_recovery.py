"""Relief: replicas that were ordered for an overload have come, and its queue is being worked off.

The queue, and for some time the waits that it caused, say nothing against the replicas there are by then: judged by
them, every overload would be answered twice.
"""

from dataclasses import dataclass
from math import inf
from typing import Final

from forebay.scaling.decision import seconds
from forebay.scaling.limits import Limits
from forebay.scaling.load.load_window import LoadWindow
from forebay.scaling.load.service_load import ServiceLoad

SETTLING_SECONDS: Final = 45.0
"""After replicas came: until they have been scraped and the queue can be seen to turn. No longer than the cooldown."""
PACE_SECONDS: Final = 30.0
"""Over so long, at least, it is judged whether a queue shrinks."""
LINGERING_SECONDS: Final = 60.0
"""An engine says how long a request waited when that has ended, so waits are heard of after their queue has gone."""
SHORTEST_LEAD_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class QueueRecovery:
    """What is remembered of it between two looks."""

    serving: int = 0
    grew_at: float = -inf
    """When the replicas that serve last became more."""
    relieved_at: float = -inf
    """When a queue was last seen to be on its way out."""


def follow(
    queue_recovery: QueueRecovery,
    serving: int,
    load: ServiceLoad,
    load_window: LoadWindow,
    lead_seconds: float,
    now: float,
) -> QueueRecovery:
    """One more look. Replicas that an operator finds when it starts have not just come."""
    return QueueRecovery(
        serving=serving,
        grew_at=now if 0 < queue_recovery.serving < serving else queue_recovery.grew_at,
        relieved_at=now if _clears_in_time(load, load_window, lead_seconds, now) else queue_recovery.relieved_at,
    )


def waits_for(queue_recovery: QueueRecovery, limits: Limits, now: float) -> str:
    """Why guards do not act yet; empty when they may."""
    cooldown = limits.scale_up_cooldown_seconds
    if now - queue_recovery.grew_at < min(SETTLING_SECONDS, cooldown):
        return f"what replicas change that began to serve {seconds(now - queue_recovery.grew_at)} ago"
    if now - queue_recovery.relieved_at < min(LINGERING_SECONDS, cooldown):
        return "a queue that shrinks, and will be gone before another replica could serve"
    return ""


def _clears_in_time(load: ServiceLoad, load_window: LoadWindow, lead_seconds: float, now: float) -> bool:
    """Whether a replica that is ordered now would come too late for all who wait, at the pace of the last while."""
    before = next((part for part in reversed(load_window.parts) if part.since <= now - PACE_SECONDS), None)
    if before is None or not load.complete or load.waiting_requests >= before.waiting_requests:
        return False
    gone_per_second = (before.waiting_requests - load.waiting_requests) / (now - before.since)
    return load.waiting_requests / gone_per_second <= max(lead_seconds, SHORTEST_LEAD_SECONDS)
