"""The HorizontalPodAutoscaler of Kubernetes, and KEDA, which feeds one.

Rules: kubernetes/kubernetes `pkg/controller/podautoscaler/replica_calculator.go` and `horizontal.go`; KEDA's
documentation of ScaledObject and of the cron trigger.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import ceil, fsum
from typing import Protocol

from forebay.simulation.peers.peer_view import PeerView, ReplicaSight
from forebay.simulation.peers.sliding_window import SlidingWindow

TOLERANCE = 0.1
PodMetric = Callable[[ReplicaSight], float]


def waiting(replica: ReplicaSight) -> float:
    return replica.waiting


def kv_fraction(replica: ReplicaSight) -> float:
    return replica.kv_fraction


def in_flight(replica: ReplicaSight) -> float:
    return replica.in_flight


class Metric(Protocol):
    """One entry of an autoscaler's `metrics`."""

    def proposal(self, sight: PeerView) -> int | None:
        """The count it asks for; None when it has no data."""
        ...


@dataclass(frozen=True, slots=True)
class PerPod:
    """`type: Pods`, AverageValue: pods that are not ready count as nothing on the way up and change nothing down."""

    metric: PodMetric
    target: float

    def proposal(self, sight: PeerView) -> int | None:
        if not sight.ready:
            return None
        total = fsum(self.metric(replica) for replica in sight.ready)
        ratio = total / len(sight.ready) / self.target
        if ratio <= 1 or not sight.starting:
            return sight.wanted if _tolerable(ratio) else _up(ratio * len(sight.ready))
        with_starting = total / (len(sight.ready) + sight.starting) / self.target
        if _tolerable(with_starting) or with_starting < 1:
            return sight.wanted
        return max(sight.wanted, _up(with_starting * (len(sight.ready) + sight.starting)))


@dataclass(frozen=True, slots=True)
class Total:
    """`type: External`, AverageValue: a total is shared out, whoever is ready."""

    metric: PodMetric
    target: float

    def proposal(self, sight: PeerView) -> int | None:
        if not sight.ready:
            return None
        total = fsum(self.metric(replica) for replica in sight.ready)
        return sight.wanted if _tolerable(total / (self.target * sight.wanted)) else _up(total / self.target)


@dataclass(frozen=True, slots=True)
class Cron:
    """KEDA's cron trigger: desiredReplicas inside its window, else 1, as an External metric of target 1."""

    windows: tuple[tuple[float, float], ...]
    """Begin and end, seconds since the run began."""
    desired: int

    def proposal(self, sight: PeerView) -> int | None:
        inside = any(begin <= sight.now < end for begin, end in self.windows)
        asked = self.desired if inside else 1
        return sight.wanted if _tolerable(asked / sight.wanted) else asked


@dataclass(slots=True)
class HorizontalPodAutoscaler:
    """Default behaviour: up at once by the larger of 100 % and 4 pods per 15 s; down to the highest of 300 s."""

    name: str
    metrics: tuple[Metric, ...]
    period_seconds: float = 15.0
    down_window_seconds: float = 300.0
    _recommended: SlidingWindow = field(init=False)

    def __post_init__(self) -> None:
        self._recommended = SlidingWindow(self.down_window_seconds)

    def replicas(self, sight: PeerView) -> int:
        proposals = [proposal for metric in self.metrics if (proposal := metric.proposal(sight)) is not None]
        if not proposals:
            return sight.wanted
        asked = max(1, *proposals)
        self._recommended.begin(sight.now, sight.wanted)
        self._recommended.add(sight.now, asked)
        if asked >= sight.wanted:
            return min(asked, max(2 * sight.wanted, sight.wanted + 4))
        return min(sight.wanted, int(self._recommended.highest))


def _tolerable(ratio: float) -> bool:
    return abs(ratio - 1) <= TOLERANCE + 1e-12


def _up(replicas: float) -> int:
    return ceil(replicas - 1e-9)
