"""A capacity plan holds in the simulation: an engine under its share of the planned peak keeps the SLO."""

import random
from math import ceil
from statistics import fmean

from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from forebay.capacity.plan.plan_input import PlanContext, read_plan_input
from forebay.capacity.plan.sizing import CapacityPlan, size
from forebay.simulation.engine.engine_stats import Completion, EngineRequest
from forebay.simulation.engine.replica_engine import EngineLimits, ReplicaEngine
from tests.capacity.specs import LLAMA_8B, a_spec, traffic

REQUESTS = 3000
"""Requests of a run. The first fifth fills the engine and is not counted."""
SAMPLE = 1.35
"""Factor by which the 95 % quantile of this sample may exceed that of all requests. A busy period lasts seconds, so the
sample covers only some hundred of them."""
MEAN_SAMPLE = 1.1
"""The same factor for the mean time between tokens."""


def completions(plan: CapacityPlan, prompt: int, output: int) -> list[Completion]:
    """Completions of one replica at its share of the peak rate, with random arrivals."""
    assert plan.throughput is not None
    assert plan.fleet is not None
    assert plan.plan_input.demand is not None
    engine = plan.throughput.engine
    rate = float(plan.plan_input.demand.peak) / plan.fleet.active
    chunk = plan.throughput.batched_tokens
    player = ReplicaEngine(engine.profile, EngineLimits(engine.max_num_seqs, chunk))
    draw = random.Random(7)
    done = list[Completion]()
    for index, arrival in enumerate(sorted(draw.uniform(0, REQUESTS / rate) for _ in range(REQUESTS))):
        done += player.advance(arrival)
        player.submit(EngineRequest(str(index), prompt, output, arrival))
    done += player.advance(REQUESTS / rate + 1e6)
    return [completion for completion in done if int(completion.request.id) >= REQUESTS // 5]


@settings(max_examples=20, deadline=None, derandomize=True)
@given(
    prompt=st.integers(50, 6000),
    output=st.integers(20, 800),
    rate=st.floats(5, 300),
    token_milliseconds=st.integers(20, 80),
    first_milliseconds=st.integers(300, 3000),
)
@example(prompt=500, output=200, rate=100.0, token_milliseconds=40, first_milliseconds=500)
@example(prompt=1155, output=211, rate=44.0, token_milliseconds=25, first_milliseconds=500)
@example(prompt=2000, output=2000, rate=20.0, token_milliseconds=40, first_milliseconds=500)
def test_the_planned_load_meets_its_own_slo(prompt, output, rate, token_milliseconds, first_milliseconds):
    slo = {
        "timeToFirstToken": {"p95": f"{first_milliseconds}ms"},
        "interTokenLatency": {"mean": f"{token_milliseconds}ms"},
    }
    month = ceil(rate * 30 * 24 * 3600)
    known = PlanContext()
    plan = size(
        read_plan_input(
            a_spec(
                LLAMA_8B,
                traffic=traffic(month, prompt=prompt, output=output),
                slo=slo,
                scaling={"minReplicas": 1, "maxReplicas": 1000},
            ),
            known,
        ),
        known,
    )
    assume(not plan.problems and plan.fleet is not None)
    measured = completions(plan, prompt, output)
    first = sorted(c.first_token_seconds for c in measured if c.first_token_seconds is not None)
    assert len(first) == len(measured)
    assert first[ceil(0.95 * len(first)) - 1] <= first_milliseconds / 1000 * SAMPLE
    assert (
        fmean(c.token_seconds for c in measured if c.token_seconds is not None)
        <= token_milliseconds / 1000 * MEAN_SAMPLE
    )
