"""φ, the usable share of the mean-value capacity, for different mixes of requests."""

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from forebay.capacity.model.engine_profile import BUILT_IN
from forebay.capacity.model.replica_model import EngineModel, Mix, Promise, capacity
from forebay.capacity.model.usable_share import LARGEST_SHARE, SMALLEST_SHARE, usable_share

quick = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
PROMISE = Promise(time_to_first_token=0.5, inter_token_latency=0.04)


def an_engine(name: str) -> EngineModel:
    profile = BUILT_IN[name].profile
    return EngineModel(profile, profile.kv_tokens)


def spread(prompt: float, output: float, variance: float = 1.0) -> Mix:
    return replace(Mix.fixed(prompt, output), prompt_square=prompt**2 * (1 + variance))


@pytest.mark.parametrize(
    ("name", "mix", "low", "high"),
    [
        pytest.param("8b-h100", Mix.fixed(500, 200), 0.9, 0.9, id="even requests on a fast engine: nearly all of it"),
        pytest.param("8b-h100", spread(1155, 211), 0.75, 0.9, id="conversation, 8B"),
        pytest.param("70b-h100-tp4", spread(1155, 211), 0.55, 0.7, id="conversation, 70B: prompts weigh more"),
        pytest.param("70b-h100-tp4", spread(2048, 28), 0.15, 0.3, id="code: answers too short to make up for a prompt"),
    ],
)
def test_the_usable_share_depends_on_the_mix(name, mix, low, high):
    assert low <= capacity(an_engine(name), mix, PROMISE).usable_share <= high


@quick
@given(st.floats(0, 10), st.floats(0, 1), st.floats(0, 10), st.floats(1, 3))
def test_heavier_prompts_never_raise_the_share(weight, idle, variance, heavier):
    share = usable_share(weight, idle, variance)
    assert SMALLEST_SHARE <= usable_share(weight * heavier, idle, variance) <= share + 1e-9
    assert share <= LARGEST_SHARE


def test_a_measured_share_takes_precedence_over_the_table():
    engine = replace(an_engine("70b-h100-tp4"), usable_share=0.83)
    assert capacity(engine, spread(1155, 211), PROMISE).usable_share == 0.83
