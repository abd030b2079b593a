"""500 seeds of `any_world` for the recorder, which plays them in the checkout that is recorded."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

import forebay.planner.planner as planner
from tests.builders.world import NOW
from tests.planner.any_world import states, worlds

SEEDS = 500


@pytest.mark.parametrize("batch", range(20))
def test_any_world(batch: int) -> None:
    @seed(batch)
    @settings(
        max_examples=SEEDS // 20,
        database=None,
        deadline=None,
        derandomize=False,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(worlds(), states, st.sampled_from([5.0, 60.0]))
    def played(world: Any, state: Any, step: float) -> None:
        _, after = planner.plan(world, state, NOW)
        planner.plan(world, after, NOW + step)

    played()
