"""The pod autoscaler of Knative Serving (KPA).

Rules: knative/serving `pkg/autoscaler/scaling/autoscaler.go`, defaults of `config/core/configmaps/autoscaler.yaml`.
"""

from dataclasses import dataclass, field
from math import ceil, floor

from forebay.simulation.peers.peer_view import PeerView
from forebay.simulation.peers.sliding_window import RecentValues

PANIC_THRESHOLD = 2.0
MAX_SCALE_UP_RATE = 1000.0
MAX_SCALE_DOWN_RATE = 2.0


@dataclass(slots=True)
class KnativePodAutoscaler:
    """Averages the total concurrency over a stable and a panic window; in panic mode the count never falls."""

    target: float = 70.0
    """Target of requests in flight per pod: 70 % of the default container concurrency of 100."""
    stable_seconds: float = 60.0
    panic_seconds: float = 6.0
    name: str = "Knative KPA"
    period_seconds: float = 2.0
    _stable: RecentValues = field(init=False)
    _panic: RecentValues = field(init=False)
    _panicked_at: float | None = field(init=False, default=None)
    _most_in_panic: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self._stable, self._panic = RecentValues(self.stable_seconds), RecentValues(self.panic_seconds)

    def replicas(self, view: PeerView) -> int:
        ready = max(1, len(view.ready))
        self._stable.add(view.now, view.in_flight)
        self._panic.add(view.now, view.in_flight)
        in_panic = ceil(self._panic.mean / self.target)
        over = in_panic / ready >= PANIC_THRESHOLD
        stable, panic = (_clamped(want, ready) for want in (ceil(self._stable.mean / self.target), in_panic))
        if over:
            self._panicked_at = view.now
        elif self._panicked_at is not None and view.now - self._panicked_at > self.stable_seconds:
            self._panicked_at, self._most_in_panic = None, 0
        if self._panicked_at is None:
            return max(1, stable)
        self._most_in_panic = max(self._most_in_panic, stable, panic)
        return max(1, self._most_in_panic)


def _clamped(want: int, ready: int) -> int:
    return min(max(want, floor(ready / MAX_SCALE_DOWN_RATE)), ceil(MAX_SCALE_UP_RATE * ready))
