"""The view that a peer's rule gets: the last scrape of each ready pod and its last replica count, never the trace."""

from dataclasses import dataclass
from math import fsum
from typing import Protocol


@dataclass(frozen=True, slots=True)
class PeerReplica:
    """One ready pod, as of its last scrape."""

    name: str
    waiting: float
    """Requests in the engine's queue."""
    running: float
    kv_fraction: float
    first_token_seconds: float | None = None
    """Mean time to the first token in the last minute; None if no request got its first token."""
    inter_token_seconds: float | None = None
    """Mean time between tokens in the last minute; None if there was none."""

    @property
    def in_flight(self) -> float:
        return self.waiting + self.running


@dataclass(frozen=True, slots=True)
class PeerView:
    now: float
    """Seconds since the run began."""
    wanted: int
    """The replica count that was requested last: `spec.replicas` of the workload."""
    ready: tuple[PeerReplica, ...]
    starting: int = 0
    """Pods that exist and are not ready."""
    requests_per_second: float = 0.0
    """Mean rate of arrivals in the last minute."""
    prompt_tokens: float = 0.0
    """Mean prompt of the last minute's requests, in tokens."""
    output_tokens: float = 0.0
    """Mean answer of the last minute's requests, in tokens."""

    @property
    def in_flight(self) -> float:
        return fsum(replica.in_flight for replica in self.ready)

    @property
    def waiting(self) -> float:
        return fsum(replica.waiting for replica in self.ready)


class Peer(Protocol):
    """A rule and its memory. One instance scales one service and is called every `period_seconds`."""

    @property
    def name(self) -> str: ...

    @property
    def period_seconds(self) -> float: ...

    def replicas(self, view: PeerView) -> int:
        """The number of replicas wanted now; the caller keeps it within the bounds of the service."""
        ...
