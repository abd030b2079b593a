"""The sample that a scrape of a simulated engine gives, built without writing a metrics page and parsing it.

A simulated hour scrapes thousands of times, so this saves most of the cost. A test compares the sample with the one
that telemetry reads from the same engine's page. Scenarios about broken metrics do go through the page.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import accumulate
from math import inf

from forebay.scaling.load.signals import EngineSample
from forebay.scaling.load.signals import HistogramSample as Scraped
from forebay.simulation.engine.histogram import BucketHistogram
from forebay.simulation.engine.replica_engine import ReplicaEngine


def sample_of_engine(engine: ReplicaEngine, taken_at: float) -> EngineSample:
    """The sample at the engine's `now`; `taken_at` is the same time in Unix seconds."""
    stats = engine.stats
    return EngineSample(
        taken_at=taken_at,
        running_requests=float(engine.running),
        waiting_requests=float(engine.waiting),
        kv_fraction=engine.kv_fraction,
        engine_steps=float(stats.step_tokens.count),
        prompt_tokens=float(stats.prompt_tokens),
        generation_tokens=float(stats.generation_tokens),
        finished_requests=float(sum(stats.finished.values())),
        finished_prompt_tokens=stats.request_prompt_tokens.total,
        finished_output_tokens=stats.request_generation_tokens.total,
        rejected_requests=0.0,
        preemptions=float(stats.preemptions),
        time_to_first_token=_scraped(stats.first_token_seconds),
        inter_token_latency=_scraped(stats.token_seconds),
        queue_time=_scraped(stats.queue_seconds),
        kv_cache_tokens=(engine.blocks.usable + 1) * engine.blocks.size,
    )


def _scraped(histogram: BucketHistogram) -> Scraped:
    return Scraped(
        bounds=_bounds(tuple(histogram.bounds)),
        counts=tuple(map(float, accumulate(histogram.counts))),
        sum=histogram.total,
    )


@lru_cache(maxsize=64)
def _bounds(bounds: tuple[float, ...]) -> tuple[float, ...]:
    return (*bounds, inf)
