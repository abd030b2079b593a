"""The oracle: the fewest replicas that a scaler could run if it knew the future. It bounds what any scaler can achieve.

need(t) is the fewest replicas, idle at the start, that keep the promise in a discrete-event run of the true arrivals of
t ± 30 s. Requests that an idle replica could not serve in time are left out. A replica that is needed at t must be
created a cold start earlier, so the fleet at t is the largest need of [t, t + cold start]; it shrinks at once.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import ceil

from forebay.capacity.model.replica_model import Promise
from forebay.simulation.cluster.policy import PolicyView
from forebay.simulation.cluster.scrape_model import ScrapeTiming
from forebay.simulation.cluster.served_model import ServedModel
from forebay.simulation.compare.outcome import possible, prompt_and_computed_tokens
from forebay.simulation.engine.engine_router import play_requests
from forebay.simulation.engine.engine_stats import EngineRequest
from forebay.simulation.engine.replica_engine import ReplicaEngine
from forebay.simulation.traffic.traces import Trace

WINDOW_SECONDS = 60.0
IN_TIME = 0.995
"""The share of a window's requests that must be in time, which the benchmark demands of every scaler."""


@dataclass(frozen=True, slots=True)
class Needs:
    """need(t) at 0, step, 2·step, … seconds."""

    step_seconds: float
    counts: tuple[int, ...]

    def fleet(self, cold_start_seconds: float) -> Needs:
        """The largest need of [t, t + cold start] at each step: replicas that must be ready or loading."""
        window = ceil(cold_start_seconds / self.step_seconds) + 1
        counts = tuple(max(self.counts[index : index + window]) for index in range(len(self.counts)))
        return Needs(self.step_seconds, counts)

    def at(self, seconds: float) -> int:
        return self.counts[min(max(0, int(seconds / self.step_seconds)), len(self.counts) - 1)]

    def replica_hours(self, seconds: float) -> float:
        """Replica-hours of the first `seconds`."""
        steps = min(len(self.counts), ceil(seconds / self.step_seconds))
        return sum(self.counts[:steps]) * self.step_seconds / 3600


def needs(
    trace: Trace,
    model: ServedModel,
    promise: Promise,
    *,
    seconds: float,
    min_replicas: int = 1,
    max_replicas: int = 1000,
    step_seconds: float = 30.0,
) -> Needs:
    """need(t) of a trace, within the bounds of the service. Raises ValueError if no request could be served in time."""
    feasible = possible(model, trace, promise)
    if len(trace) and not feasible.any():
        raise ValueError(f"{trace.name}: no request could be served in time even by an idle replica")
    kept = trace.where(feasible, "requests that an idle replica could not serve in time are left out")
    times: list[float] = kept.times.tolist()
    allowed: list[float] = model.allowed(*prompt_and_computed_tokens(kept)).tolist()
    counts: list[int] = []
    guess = min_replicas
    for index in range(ceil(seconds / step_seconds)):
        middle = (index + 0.5) * step_seconds
        window = range(bisect_left(times, middle - WINDOW_SECONDS / 2), bisect_left(times, middle + WINDOW_SECONDS / 2))
        guess = _fewest(
            partial(_keeps_promise, kept, window, model, promise, allowed), guess, min_replicas, max_replicas
        )
        counts.append(guess)
    return Needs(step_seconds, tuple(counts))


def _fewest(kept: Callable[[int], bool], guess: int, min_replicas: int, max_replicas: int) -> int:
    """The fewest replicas that keep the promise. The search starts at the previous window's need, usually close."""
    if kept(guess):
        while guess > min_replicas and kept(guess - 1):
            guess -= 1
        return guess
    low, step = guess, 1
    while low + step < max_replicas and not kept(low + step):
        low, step = low + step, 2 * step
    high = min(max_replicas, low + step)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if kept(middle) else (middle, high)
    return high


def _keeps_promise(
    trace: Trace, window: range, model: ServedModel, promise: Promise, allowed: Sequence[float], count: int
) -> bool:
    """Whether `count` replicas, idle at the start, serve `IN_TIME` of the window's requests in time."""
    if not window:
        return True
    engines = [ReplicaEngine(model.profile, model.limits, every_histogram=False) for _ in range(count)]
    for engine in engines:
        engine.advance(float(trace.times[window.start]))
    done = play_requests(engines, (_request(trace, index) for index in window))
    in_time = sum(completion.in_time(promise, allowed[int(completion.request.id)]) for completion in done)
    return in_time >= IN_TIME * len(window)


def _request(trace: Trace, index: int) -> EngineRequest:
    prompt, output = int(trace.prompt_tokens[index]), int(trace.output_tokens[index])
    cached = 0 if trace.cached_tokens is None else min(int(trace.cached_tokens[index]), prompt - 1)
    return EngineRequest(str(index), prompt, output, float(trace.times[index]), cached)


class Oracle:
    """A policy that runs the fleet of `Needs` in the same cluster as all others. Only the oracle knows the trace."""

    name, version, period_seconds = "oracle", "1", 10.0

    def __init__(self, fleet: Needs) -> None:
        self.fleet = fleet
        self.scrape = ScrapeTiming()

    def decide(self, view: PolicyView) -> int:
        return self.fleet.at(view.now)


def static_peak(counts: Needs, quantile: float = 0.999) -> int:
    """Replicas that suffice for a share `quantile` of the time."""
    ordered = sorted(counts.counts)
    return ordered[max(0, ceil(quantile * len(ordered)) - 1)]
