"""Engines of a cluster in memory: what clients want of them, and what they say of it. A crude model of load."""

from dataclasses import dataclass

from forebay.scaling.load.signals import PodSignals
from forebay.world.world import PodView
from tests.builders.world import a_sample


@dataclass(frozen=True)
class Demand:
    """What clients want of a service at a moment; spread evenly over what serves."""

    requests: float = 0.0
    """In flight, if there were room."""
    per_replica: float = 100.0
    """That one engine runs at a time; the rest waits."""
    kv_at_full: float = 0.9
    """KV fraction of an engine that runs `per_replica` requests."""
    arrivals: float | None = None
    """Requests that arrive and are served per second; None where engines do not count them."""


@dataclass
class Engine:
    """What the cluster knows of a pod besides its view."""

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
        """(running, waiting) of what `among` so many serve. One that drains has what it had, until its streams end."""
        if pod.drain_started_at is not None:
            if now - pod.drain_started_at >= stream_seconds:
                self.held_requests = 0.0
            return self.held_requests, 0.0
        share = demand.requests / among if among else 0.0
        return min(share, demand.per_replica), max(0.0, share - demand.per_replica)

    def answer(self, now: float, demand: Demand, share: tuple[float, float], among: int, *, hung: bool) -> None:
        """The metrics of this moment. `among`: replicas that serve, this one with them; 0 where it does not."""
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
