"""The workload-variant-autoscaler of llm-d (WVA): its saturation rule and the second version of that rule.

Rules: llm-d/llm-d-workload-variant-autoscaler `docs/saturation-analyzer.md` and the saturation_v2 sources. Both are
applied by an HPA whose windows the chart sets to 240 s both ways.
"""

from dataclasses import dataclass, field
from math import ceil, floor, fsum
from typing import Protocol

from forebay.simulation.peers.assumed_engine import AssumedEngine
from forebay.simulation.peers.peer_view import PeerView
from forebay.simulation.peers.sliding_window import RecentValues

APPLIED_AFTER_SECONDS = 240.0


class Analyzer(Protocol):
    """Proposes a replica count; the HPA that reads it decides when to act on it."""

    def proposal(self, view: PeerView) -> int: ...


@dataclass(slots=True)
class HpaApplied:
    """An analyzer behind an HPA: it scales up to the lowest and down to the highest proposal of its window."""

    name: str
    analyzer: Analyzer
    window_seconds: float = APPLIED_AFTER_SECONDS
    period_seconds: float = 15.0
    """Period of the HPA."""
    analyzed_every_seconds: float = 60.0
    _proposals: RecentValues = field(init=False)
    _analyzed_at: float | None = field(init=False, default=None)
    _proposal: int = field(init=False, default=1)

    def __post_init__(self) -> None:
        self._proposals = RecentValues(self.window_seconds)

    def replicas(self, view: PeerView) -> int:
        self._proposals.begin(view.now, view.wanted)
        if self._analyzed_at is None or view.now - self._analyzed_at >= self.analyzed_every_seconds:
            self._analyzed_at, self._proposal = view.now, max(1, self.analyzer.proposal(view))
        self._proposals.add(view.now, self._proposal)
        if self._proposal >= view.wanted:
            return max(view.wanted, int(self._proposals.lowest))
        return min(view.wanted, int(self._proposals.highest))


@dataclass(slots=True)
class SaturationAnalyzer:
    """Adds or removes one replica by the spare KV cache and queue of the replicas that are not saturated.

    It adds one when either falls below its threshold, and removes one when both would stay above with one fewer.
    """

    kv_saturated: float = 0.80
    queue_saturated: float = 5.0
    spare_kv: float = 0.10
    spare_queue: float = 3.0
    peak_seconds: float = 60.0
    _peaks: dict[str, tuple[RecentValues, RecentValues]] = field(init=False, default_factory=dict)

    def proposal(self, view: PeerView) -> int:
        peaks = self._observe_peaks(view)
        n = len(peaks)
        if n == 0:
            return view.wanted
        unsaturated = [(kv, queue) for kv, queue in peaks if kv < self.kv_saturated and queue < self.queue_saturated]
        kv, queue = self._spare_room(unsaturated, len(unsaturated))
        if kv < self.spare_kv or queue < self.spare_queue:
            return view.wanted if view.starting else n + 1
        if len(unsaturated) < 2 or view.starting:
            return view.wanted
        kv_left, queue_left = self._spare_room(unsaturated, len(unsaturated) - 1)
        return n - 1 if kv_left >= self.spare_kv and queue_left >= self.spare_queue else view.wanted

    def _observe_peaks(self, view: PeerView) -> list[tuple[float, float]]:
        self._peaks = {
            replica.name: self._peaks.get(replica.name)
            or (RecentValues(self.peak_seconds), RecentValues(self.peak_seconds))
            for replica in view.ready
        }
        for replica in view.ready:
            kv, queue = self._peaks[replica.name]
            kv.add(view.now, replica.kv_fraction)
            queue.add(view.now, replica.waiting)
        return [(kv.highest, queue.highest) for kv, queue in self._peaks.values()]

    def _spare_room(self, load: list[tuple[float, float]], over: int) -> tuple[float, float]:
        """Mean spare KV cache and queue if the load is spread over `over` replicas; 0 for no replicas."""
        if over == 0:
            return 0.0, 0.0
        kv, queue = (fsum(values) / over for values in zip(*load, strict=True))
        return self.kv_saturated - kv, self.queue_saturated - queue


@dataclass(frozen=True, slots=True)
class TokenAnalyzer:
    """The second version: it keeps demand over capacity, both in KV tokens, between two utilization targets."""

    engine: AssumedEngine
    up_at: float = 0.85
    down_at: float = 0.70
    kv_share: float = 0.80

    def proposal(self, view: PeerView) -> int:
        if not view.ready or view.prompt_tokens + view.output_tokens <= 0:
            return view.wanted
        capacity = self._capacity(view.prompt_tokens, view.output_tokens)
        used = fsum(replica.kv_fraction for replica in view.ready) * self.engine.profile.kv_tokens
        demand = used + view.waiting * view.prompt_tokens
        n, with_starting = len(view.ready), len(view.ready) + view.starting
        shortfall = demand / self.up_at - with_starting * capacity
        if shortfall > 0:
            return with_starting + ceil(shortfall / capacity)
        spare = n * capacity - demand / self.down_at
        return max(1, n - floor(spare / capacity)) if spare >= capacity and not view.starting else view.wanted

    def _capacity(self, prompt: float, output: float) -> float:
        """KV tokens of one replica, limited by memory or by the number of sequences that its steps can serve."""
        tokens_per_sequence = prompt + output / 2
        sequences = min(self.engine.batched_tokens * output / (prompt + output), self.engine.max_num_seqs)
        return min(self.kv_share * self.engine.profile.kv_tokens, sequences * tokens_per_sequence)
