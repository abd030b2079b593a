"""A fixed number of replicas, sized for the highest peak, which is what most teams run."""

from dataclasses import dataclass

from forebay.simulation.peers.peer_view import PeerView


@dataclass(frozen=True, slots=True)
class StaticReplicas:
    count: int
    name: str = "static peak"
    period_seconds: float = 15.0

    def replicas(self, view: PeerView) -> int:
        return self.count
