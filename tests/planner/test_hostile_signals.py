"""Random lies of metrics: any field of any pod NaN, huge, negative, frozen, reset, missing or skewed in time.

`make test-lies` plays 100,000 of them.
"""

import os
from collections.abc import Mapping
from dataclasses import fields, replace
from functools import cache
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from forebay.planner.memory import State
from forebay.planner.planner import plan
from forebay.scaling.load.signals import EngineSample, PodSignals
from forebay.world.world import PodView, ServiceView
from tests.builders.lies import LIARS, Liar
from tests.builders.loads import a_replica_capacity
from tests.builders.plans import drains, only
from tests.builders.world import NOW, a_sample, a_service, a_world, pods_of

LIES = int(os.environ.get("FOREBAY_LIES", "2000"))
MAX_REPLICAS = 6
COOLDOWN_SECONDS = 60
CALM_SECONDS, LIE_SECONDS = 400, 60
TICK_SECONDS = 20
REQUESTS_PER_SECOND = 35.0
"""Of each replica, so that the replicas are just enough for the work that arrives."""
FIELDS = tuple(field.name for field in fields(EngineSample) if field.type in ("float", "float | None", float))
HOW: Mapping[str, Liar] = {**LIARS, "skewed": lambda honest, first: honest - 3600}

Lie = tuple[int, str, str]
"""The number of a pod, a field of its samples, and how it lies."""


def honest_sample(at: float) -> EngineSample:
    seconds = at - NOW + 10_000
    return a_sample(
        at=at,
        running=40,
        kv=0.1,
        steps=60 * seconds,
        prompt_tokens=500 * REQUESTS_PER_SECOND * seconds,
        generation_tokens=200 * REQUESTS_PER_SECOND * seconds,
        finished=REQUESTS_PER_SECOND * seconds,
        finished_prompt_tokens=500 * REQUESTS_PER_SECOND * seconds,
        finished_output_tokens=200 * REQUESTS_PER_SECOND * seconds,
        rejected=0.0,
        preemptions=0.0,
    )


def lying(sample: EngineSample, first: EngineSample, field: str, how: str) -> EngineSample | None:
    """The sample with a lie in it; None where a required gauge is missing, which telemetry refuses."""
    honest, before = getattr(sample, field), getattr(first, field)
    if honest is None:
        return sample
    value = HOW[how](honest, before)
    if value is None and field in ("taken_at", "running_requests", "waiting_requests", "kv_fraction"):
        return None
    changed: dict[str, Any] = {field: 0.0 if value is None and field == "deferred_requests" else value}
    return replace(sample, **changed)


def a_service_of(replicas: int) -> tuple[ServiceView, tuple[PodView, ...]]:
    service = a_service(
        min_replicas=1, max_replicas=MAX_REPLICAS, replica_capacity=a_replica_capacity(), scale_down_cooldown="60s"
    )
    return service, tuple(pods_of(service, replicas))


@cache
def calm_state(replicas: int) -> State:
    """The state after an honest and steady load, which these replicas are just enough for."""
    service, pods = a_service_of(replicas)
    state = State.empty(NOW - CALM_SECONDS)
    for seconds in range(-CALM_SECONDS, 0, TICK_SECONDS):
        signals = {pod.uid: PodSignals(honest_sample(NOW + seconds)) for pod in pods}
        _, state = plan(a_world(service, pods=pods, signals=signals), state, NOW + seconds)
    return state


lies = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from(FIELDS), st.sampled_from(sorted(HOW))), min_size=1, max_size=4
)


@settings(max_examples=LIES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(2, 4), lies, st.integers(1, LIE_SECONDS // TICK_SECONDS))
def test_no_lie_breaks_bounds_or_removes_a_replica(replicas: int, told: list[Lie], looks: int):
    """Two cooldowns after the lies the count is within one of the honest count."""
    service, pods = a_service_of(replicas)
    state, first = calm_state(replicas), honest_sample(NOW)
    honest_count = state.services[service.uid].scaling.desired
    assert honest_count == replicas
    for seconds in range(0, LIE_SECONDS + 2 * COOLDOWN_SECONDS + TICK_SECONDS, TICK_SECONDS):
        now = NOW + seconds
        signals = {}
        for number, pod in enumerate(pods):
            sample: EngineSample | None = honest_sample(now)
            for liar, field, how in told if seconds < looks * TICK_SECONDS else []:
                if liar == number and sample is not None:
                    sample = lying(sample, first, field, how)
            signals[pod.uid] = PodSignals(sample, None if sample else "vllm:num_requests_running is missing")
        done, state = plan(a_world(service, pods=pods, signals=signals), state, now)
        assert only(done).error is None
        assert drains(done) == []
        assert 1 <= only(done).status.replicas.desired <= MAX_REPLICAS
    assert honest_count <= only(done).status.replicas.desired <= honest_count + 1
