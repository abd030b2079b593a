"""Signals: the values of one scrape of one pod, summed over its data-parallel engines.

Telemetry creates them; scaling reads them. A value that the pod did not report is `None`, never 0. One exception is a
ready pod that answers without a load gauge: it has no load, since vLLM's multiprocess mode exports gauges only once
set, and telemetry reports 0. A pod that did not answer has no sample at all.
"""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HistogramSample:
    """A Prometheus histogram: `counts[i]` observations were ≤ `bounds[i]` (cumulative; the last bound is infinity).

    An operator keeps half a dozen samples of each of 10,000 pods, so the counts are an array, a third of the size of a
    tuple of floats.
    """

    bounds: tuple[float, ...]
    counts: Sequence[float]
    sum: float

    def __post_init__(self) -> None:
        if not isinstance(self.counts, array):
            object.__setattr__(self, "counts", array("d", self.counts))

    @property
    def count(self) -> float:
        return self.counts[-1] if self.counts else 0.0


@dataclass(frozen=True, slots=True)
class EngineSample:
    """One scrape of one pod at `taken_at` (unix seconds). Counters are totals since the process started."""

    taken_at: float
    running_requests: float
    waiting_requests: float
    """Requests that wait for capacity. Those deferred for an adapter or remote KV are not included, since they would
    not start sooner on another replica."""
    kv_fraction: float
    """KV use of the fullest of the pod's engines, 0 to 1, since one full engine preempts requests."""
    engine_steps: float | None = None
    """Counter of steps; a busy engine whose counter does not change is stalled."""
    prompt_tokens: float | None = None
    """Prompt tokens that this pod computed. Versions that count cached tokens separately leave those out."""
    generation_tokens: float | None = None
    finished_requests: float | None = None
    finished_prompt_tokens: float | None = None
    """Prompt tokens of finished requests, those found in a prefix cache included."""
    finished_output_tokens: float | None = None
    """Output tokens of finished requests."""
    rejected_requests: float | None = None
    preemptions: float | None = None
    time_to_first_token: HistogramSample | None = None
    inter_token_latency: HistogramSample | None = None
    queue_time: HistogramSample | None = None
    kv_cache_tokens: int | None = None
    missing: tuple[str, ...] = ()
    """Names of series that this engine version should export and the scrape lacks."""
    deferred_requests: float = 0.0
    """Requests that wait for an adapter or for remote KV: no reason to scale up, but a drain has to wait for them."""

    @property
    def in_flight(self) -> float:
        """Everything the pod has accepted and not finished."""
        return self.running_requests + self.waiting_requests + self.deferred_requests


@dataclass(frozen=True, slots=True)
class PodSignals:
    """The last good sample of a pod, and the error of the last scrape."""

    sample: EngineSample | None
    error: str | None = None
    """Why the last scrape failed, in words; None when it succeeded."""
