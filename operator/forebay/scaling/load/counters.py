"""Counters: whether those of a sample can follow those of the sample before it.

The counters of an engine only grow while its process lives, and no faster than an engine can work. Two processes that
answer on one port, a page from a cache or a broken exporter violate that. Such counters give no rates, however
plausible each single value is.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf
from operator import attrgetter
from typing import Final

from forebay.scaling.load.signals import EngineSample

MOST_TOKENS: Final = 10_000_000.0
"""Largest number of tokens of one request, as in the API."""
MOST_TOKENS_PER_SECOND: Final = 1_000_000.0
"""More output than all engines of any pod generate."""
MOST_STEPS_PER_SECOND: Final = 10_000.0
"""More steps than all engines of any pod make."""
PROFILE_SLACK: Final = 3.0
"""How many times faster than its profile an engine may be."""
LONGEST_PAUSE_SECONDS: Final = 60.0
"""Longest time without a token of a request before the interval that shows its next one."""
JITTER_SECONDS: Final = 1.0
"""How much longer than the time between two samples their counters may have counted."""
FELL: Final = "its counters fell although its container did not restart"
INVALID: Final = "its counters are not numbers from 0 up"
FAST: Final = "its counters rose faster than an engine can work"


@dataclass(frozen=True, slots=True)
class EngineBounds:
    """What the engines of one pod can do at most."""

    max_model_len: float = MOST_TOKENS
    """Tokens of one request, prompt and output together."""
    steps_per_second: float = MOST_STEPS_PER_SECOND
    output_tokens_per_second: float = MOST_TOKENS_PER_SECOND


ANY_ENGINE: Final = EngineBounds()


def why_invalid(sample: EngineSample) -> str:
    """Why no process can have these counters; empty when one can."""
    return _invalid(_counters(sample))


def why_implausible(earlier: EngineSample, later: EngineSample, bounds: EngineBounds) -> str:
    """Why the counters of `later` cannot follow those of `earlier` in one process; empty when they can."""
    counters = _counters(later)
    if invalid := _invalid(counters):
        return invalid
    rises = [
        None if before is None or after is None else after - before
        for before, after in zip(_counters(earlier), counters, strict=True)
    ]
    for rise in rises:
        if rise is not None and rise < 0:
            return FELL
    return FAST if _too_fast(rises, earlier, later, bounds) else ""


def without_counters(sample: EngineSample) -> EngineSample:
    """The sample with its gauges alone."""
    return replace(
        sample,
        engine_steps=None,
        prompt_tokens=None,
        generation_tokens=None,
        finished_requests=None,
        finished_prompt_tokens=None,
        finished_output_tokens=None,
        rejected_requests=None,
        preemptions=None,
        time_to_first_token=None,
        inter_token_latency=None,
        queue_time=None,
    )


_of_engine: Final = attrgetter(
    "engine_steps",
    "prompt_tokens",
    "generation_tokens",
    "finished_requests",
    "finished_prompt_tokens",
    "finished_output_tokens",
    "rejected_requests",
    "preemptions",
)


Counters = tuple[float | None, ...]


def _counters(sample: EngineSample) -> Counters:
    latency = sample.inter_token_latency
    return (*_of_engine(sample), None if latency is None else latency.sum)


def _invalid(counters: Counters) -> str:
    # A loop instead of a generator: every sample of every pod comes through here.
    for value in counters:
        if value is not None and not 0 <= value < inf:
            return INVALID
    return ""


def _too_fast(rises: Sequence[float | None], earlier: EngineSample, later: EngineSample, bounds: EngineBounds) -> bool:
    """Whether a counter rose by more than an engine can do between the two samples; `rises` are in their order."""
    seconds = later.taken_at - earlier.taken_at + JITTER_SECONDS
    steps, prompts, generated, finished, finished_prompts, finished_outputs, _, _, token_seconds = rises
    # A prompt is computed before its request finishes, so requests in flight may have added theirs.
    # The times between its tokens add up to the time of a request, and that before the interval if it paused.
    open_requests = inf if finished is None else finished + max(earlier.in_flight, later.in_flight)
    tokens = _longest_request(later, bounds)
    finished_tokens = (inf if finished is None else finished) * tokens
    return (
        (steps or 0.0) > bounds.steps_per_second * seconds
        or (generated or 0.0) > bounds.output_tokens_per_second * seconds
        or (prompts or 0.0) > open_requests * tokens
        or (token_seconds or 0.0) > (open_requests or inf) * (seconds + LONGEST_PAUSE_SECONDS)
        or (finished_prompts or 0.0) > finished_tokens
        or (finished_outputs or 0.0) > finished_tokens
    )


def _longest_request(sample: EngineSample, bounds: EngineBounds) -> float:
    """Tokens of the longest request. vLLM does not start unless one request of max-model-len fits into its KV cache."""
    return min(bounds.max_model_len, sample.kv_cache_tokens or inf)
