"""Outlook: what is known of the time ahead, before any rule looks at the load of now."""

from dataclasses import dataclass
from typing import Final

from forebay.scaling.decision import Proposal
from forebay.scaling.load.arrivals import RequestLengths
from forebay.scaling.load.gateway_demand import NOT_TOLD, GatewayDemand

UNKNOWN_LEAD_SECONDS: Final = 300.0
"""From ordering a replica to its first request, as long as nothing has been learned."""


@dataclass(frozen=True, slots=True)
class ScalingInputs:
    """Neutral as it stands: a lead time nobody has measured, no growth, and nothing in the calendar."""

    lead_seconds: float = UNKNOWN_LEAD_SECONDS
    """How long a replica that is ordered now will take to serve."""
    growth: float = 0.0
    """By which fraction the arriving work may grow within the lead time."""
    floors: tuple[Proposal, ...] = ()
    """Counts that hold whatever the load is, beside minReplicas: open or coming schedule windows, a wake-up call.
    Without warm replicas, which are added on top."""
    demand: GatewayDemand = NOT_TOLD
    """What the gateway was asked for."""
    lengths: RequestLengths | None = None
    """What requests looked like before this operator began to watch; what it sees itself goes before that."""
