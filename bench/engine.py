"""Measures how fast the replica engine simulates, against the same engine step by step: `python bench/engine.py`.

Both engines get the same requests in one run, so the ratio of their CPU time compares across machines.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path
from time import process_time

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "operator"), str(ROOT)]

from bench.naive_engine import NaiveEngine  # noqa: E402
from forebay.simulation.engine.engine_stats import EngineRequest  # noqa: E402
from forebay.simulation.engine.replica_engine import EngineLimits, ReplicaEngine  # noqa: E402
from forebay.simulation.engine.simulated_profile import BUILT_IN  # noqa: E402

REQUESTS = 4_000
LIMITS = EngineLimits(max_num_seqs=1024, max_num_batched_tokens=8192)


def requests(rate: float, prompt: int, output: int) -> list[EngineRequest]:
    """Poisson arrivals with one prompt and output length."""
    draw = random.Random(1)
    time, generated = 0.0, []
    for index in range(REQUESTS):
        time += draw.expovariate(rate)
        generated.append(EngineRequest(str(index), prompt, output, time))
    return generated


def event_driven(stream: list[EngineRequest]) -> tuple[float, float]:
    """Seconds of CPU that the replica engine needs, and the simulated time of the last finish."""
    engine = ReplicaEngine(BUILT_IN["8b-h100"], LIMITS)
    start = process_time()
    for request in stream:
        engine.advance(request.arrival)
        engine.submit(request)
    finished = engine.advance(1e9)
    return process_time() - start, finished[-1].finished


def step_by_step(stream: list[EngineRequest]) -> tuple[float, float]:
    """The same for the step-by-step engine."""
    engine = NaiveEngine(BUILT_IN["8b-h100"], LIMITS)
    start = process_time()
    finished = engine.run(stream)
    return process_time() - start, finished[-1].finished or 0.0


def main() -> None:
    """Print one row per load."""
    print(f"{REQUESTS} requests, 8B on an H100; CPU time")
    for rate, prompt, output in ((5, 500, 200), (20, 500, 200), (45, 500, 200), (10, 1155, 211), (3, 500, 1500)):
        stream = requests(rate, prompt, output)
        fast, fast_end = event_driven(stream)
        slow, slow_end = step_by_step(stream)
        if abs(fast_end - slow_end) > 1e-6:
            raise SystemExit(f"the engines disagree: {fast_end} s and {slow_end} s")
        print(
            f"{rate:>3} req/s {prompt:>5}/{output:<5} {REQUESTS / fast:>8,.0f} requests/s "
            f"({fast / REQUESTS * 1e6:.0f} µs each), {slow / fast:.0f}× the step-by-step loop"
        )


if __name__ == "__main__":
    main()
