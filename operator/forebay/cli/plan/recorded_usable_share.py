"""The usable share φ for recorded lengths: the share of the mean-value capacity that keeps 99 % of requests in time.

The mean lengths do not show how much a few long prompts delay the tokens of all other requests. So the simulated engine
plays requests of the recorded lengths, at random times and at different rates, and a bisection finds the share.
"""

import random
from collections.abc import Sequence
from dataclasses import replace

from forebay.capacity.model.replica_model import EngineModel, Mix, Promise, capacity
from forebay.simulation.engine.engine_stats import Completion, EngineRequest
from forebay.simulation.engine.replica_engine import EngineLimits, ReplicaEngine

REQUESTS = 3000
"""Requests played at each rate; the first fifth fills the engine and is not counted."""
IN_TIME = 0.99
LARGEST, SMALLEST = 1.0, 0.05
STEPS = 6
"""Halvings of the interval, which leave the share known to within 0.015."""


def usable_share(
    engine: EngineModel, mix: Mix, promise: Promise, lengths: Sequence[tuple[float, float]], chunk: int
) -> float:
    """The usable share φ; `SMALLEST` when even that share does not keep enough requests in time."""
    rate = capacity(replace(engine, usable_share=1.0), mix, promise).requests_per_second
    low, high = SMALLEST, LARGEST
    for _ in range(STEPS):
        middle = (low + high) / 2
        in_time = _share_in_time(engine, promise, lengths, rate * middle, chunk) >= IN_TIME
        low, high = (middle, high) if in_time else (low, middle)
    return low


def _share_in_time(
    engine: EngineModel, promise: Promise, lengths: Sequence[tuple[float, float]], rate: float, chunk: int
) -> float:
    simulated = ReplicaEngine(engine.profile, EngineLimits(engine.max_num_seqs, max(chunk, engine.max_num_seqs)))
    draw = random.Random(1)
    arrival, completions = 0.0, list[Completion]()
    for index in range(REQUESTS):
        arrival += draw.expovariate(rate)
        prompt, output = lengths[draw.randrange(len(lengths))]
        completions += simulated.advance(arrival)
        request = EngineRequest(str(index), max(1, round(prompt)), max(1, round(output)), arrival)
        if request.prompt_tokens + request.output_tokens <= engine.kv_tokens:
            simulated.submit(request)
    completions += simulated.advance(arrival + 1e6)
    counted = [completion for completion in completions if int(completion.request.id) >= REQUESTS // 5]
    return sum(completion.in_time(promise) for completion in counted) / len(counted)
