"""The adaptive pod autoscaler of AIBrix (APA).

Rules: vllm-project/aibrix `pkg/controller/podautoscaler` (apa.go, context.go).
"""

from dataclasses import dataclass, field
from math import ceil, floor, fsum

from forebay.simulation.peers.hpa import PodMetric, kv_fraction
from forebay.simulation.peers.peer_view import PeerView
from forebay.simulation.peers.sliding_window import SlidingWindow

TOLERANCE = 0.1


@dataclass(slots=True)
class AdaptivePodAutoscaler:
    """In proportion to a metric per pod, beyond a tolerance, at most doubled and at least halved."""

    metric: PodMetric = kv_fraction
    target: float = 0.5
    down_cooldown_seconds: float = 300.0
    name: str = "AIBrix APA"
    period_seconds: float = 10.0
    _recommended: SlidingWindow = field(init=False)

    def __post_init__(self) -> None:
        self._recommended = SlidingWindow(self.down_cooldown_seconds)

    def replicas(self, sight: PeerView) -> int:
        if not sight.ready:
            return sight.wanted
        wanted = sight.wanted
        ratio = fsum(self.metric(replica) for replica in sight.ready) / len(sight.ready) / self.target
        asked = wanted
        if ratio > 1 + TOLERANCE:
            asked = min(ceil(wanted * ratio), ceil(2 * wanted))
        elif ratio < 1 - TOLERANCE:
            asked = max(ceil(wanted * ratio), floor(wanted / 2))
        self._recommended.begin(sight.now, wanted)
        self._recommended.add(sight.now, asked)
        return max(1, asked if asked >= wanted else min(wanted, int(self._recommended.highest)))
