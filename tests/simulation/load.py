"""Loads for an engine in simulation tests, and measurements of its answers."""

import random
from dataclasses import dataclass
from heapq import heappop, heappush
from statistics import fmean

from forebay.simulation.engine.engine_stats import Completion, EngineRequest
from forebay.simulation.engine.replica_engine import EngineLimits, ReplicaEngine
from forebay.simulation.engine.simulated_profile import EngineProfile


def a_profile(**changes) -> EngineProfile:
    """Round numbers for sums by hand: a 10 ms step, 1 ms per prompt token, 2 ms per sequence, 0.1 ms per KV token."""
    values = {
        "step_seconds": 0.010,
        "prompt_token_seconds": 0.001,
        "sequence_seconds": 0.002,
        "kv_token_seconds": 0.0001,
        "kv_tokens": 16_000,
        "request_overhead_seconds": 0.0,
    }
    return EngineProfile(**(values | changes))


def a_request(name: str, prompt: int, output: int, at: float = 0.0, cached: int = 0) -> EngineRequest:
    return EngineRequest(id=name, prompt_tokens=prompt, output_tokens=output, arrival=at, cached_tokens=cached)


@dataclass(frozen=True)
class Measured:
    """The figures that a load generator would print."""

    requests_per_second: float
    tokens_per_second: float
    first_token_seconds: float
    token_seconds: float


def closed_loop(engine: ReplicaEngine, streams: int, prompt: int, output: int, requests: int) -> Measured:
    """Run `streams` clients that each send the next request when the last is done; the ramp-up is left out.

    Their starts are spread over the duration of one request. Otherwise all would prefill in the same step for ever.
    """
    profile = engine.profile
    apart = (output * profile.step_seconds + profile.work_seconds(prompt, output) * streams) / streams
    arrivals = [stream * apart for stream in range(streams)]
    sent = 0
    done: list[Completion] = []
    while len(done) < requests:
        event = engine.next_event_time
        if arrivals and (event is None or arrivals[0] <= event):
            finished = engine.advance(arrivals[0])
            engine.submit(a_request(f"r{sent}", prompt, output, heappop(arrivals)))
            sent += 1
        else:
            finished = engine.advance(event or 0.0)
        for completion in finished:
            done.append(completion)
            heappush(arrivals, completion.finished)
    steady = done[2 * streams :]
    span = steady[-1].finished - done[2 * streams - 1].finished
    return Measured(
        requests_per_second=len(steady) / span,
        tokens_per_second=sum(completion.tokens for completion in steady) / span,
        first_token_seconds=fmean(completion.first_token_seconds or 0 for completion in steady),
        token_seconds=fmean(completion.token_seconds or 0 for completion in steady),
    )


def poisson(rate: float, seconds: float, prompt: int, output: int, seed: int = 7) -> list[EngineRequest]:
    """Requests of one size that arrive at random."""
    draw = random.Random(seed)
    requests: list[EngineRequest] = []
    time = draw.expovariate(rate)
    while time < seconds:
        requests.append(a_request(f"p{len(requests)}", prompt, output, time))
        time += draw.expovariate(rate)
    return requests


def run(engine: ReplicaEngine, requests: list[EngineRequest]) -> list[Completion]:
    """Submit all requests and return their completions."""
    for request in requests:
        engine.submit(request)
    return engine.advance(1e9)


def limits(**changes) -> EngineLimits:
    return EngineLimits(**changes)
