"""Gateway demand: the requests that a gateway has received for a service, served or not.

Engines count only the requests that reach them. Requests for a service without replicas are known to its gateway alone.
Without a gateway they are unknown: None, which is not zero.
"""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class GatewayDemand:
    """Demand for one service."""

    received_requests: float | None = None
    """Counter of all requests that the gateway received: admitted, held and refused."""
    held_requests: float | None = None
    """Requests that wait at the gateway now."""
    held_work_seconds: float | None = None
    """Work of the held requests, in GPU-seconds."""

    @property
    def waits(self) -> bool:
        """Whether requests are known to wait at the gateway."""
        return (self.held_requests or 0.0) > 0 or (self.held_work_seconds or 0.0) > 0


UNKNOWN_DEMAND: Final = GatewayDemand()
"""Demand for a service without a gateway, or whose gateway reports no metrics."""
