"""What a peer may see: the last scrape of each ready pod, and what it has asked for itself. Never the trace."""

from dataclasses import dataclass
from math import fsum
from typing import Protocol


@dataclass(frozen=True, slots=True)
class PeerReplica:
    """One ready pod, as its metrics showed it at the last scrape."""

    name: str
    waiting: float
    """Requests in its queue."""
    running: float
    kv_fraction: float
    first_token_seconds: float | None = None
    """Mean of the last minute; None when no request got its first token."""
    inter_token_seconds: float | None = None
    """Mean of the last minute."""

    @property
    def in_flight(self) -> float:
        return self.waiting + self.running


@dataclass(frozen=True, slots=True)
class PeerView:
    now: float
    """Seconds since the run began."""
    wanted: int
    """What was asked for last: `spec.replicas` of the workload."""
    ready: tuple[PeerReplica, ...]
    starting: int = 0
    """Pods that are there and not ready."""
    requests_per_second: float = 0.0
    """Arrivals, mean of the last minute."""
    prompt_tokens: float = 0.0
    """Mean of a request, last minute."""
    output_tokens: float = 0.0

    @property
    def in_flight(self) -> float:
        return fsum(replica.in_flight for replica in self.ready)

    @property
    def waiting(self) -> float:
        return fsum(replica.waiting for replica in self.ready)


class Peer(Protocol):
    """A rule with what it remembers. One instance scales one service, asked every `period_seconds`."""

    @property
    def name(self) -> str: ...

    @property
    def period_seconds(self) -> float: ...

    def replicas(self, view: PeerView) -> int:
        """How many replicas are wanted now; the caller keeps it within the bounds of the service."""
        ...
