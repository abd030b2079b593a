"""Idleness: since when nothing has been asked of a service, as far as that was seen without a gap.

Silence is not idleness. The clock stands at nothing while a replica that serves gives no metrics, while one drains, and
after a time in which nobody looked; it begins anew with the operator, since what happened before is not known.
"""

from dataclasses import dataclass
from math import ceil

from forebay.api.instants import rfc3339
from forebay.scaling.decision import count, number
from forebay.scaling.load.gateway_demand import GatewayDemand
from forebay.scaling.load.load_window import LONGEST_BLINK_SECONDS
from forebay.scaling.load.service_load import ServiceLoad


@dataclass(frozen=True, slots=True)
class Idleness:
    since: float | None = None
    """From when on every look found nothing asked; None while something is, or while that cannot be told."""
    because: str = ""
    """Why there is no such time, as a clause."""
    looked_at: float = 0.0
    asked_requests: float | None = None
    """The gateway's count at that look."""


def look_idle(before: Idleness, load: ServiceLoad, demand: GatewayDemand, draining: int, now: float) -> Idleness:
    """The clock after one more look. It counts from the later of the last request and Ready, never from creation."""
    because = _not_idle(load, demand, draining)
    if not because and demand.asked_requests != before.asked_requests:
        because = "a request has come to the gateway"
    if because:
        return Idleness(because=because, looked_at=now, asked_requests=demand.asked_requests)
    assert load.active_at is not None
    gap = now - before.looked_at > LONGEST_BLINK_SECONDS
    began = now if before.since is None or gap else before.since
    since = max(began, load.active_at, load.ready_since)
    return Idleness(since, looked_at=now, asked_requests=demand.asked_requests)


def _not_idle(load: ServiceLoad, demand: GatewayDemand, draining: int) -> str:
    if load.replicas == 0:
        return "no replica serves yet, and the idle clock begins when one does"
    if not load.complete:
        pods = ", ".join(silent.pod for silent in load.silent[:1]) or "a replica"
        return f"{pods} gives no metrics, and silence is not idleness"
    if load.active_at is None:
        return "an engine counts no requests, so that some may have come unseen"
    if in_flight := load.running_requests + load.waiting_requests + load.deferred_requests:
        return f"{count(ceil(in_flight), 'request')} in flight"
    if demand.waits:
        return f"{number(demand.held_requests or 0.0)} requests wait at the gateway"
    if draining:
        return f"{count(draining, 'replica')} still drains"
    return ""


def idle_text(idleness: Idleness, after_seconds: float) -> str:
    """For the record; constant while the service is idle."""
    if idleness.since is None:
        return f"no: {idleness.because}"
    return f"since {rfc3339(idleness.since)}, to zero at {rfc3339(idleness.since + after_seconds)}"
