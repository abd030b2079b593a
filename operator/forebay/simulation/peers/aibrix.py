"""The adaptive pod autoscaler of AIBrix (APA).

Rules: vllm-project/aibrix `pkg/controller/podautoscaler` (apa.go, context.go).
"""

from dataclasses import dataclass, field
from math import ceil, floor, fsum

from forebay.simulation.peers.hpa import PodMetric, kv_fraction
from forebay.simulation.peers.peer_view import PeerView
from forebay.simulation.peers.sliding_window import RecentValues

TOLERANCE = 0.1


@dataclass(slots=True)
class AdaptivePodAutoscaler:
    """Scales in proportion to a metric per pod, beyond a tolerance; a step at most doubles or halves the count."""

    metric: PodMetric = kv_fraction
    target: float = 0.5
    down_cooldown_seconds: float = 300.0
    name: str = "AIBrix APA"
    period_seconds: float = 10.0
    _recommended: RecentValues = field(init=False)

    def __post_init__(self) -> None:
        self._recommended = RecentValues(self.down_cooldown_seconds)

    def replicas(self, view: PeerView) -> int:
        if not view.ready:
            return view.wanted
        wanted = view.wanted
        ratio = fsum(self.metric(replica) for replica in view.ready) / len(view.ready) / self.target
        proposed = wanted
        if ratio > 1 + TOLERANCE:
            proposed = min(ceil(wanted * ratio), ceil(2 * wanted))
        elif ratio < 1 - TOLERANCE:
            proposed = max(ceil(wanted * ratio), floor(wanted / 2))
        self._recommended.begin(view.now, wanted)
        self._recommended.add(view.now, proposed)
        return max(1, proposed if proposed >= wanted else min(wanted, int(self._recommended.highest)))
