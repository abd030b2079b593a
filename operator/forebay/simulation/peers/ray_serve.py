"""The autoscaling policy of Ray Serve.

Rules: ray-project/ray `python/ray/serve/autoscaling_policy.py`, defaults of `AutoscalingConfig`.
"""

from dataclasses import dataclass, field
from math import ceil

from forebay.simulation.peers.peer_view import PeerView
from forebay.simulation.peers.sliding_window import RecentValues


@dataclass(slots=True)
class RayServe:
    """Scales in proportion to ongoing requests, once the rule has asked for the same direction for a delay."""

    target: float = 2.0
    """Target of ongoing (queued and running) requests per replica."""
    look_back_seconds: float = 30.0
    up_delay_seconds: float = 30.0
    down_delay_seconds: float = 600.0
    name: str = "Ray Serve"
    period_seconds: float = 10.0
    """How often replicas report their ongoing requests."""
    _ongoing: RecentValues = field(init=False)
    _direction: int = field(init=False, default=0)
    _since: float = field(init=False, default=0.0)

    def __post_init__(self) -> None:
        self._ongoing = RecentValues(self.look_back_seconds)

    def replicas(self, view: PeerView) -> int:
        self._ongoing.add(view.now, view.in_flight)
        wanted = view.wanted
        exact = self._ongoing.mean / self.target
        proposed = max(1, ceil(exact - 1e-9))
        direction = (proposed > wanted) - (proposed < wanted)
        if direction != self._direction:
            self._direction, self._since = direction, view.now
        delay = self.up_delay_seconds if direction > 0 else self.down_delay_seconds
        if direction == 0 or view.now - self._since < delay:
            return wanted
        self._direction = 0
        return proposed
