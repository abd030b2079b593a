"""The counters and histograms of one engine since its start, from which vLLM's `/metrics` is written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from forebay.capacity.model.replica_model import Promise
from forebay.simulation.engine.histogram import (
    FIRST_TOKEN_BOUNDS,
    INTER_TOKEN_BOUNDS,
    PREEMPTION_BOUNDS,
    REQUEST_BOUNDS,
    STEP_TOKEN_BOUNDS,
    BucketHistogram,
    token_bounds,
)

FinishReason = Literal["stop", "length", "abort"]
UNBOUNDED_CONTEXT: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class EngineRequest:
    """One request as the engine handles it: token counts and an arrival time, no text."""

    id: str
    prompt_tokens: int
    output_tokens: int
    arrival: float
    """Seconds on the engine's clock."""
    cached_tokens: int = 0
    """Prompt tokens found in the prefix cache. They are not computed again, but they hold KV blocks and are read."""
    stop_reason: FinishReason = "length"
    """The finish reason that the engine reports with the last token."""


@dataclass(frozen=True, slots=True)
class Completion:
    """The end of one request and its times, in seconds on the engine's clock."""

    request: EngineRequest
    reason: FinishReason
    tokens: int
    """Answer tokens that were generated."""
    finished: float
    scheduled: float | None = None
    """When the request first entered a batch; None if it ended before that."""
    first_token: float | None = None
    preemptions: int = 0

    @property
    def first_token_seconds(self) -> float | None:
        """TTFT: arrival to first token."""
        return None if self.first_token is None else self.first_token - self.request.arrival

    @property
    def token_seconds(self) -> float | None:
        """Mean time between tokens (TPOT); None below two tokens."""
        if self.first_token is None or self.tokens < 2:
            return None
        return (self.finished - self.first_token) / (self.tokens - 1)

    def in_time(self, promise: Promise, allowed_seconds: float = 0.0) -> bool:
        """Whether this request kept the promise; its first token may come `allowed_seconds` later than promised."""
        first = self.first_token_seconds
        return (
            first is not None
            and first <= promise.time_to_first_token + allowed_seconds
            and (self.token_seconds or 0.0) <= promise.inter_token_latency
            and (promise.end_to_end is None or self.finished - self.request.arrival <= promise.end_to_end)
        )


class EngineStats:
    """Counters and histograms of one engine. They only grow; a restarted engine begins at zero, as vLLM does."""

    def __init__(self, max_model_len: int = UNBOUNDED_CONTEXT, *, every_histogram: bool = True) -> None:
        """Without `every_histogram`, only the histograms that Forebay's telemetry reads are kept. This halves the time
        of a simulation."""
        self._every_histogram = every_histogram
        tokens = token_bounds(max_model_len)
        self.prompt_tokens = 0
        """Prompt tokens, counted when their prefill ends. Cached tokens are included, recomputed ones are not."""
        self.cached_tokens = 0
        self.queried_tokens = 0
        """Prompt tokens looked up in the prefix cache, counted at admission to the batch."""
        self.generation_tokens = 0
        self.preemptions = 0
        self.finished: dict[str, int] = {"stop": 0, "length": 0, "abort": 0}
        self.first_token_seconds = BucketHistogram(FIRST_TOKEN_BOUNDS)
        self.token_seconds = BucketHistogram(INTER_TOKEN_BOUNDS)
        self.step_tokens = BucketHistogram(STEP_TOKEN_BOUNDS)
        """Tokens of each engine step with output: prompt tokens whose prefill ended plus generated tokens."""
        self.request_token_seconds = BucketHistogram(INTER_TOKEN_BOUNDS)
        self.end_to_end_seconds = BucketHistogram(REQUEST_BOUNDS)
        self.queue_seconds = BucketHistogram(REQUEST_BOUNDS)
        self.inference_seconds = BucketHistogram(REQUEST_BOUNDS)
        self.prefill_seconds = BucketHistogram(REQUEST_BOUNDS)
        self.decode_seconds = BucketHistogram(REQUEST_BOUNDS)
        self.request_prompt_tokens = BucketHistogram(tokens)
        self.request_generation_tokens = BucketHistogram(tokens)
        self.request_max_tokens = BucketHistogram(tokens)
        self.request_computed_tokens = BucketHistogram(tokens)
        self.request_preemptions = BucketHistogram(PREEMPTION_BOUNDS)

    def record(self, completion: Completion, queued: float) -> None:
        """Count a finished request. vLLM, too, adds a request to its per-request histograms only at the end.

        `queued` is when the request reached the engine's waiting queue. Phases that an aborted request never reached
        are left out.
        """
        self.finished[completion.reason] += 1
        if completion.scheduled is not None:
            self.queue_seconds.observe(completion.scheduled - queued)
        self.request_prompt_tokens.observe(completion.request.prompt_tokens)
        self.request_generation_tokens.observe(completion.tokens)
        if self._every_histogram:
            self._record_details(completion)

    def _record_details(self, completion: Completion) -> None:
        request = completion.request
        self.end_to_end_seconds.observe(completion.finished - request.arrival)
        self.request_max_tokens.observe(request.output_tokens)
        self.request_computed_tokens.observe(request.prompt_tokens - request.cached_tokens)
        self.request_preemptions.observe(completion.preemptions)
        if completion.scheduled is None:
            return
        self.inference_seconds.observe(completion.finished - completion.scheduled)
        if completion.first_token is None:
            return
        self.prefill_seconds.observe(completion.first_token - completion.scheduled)
        self.decode_seconds.observe(completion.finished - completion.first_token)
        self.request_token_seconds.observe(completion.token_seconds or 0.0)
