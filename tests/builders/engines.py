"""Engines of a cluster in memory: a simple model of the load of clients and the metrics of engines."""

from dataclasses import dataclass

from forebay.scaling.load.signals import PodSignals
from forebay.world.world import PodView
from tests.builders.world import a_sample


@dataclass(frozen=True)
class Demand:
    """Load of clients on a service at a moment, spread evenly over the serving replicas."""

    requests: float = 0.0
    """Requests in flight or waiting."""
    per_replica: float = 100.0
    """Requests that one engine runs at a time; the rest waits."""
    kv_at_full: float = 0.9
    """KV use of an engine that runs `per_replica` requests."""
    arrivals: float | None = None
    """Requests that arrive and are served per second; None where engines do not count them."""


@dataclass
class Engine:
    """State of a pod that its view does not have."""

    scheduled_at: float | None = None
    ends_at: float | None = None
    """When a pod that is being deleted is gone."""
    held_requests: float = 0.0
    """Streams that a draining pod still has; they end `stream_seconds` after the drain began."""
    steps: float = 0.0
    finished: float = 0.0
    last: PodSignals | None = None

    def fall_silent(self) -> None:
        self.last = PodSignals(self.last.sample if self.last else None, "no answer within 4 s")

    def share(self, pod: PodView, demand: Demand, among: int, now: float, stream_seconds: float) -> tuple[float, float]:
        """(running, waiting) requests of one of `among` serving replicas. A draining one keeps its streams."""
        if pod.drain_started_at is not None:
            if now - pod.drain_started_at >= stream_seconds:
                self.held_requests = 0.0
            return self.held_requests, 0.0
        share = demand.requests / among if among else 0.0
        return min(share, demand.per_replica), max(0.0, share - demand.per_replica)

    def answer(self, now: float, demand: Demand, share: tuple[float, float], among: int, *, hung: bool) -> None:
        """Set the metrics of this moment. `among`: number of serving replicas; 0 if this one does not serve."""
        running, waiting = share
        before = self.last.sample if self.last is not None else None
        if hung and before is not None:
            running = before.running_requests
        elif running:
            self.steps += 100
        if before is not None and among:
            self.finished += (demand.arrivals or 0.0) * (now - before.taken_at) / among
        self.last = PodSignals(
            a_sample(
                at=now,
                running=running,
                waiting=waiting,
                kv=min(1.0, demand.kv_at_full * running / demand.per_replica),
                steps=self.steps,
                # One token of each counted request would be a length; without any, what is declared counts.
                generation_tokens=self.steps if demand.arrivals is None else None,
                finished=None if demand.arrivals is None else self.finished,
            )
        )
