"""A replica that few requests nearly fill: the count does not fall only to rise again.

6,000 prompt tokens and 1,000 of answer take a ninth of a KV cache of 60,000 tokens, and 80 % is the target: one replica
runs seven such requests, and the next one is too much.
"""

from functools import cache
from itertools import pairwise

import pytest

from forebay.simulation.traffic.traces import steady
from tests.simulation.loops import a_model, a_view
from tests.simulation.stories import play

SECONDS = 1800.0
KV_TOKENS = 60_000
COOLDOWN_SECONDS = 300.0
RUNS = [(0.3, 1), (0.3, 2), (0.3, 5), (0.35, 2), (0.35, 4)]
"""Rates and seeds, of 30 that were played, with which the count once went 3, 2, 1, 2 within 180 s."""


@cache
def changes(rate: float, seed: int) -> list[tuple[float, int, int]]:
    """Each change of the desired count: when, from, to."""
    model = a_model(a_view(max_replicas=8), kv_tokens=KV_TOKENS)
    ticks = play(steady(rate), SECONDS, after=0, initial_replicas=3, model=model, seed=seed).done.ticks[1:]
    return [(later.at, old.desired, later.desired) for old, later in pairwise(ticks) if old.desired != later.desired]


@pytest.mark.parametrize(("rate", "seed"), RUNS)
def test_each_of_the_last_steps_down_waits_a_cooldown_after_the_change_before_it(rate: float, seed: int):
    made = changes(rate, seed)
    assert made[0][1:] == (3, 2), "it does scale down"
    falls_after = [later[0] - before[0] for before, later in pairwise(made) if later[2] < later[1]]
    assert min(falls_after, default=COOLDOWN_SECONDS) >= COOLDOWN_SECONDS


def test_few_steps_down_are_taken_back():
    """Before the KV cache had headroom for so few requests, eight of the eleven steps to one replica were taken
    back."""
    made = [changes(rate, seed) for rate, seed in RUNS]
    to_one = sum(new == 1 for run in made for _, _, new in run)
    back = sum(old == 1 for run in made for _, old, _ in run)
    assert (to_one, back) == (2, 1)
