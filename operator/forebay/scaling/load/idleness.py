"""Idleness: since when a service has had no request, as far as that was observed without a gap.

Missing metrics are not idleness. The idle clock is reset while a serving replica reports no metrics, while a replica
drains, and after a gap in observation. It starts again with the operator, because nothing is known about the time
before.
"""

from dataclasses import dataclass
from math import ceil

from forebay.api.instants import rfc3339
from forebay.scaling.decision import count, number
from forebay.scaling.load.gateway_demand import GatewayDemand
from forebay.scaling.load.load_window import LONGEST_GAP_SECONDS
from forebay.scaling.load.service_load import ServiceLoad


@dataclass(frozen=True, slots=True)
class Idleness:
    since: float | None = None
    """Start of the idle time; None while there are requests, or while that is unknown."""
    because: str = ""
    """Why the service does not count as idle, as a clause."""
    updated_at: float = 0.0
    received_requests: float | None = None
    """The gateway's request counter at `updated_at`."""


def update_idleness(before: Idleness, load: ServiceLoad, demand: GatewayDemand, draining: int, now: float) -> Idleness:
    """The idle clock with one more observation. It counts from the last request or Ready, whichever is later, and
    never from creation."""
    because = _not_idle(load, demand, draining)
    if not because and demand.received_requests != before.received_requests:
        because = "a request has arrived at the gateway"
    if because:
        return Idleness(because=because, updated_at=now, received_requests=demand.received_requests)
    assert load.active_at is not None
    gap = now - before.updated_at > LONGEST_GAP_SECONDS
    began = now if before.since is None or gap else before.since
    since = max(began, load.active_at, load.ready_since)
    return Idleness(since, updated_at=now, received_requests=demand.received_requests)


def _not_idle(load: ServiceLoad, demand: GatewayDemand, draining: int) -> str:
    if load.replicas == 0:
        return "no replica is serving yet; the idle clock begins when one does"
    if not load.complete:
        pods = ", ".join(silent.pod for silent in load.silent[:1]) or "a replica"
        return f"{pods} reports no metrics, so it is unknown whether it is idle"
    if load.active_at is None:
        return "an engine does not count its requests, so some may have been missed"
    if in_flight := load.running_requests + load.waiting_requests + load.deferred_requests:
        return f"{count(ceil(in_flight), 'request')} in flight"
    if demand.waits:
        return f"{number(demand.held_requests or 0.0)} requests wait at the gateway"
    if draining:
        return f"{count(draining, 'replica')} still draining"
    return ""


def idle_text(idleness: Idleness, after_seconds: float) -> str:
    """Text for the decision record; constant while the service is idle."""
    if idleness.since is None:
        return f"no: {idleness.because}"
    return f"since {rfc3339(idleness.since)}, to zero at {rfc3339(idleness.since + after_seconds)}"
