"""Measures φ for many mixes with the simulated engine: `python -m bench.usable_share` takes a few minutes.

φ is the share of the mean-value capacity at which 995 of 1,000 requests have a mean time between tokens within the
limit. Eight replicas serve requests with random arrivals and log-normal lengths, behind a router that picks the replica
with the fewest requests in flight; the rate of arrivals is found by bisection.

Apart from the spread of the lengths, φ depends on two values of an engine and its mix: the weight of the squared
prompts, and the share of the limit that an idle step takes. The lengths themselves, the GPU and the split of the work
do not matter: a spot check over answers of 30 to 300 tokens agreed within 0.03.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterator, Sequence
from math import exp, log, sqrt
from typing import Final

from rich.console import Console
from rich.progress import Progress

from bench.suites import ROOT
from forebay.simulation.engine.engine_router import play_requests
from forebay.simulation.engine.engine_stats import EngineRequest
from forebay.simulation.engine.replica_engine import EngineLimits, ReplicaEngine
from forebay.simulation.engine.simulated_profile import EngineProfile

TARGET = ROOT / "operator" / "forebay" / "capacity" / "model" / "data" / "usable_share.json"
LIMIT: Final = 0.04
"""Limit of the time between two tokens, in seconds; only ratios to it matter."""
PROMPT: Final = 1000
"""Mean tokens of a prompt."""
OUTPUT: Final = 100
"""Mean tokens of an answer."""
PREFILL: Final = 0.85
"""Share of the work that prompts cause."""
REPLICAS: Final = 8
REQUESTS: Final = 2500
"""Requests of one run; the first fifth fills the engines and is not counted."""
IN_TIME: Final = 0.995
PRECISION: Final = 0.02
"""Precision of the bisection."""
WEIGHTS: Final = (0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3)
IDLE: Final = (0.15, 0.4, 0.65, 0.85)
SPREADS: Final = (0.0, 1.0, 2.0)
"""Variance over squared mean, the same for prompts and answers."""


def measured(weight: float, idle: float, spread: float, most: float) -> float:
    """φ, at most `most`; 0 if even a hundredth of the load is too much."""
    prompt = weight * OUTPUT * LIMIT / PREFILL
    decode = prompt * (1 - PREFILL) / PREFILL / OUTPUT
    profile = EngineProfile(
        step_seconds=idle * LIMIT,
        prompt_token_seconds=prompt / PROMPT,
        sequence_seconds=decode / 3,
        kv_token_seconds=decode * 2 / 3 / (PROMPT + OUTPUT / 2),
        kv_tokens=10**9,
    )
    low, high = 0.0, most
    while high - low > PRECISION:
        middle = (low + high) / 2
        held = _share_in_time(profile, middle * (1 - idle), spread) >= IN_TIME
        low, high = (middle, high) if held else (low, middle)
    return low


def _share_in_time(profile: EngineProfile, busy: float, spread: float) -> float:
    draw = random.Random(1)
    sigma = sqrt(log(1 + spread))
    lengths = [(_length(draw, PROMPT, sigma), _length(draw, OUTPUT, sigma)) for _ in range(REQUESTS)]
    work = sum(
        profile.prompt_token_seconds * prompt
        + output * (profile.sequence_seconds + profile.kv_token_seconds * (prompt + output / 2))
        for prompt, output in lengths
    )
    rate = REPLICAS * busy * REQUESTS / work
    limits = EngineLimits(max_num_seqs=4096)
    engines = [ReplicaEngine(profile, limits, every_histogram=False) for _ in range(REPLICAS)]
    done = play_requests(engines, _arriving(draw, rate, lengths))
    counted = [completion for completion in done if int(completion.request.id) >= REQUESTS // 5]
    return sum((completion.token_seconds or 0.0) <= LIMIT for completion in counted) / len(counted)


def _arriving(draw: random.Random, rate: float, lengths: Sequence[tuple[int, int]]) -> Iterator[EngineRequest]:
    now = 0.0
    for index, (prompt, output) in enumerate(lengths):
        now += draw.expovariate(rate)
        yield EngineRequest(str(index), prompt, output, now)


def _length(draw: random.Random, mean: int, sigma: float) -> int:
    return max(1, round(mean * exp(draw.gauss(0.0, sigma) - sigma**2 / 2)))


def main() -> int:
    shares: list[list[list[float]]] = []
    with Progress(console=Console(stderr=True)) as progress:
        task = progress.add_task("usable share", total=len(WEIGHTS) * len(IDLE) * len(SPREADS))
        for spread in SPREADS:
            shares.append([])
            for idle in IDLE:
                row: list[float] = []
                for weight in WEIGHTS:
                    # Heavier prompts never raise φ, so a higher result is random noise and is cut.
                    most = min([1.0, *(share + PRECISION for share in row[-1:])])
                    row.append(round(min([measured(weight, idle, spread, most), *row[-1:]]), 3))
                    progress.advance(task)
                shares[-1].append(row)
    says = "φ by spread of lengths, idle share of the limit, weight of prompts; made by python -m bench.usable_share"
    table = {"says": says, "spreads": SPREADS, "idle": IDLE, "weights": WEIGHTS, "shares": shares}
    rows = ",\n".join(f"  {json.dumps(name)}: {json.dumps(value, ensure_ascii=False)}" for name, value in table.items())
    TARGET.write_text("{\n" + rows + "\n}\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
