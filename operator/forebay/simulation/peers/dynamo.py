"""The SLA planner of NVIDIA Dynamo: a floor from throughput, corrected by load.

Rules: ai-dynamo/dynamo `sla_planner.md`, `load_scaling.py`, `throughput_scaling.py`, `defaults.py`. The next interval
is predicted by Dynamo's `constant` predictor. ARIMA, Dynamo's default, did no better on these traces: a constant last
value is the best or second best forecast at 10 and 30 minutes in every trace that was tried.
"""

from dataclasses import dataclass, field
from math import ceil

from forebay.simulation.peers.assumed_engine import AssumedEngine
from forebay.simulation.peers.peer_view import PeerView


@dataclass(slots=True)
class DynamoPlanner:
    engine: AssumedEngine
    first_token_seconds: float = 0.5
    inter_token_seconds: float = 0.05
    throughput_every_seconds: float = 180.0
    sensitivity: float = 0.8
    """A replica is removed only if the latencies predicted without it stay within this share of the promise."""
    by_load: bool = True
    """Whether load mode is on, in addition to throughput mode."""
    name: str = "Dynamo planner"
    period_seconds: float = 5.0
    _planned_at: float | None = field(init=False, default=None)
    _floor: int = field(init=False, default=1)

    def replicas(self, view: PeerView) -> int:
        if self._planned_at is None or view.now - self._planned_at >= self.throughput_every_seconds:
            self._planned_at, self._floor = view.now, self._by_throughput(view)
        return max(self._floor, self._by_load(view)) if self.by_load else self._floor

    def _by_throughput(self, view: PeerView) -> int:
        capacity = 0.0
        if view.output_tokens > 0:
            limit = self.inter_token_seconds
            capacity = self.engine.requests_per_second(view.prompt_tokens, view.output_tokens, limit)
        return max(1, ceil(view.requests_per_second / capacity - 1e-9)) if capacity > 0 else max(1, view.wanted)

    def _by_load(self, view: PeerView) -> int:
        """One replica more or less; no change while an earlier change is in progress."""
        n = len(view.ready)
        if n == 0 or view.starting or n != view.wanted:
            return view.wanted
        if all(self._exceeds(view, index, 1.0, 1.0) for index in range(n)):
            return n + 1
        if n > 1 and not any(self._exceeds(view, index, n / (n - 1), self.sensitivity) for index in range(n)):
            return n - 1
        return n

    def _exceeds(self, view: PeerView, index: int, times: float, share: float) -> bool:
        replica = view.ready[index]
        first = self.engine.first_token_seconds(replica, view.prompt_tokens) * times
        between = self.engine.inter_token_seconds(replica, times)
        return first > share * self.first_token_seconds or between > share * self.inter_token_seconds
