"""Demand: what a gateway was asked for, served or not.

Engines count what reaches them. What waits at the door of a service without replicas is known to its gateway alone, and
without one it is not known at all: None, which is not zero.
"""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class GatewayDemand:
    """Of one service."""

    asked_requests: float | None = None
    """Requests since the gateway's count began: admitted, held and refused alike. A counter."""
    held_requests: float | None = None
    """Requests that wait at the gateway now."""
    held_work_seconds: float | None = None
    """Their work, in seconds of one replica."""

    @property
    def waits(self) -> bool:
        """Whether somebody is known to wait."""
        return (self.held_requests or 0.0) > 0 or (self.held_work_seconds or 0.0) > 0


NOT_TOLD: Final = GatewayDemand()
"""Of a service without a gateway, or whose gateway is silent."""
