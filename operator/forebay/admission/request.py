"""Requests at the door, and what becomes of them."""

from dataclasses import dataclass
from enum import StrEnum


class RefusalReason(StrEnum):
    """Why a request is refused. Values are what clients and metrics see."""

    NO_CAPACITY = "no_capacity"
    """Nothing serves and nothing is starting; the only reason for 503."""
    UNKNOWN_TENANT = "unknown_tenant"
    QUEUE_FULL = "queue_full"
    """The tenant's queue, or all queues together, hold as many as they may."""
    TENANT_LIMIT = "tenant_limit"
    """Its own limit, or its group's, will not let it start in time."""
    PREDICTED_WAIT = "predicted_wait"
    """At the rate at which its queue moves it would not start in time."""
    WAITED_TOO_LONG = "waited_too_long"
    """It has waited for as long as it may while replicas serve."""
    COLD_START = "cold_start"
    """It has waited, or would have to wait, for too long for a first replica."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request. Costs are normalized tokens: estimated prompt and output by the work they are."""

    id: str
    tenant: str
    cost: float
    """The estimate that is reserved when it is dispatched."""
    wait_seconds: float | None = None
    """Longest wait that this request accepts, such as a batch deadline; None is what its class allows."""


@dataclass(frozen=True, slots=True)
class Dispatched:
    """Its cost is reserved from now on, and it is never cut."""

    request: Request
    waited_seconds: float


@dataclass(frozen=True, slots=True)
class Refusal:
    request: Request
    reason: RefusalReason
    status: int
    """429; 503 when there is no capacity at all, 403 for a tenant that nobody knows."""
    retry_after_seconds: float
    """With jitter, so that refused clients do not return together."""
