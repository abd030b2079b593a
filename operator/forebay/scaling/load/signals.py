"""What one scrape of one pod tells, already summed over its data-parallel engines.

Telemetry fills these; scaling reads them. A value that the pod did not report is `None`, never 0: a ready pod that
answers but lacks a gauge has no load (vLLM's multiprocess mode exports gauges only once set), and telemetry says so by
0; a pod that did not answer has no sample at all.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HistogramSample:
    """A Prometheus histogram: `counts[i]` observations were ≤ `bounds[i]` (cumulative; the last bound is infinity)."""

    bounds: tuple[float, ...]
    counts: tuple[float, ...]
    sum: float

    @property
    def count(self) -> float:
        return self.counts[-1] if self.counts else 0.0


@dataclass(frozen=True, slots=True)
class EngineSample:
    """One scrape of one pod at `taken_at` (unix seconds). Counters are totals since the process started."""

    taken_at: float
    running_requests: float
    waiting_requests: float
    """Waiting for capacity only: requests deferred for an adapter or remote KV would not start sooner elsewhere."""
    kv_fraction: float
    """0 to 1; the fullest of the pod's engines, since one full rank preempts."""
    engine_steps: float | None = None
    """Steps so far; a busy engine whose steps stand still is stalled."""
    prompt_tokens: float | None = None
    """Computed here; from a version that tells them apart, without those that a cache spared."""
    generation_tokens: float | None = None
    finished_requests: float | None = None
    finished_prompt_tokens: float | None = None
    """Prompt tokens of the requests that have finished, those that a prefix cache spared included."""
    finished_output_tokens: float | None = None
    """Answer tokens of the requests that have finished."""
    rejected_requests: float | None = None
    preemptions: float | None = None
    time_to_first_token: HistogramSample | None = None
    inter_token_latency: HistogramSample | None = None
    queue_time: HistogramSample | None = None
    kv_cache_tokens: int | None = None
    missing: tuple[str, ...] = ()
    """Names of series that this engine version should have and the answer lacked."""
    deferred_requests: float = 0.0
    """Waiting for an adapter or for remote KV: no reason to scale, but work that a drain has to wait for."""

    @property
    def in_flight(self) -> float:
        """Everything the pod has accepted and not finished."""
        return self.running_requests + self.waiting_requests + self.deferred_requests


@dataclass(frozen=True, slots=True)
class PodSignals:
    """The last good sample of a pod, and what happened on the last attempt."""

    sample: EngineSample | None
    error: str | None = None
    """Why the last attempt gave nothing, in words; None when it succeeded."""
