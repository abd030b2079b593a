"""The SLA planner of NVIDIA Dynamo: a floor from throughput, corrected by load.

Rules: ai-dynamo/dynamo `sla_planner.md`, `load_scaling.py`, `throughput_scaling.py`, `defaults.py`. The predictor of
the next interval is its `constant` one; ARIMA, its default, did no better on these traces (a constant last value is
the best or second best forecast at 10 and 30 minutes in every trace that was tried).
"""

from dataclasses import dataclass, field
from math import ceil

from forebay.simulation.peers.assumed_engine import Believed
from forebay.simulation.peers.peer_view import PeerView


@dataclass(slots=True)
class DynamoPlanner:
    believed: Believed
    first_token_seconds: float = 0.5
    inter_token_seconds: float = 0.05
    throughput_every_seconds: float = 180.0
    sensitivity: float = 0.8
    """A replica less only while what is predicted then stays within this share of the promise."""
    by_load: bool = True
    """Load mode on top of throughput mode."""
    name: str = "Dynamo planner"
    period_seconds: float = 5.0
    _planned_at: float | None = field(init=False, default=None)
    _floor: int = field(init=False, default=1)

    def replicas(self, sight: PeerView) -> int:
        if self._planned_at is None or sight.now - self._planned_at >= self.throughput_every_seconds:
            self._planned_at, self._floor = sight.now, self._by_throughput(sight)
        return max(self._floor, self._by_load(sight)) if self.by_load else self._floor

    def _by_throughput(self, sight: PeerView) -> int:
        each = 0.0
        if sight.output_tokens > 0:
            limit = self.inter_token_seconds
            each = self.believed.requests_per_second(sight.prompt_tokens, sight.output_tokens, limit)
        return max(1, ceil(sight.requests_per_second / each - 1e-9)) if each > 0 else max(1, sight.wanted)

    def _by_load(self, sight: PeerView) -> int:
        """No step while one is under way."""
        n = len(sight.ready)
        if n == 0 or sight.starting or n != sight.wanted:
            return sight.wanted
        if all(self._late(sight, index, 1.0, 1.0) for index in range(n)):
            return n + 1
        if n > 1 and not any(self._late(sight, index, n / (n - 1), self.sensitivity) for index in range(n)):
            return n - 1
        return n

    def _late(self, sight: PeerView, index: int, times: float, share: float) -> bool:
        replica = sight.ready[index]
        first = self.believed.first_token_seconds(replica, sight.prompt_tokens) * times
        between = self.believed.inter_token_seconds(replica, times)
        return first > share * self.first_token_seconds or between > share * self.inter_token_seconds
