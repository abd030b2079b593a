"""Scaling inputs: what scaling knows besides the load of this moment, such as lead time, growth and schedule floors."""

from dataclasses import dataclass
from typing import Final

from forebay.scaling.decision import Proposal
from forebay.scaling.load.arrivals import RequestLengths
from forebay.scaling.load.gateway_demand import UNKNOWN_DEMAND, GatewayDemand

UNKNOWN_LEAD_SECONDS: Final = 300.0
"""Time from the creation of a replica to its first request, used until something has been learned."""


@dataclass(frozen=True, slots=True)
class ScalingInputs:
    """The defaults are neutral: an unmeasured lead time, no growth and no floors."""

    lead_seconds: float = UNKNOWN_LEAD_SECONDS
    """L: time until a replica that is created now serves."""
    growth: float = 0.0
    """Fraction by which the arriving work may grow within the lead time."""
    floors: tuple[Proposal, ...] = ()
    """Counts that hold under any load, besides minReplicas: open or coming schedule windows, a wake-up call. Warm
    replicas are not included; they are added later."""
    demand: GatewayDemand = UNKNOWN_DEMAND
    """Requests that the gateway has received and holds."""
    lengths: RequestLengths | None = None
    """Request lengths stored by an earlier operator process. Lengths that this process measures take precedence."""
