"""The HorizontalPodAutoscaler of Kubernetes, and KEDA, which feeds one.

Rules: kubernetes/kubernetes `pkg/controller/podautoscaler/replica_calculator.go` and `horizontal.go`; KEDA's
documentation of ScaledObject and of the cron trigger.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import ceil, fsum
from typing import Protocol

from forebay.simulation.peers.peer_view import PeerReplica, PeerView
from forebay.simulation.peers.sliding_window import RecentValues

TOLERANCE = 0.1
PodMetric = Callable[[PeerReplica], float]


def waiting(replica: PeerReplica) -> float:
    return replica.waiting


def kv_fraction(replica: PeerReplica) -> float:
    return replica.kv_fraction


def in_flight(replica: PeerReplica) -> float:
    return replica.in_flight


class Metric(Protocol):
    """One entry of an autoscaler's `metrics`."""

    def proposal(self, view: PeerView) -> int | None:
        """The replica count that this metric asks for; None if it has no data."""
        ...


@dataclass(frozen=True, slots=True)
class PerPod:
    """`type: Pods`, AverageValue: pods that are not ready count as 0 when scaling up and are ignored otherwise."""

    metric: PodMetric
    target: float

    def proposal(self, view: PeerView) -> int | None:
        if not view.ready:
            return None
        total = fsum(self.metric(replica) for replica in view.ready)
        ratio = total / len(view.ready) / self.target
        if ratio <= 1 or not view.starting:
            return view.wanted if _within_tolerance(ratio) else _rounded_up(ratio * len(view.ready))
        with_starting = total / (len(view.ready) + view.starting) / self.target
        if _within_tolerance(with_starting) or with_starting < 1:
            return view.wanted
        return max(view.wanted, _rounded_up(with_starting * (len(view.ready) + view.starting)))


@dataclass(frozen=True, slots=True)
class Total:
    """`type: External`, AverageValue: the total is divided by the wanted replicas, ready or not."""

    metric: PodMetric
    target: float

    def proposal(self, view: PeerView) -> int | None:
        if not view.ready:
            return None
        total = fsum(self.metric(replica) for replica in view.ready)
        return (
            view.wanted if _within_tolerance(total / (self.target * view.wanted)) else _rounded_up(total / self.target)
        )


@dataclass(frozen=True, slots=True)
class Cron:
    """KEDA's cron trigger, an External metric with target 1: desiredReplicas inside a window, 1 outside."""

    windows: tuple[tuple[float, float], ...]
    """Begin and end of each window, in seconds since the run began."""
    desired: int

    def proposal(self, view: PeerView) -> int | None:
        inside = any(begin <= view.now < end for begin, end in self.windows)
        proposed = self.desired if inside else 1
        return view.wanted if _within_tolerance(proposed / view.wanted) else proposed


@dataclass(slots=True)
class HorizontalPodAutoscaler:
    """The HPA's default behaviour.

    It scales up at once, by at most the larger of 100 % and 4 pods per 15 s. It scales down to the highest proposal of
    the last 300 s.
    """

    name: str
    metrics: tuple[Metric, ...]
    period_seconds: float = 15.0
    down_window_seconds: float = 300.0
    _recommended: RecentValues = field(init=False)

    def __post_init__(self) -> None:
        self._recommended = RecentValues(self.down_window_seconds)

    def replicas(self, view: PeerView) -> int:
        proposals = [proposal for metric in self.metrics if (proposal := metric.proposal(view)) is not None]
        if not proposals:
            return view.wanted
        proposed = max(1, *proposals)
        self._recommended.begin(view.now, view.wanted)
        self._recommended.add(view.now, proposed)
        if proposed >= view.wanted:
            return min(proposed, max(2 * view.wanted, view.wanted + 4))
        return min(view.wanted, int(self._recommended.highest))


def _within_tolerance(ratio: float) -> bool:
    return abs(ratio - 1) <= TOLERANCE + 1e-12


def _rounded_up(replicas: float) -> int:
    return ceil(replicas - 1e-9)
