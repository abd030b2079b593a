"""Random lies of metrics pages in the closed loop: what they cost while they last, and how soon they are over.

`tests/planner/test_hostile_signals.py` lies in samples and asks what one plan does; here pages lie, and plans have
effects. `make test-lies` plays 1,000 such runs.
"""

import os
import re
from collections.abc import Callable, Mapping
from functools import cache

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from forebay.simulation.cluster.scrape_model import PageFilter
from forebay.simulation.traffic.traces import steady
from tests.builders.lies import LIARS, Liar
from tests.simulation.cluster.metrics_pages import between, one_after_another
from tests.simulation.stories import Story, play

RUNS = int(os.environ.get("FOREBAY_LIES", "2000")) // 100
RATE, REPLICAS, MAX_REPLICAS = 2.5, 3, 8
COOLDOWN_SECONDS = 120.0
LIES_FROM, LONGEST_SECONDS = 240.0, 60
ENDS_AT = LIES_FROM + LONGEST_SECONDS + 2 * COOLDOWN_SECONDS + 20
SERIES = (
    "vllm:num_requests_running",
    "vllm:num_requests_waiting_by_reason",
    "vllm:kv_cache_usage_perc",
    "vllm:request_success_total",
    "vllm:prompt_tokens_total",
    "vllm:generation_tokens_total",
    "vllm:request_prompt_tokens_sum",
    "vllm:request_generation_tokens_sum",
    "vllm:iteration_tokens_total_count",
    "vllm:num_preemptions_total",
    "vllm:admission_rejections_total",
    "vllm:time_to_first_token_seconds_bucket",
    "vllm:inter_token_latency_seconds_sum",
    "vllm:request_queue_time_seconds_bucket",
)
HOW: Mapping[str, Liar] = {
    **LIARS,
    "ten times as much": lambda honest, first: honest * 10,
    "half": lambda honest, first: honest / 2,
}

Lie = tuple[int, str, str]
"""The number of a replica, a series of its page, and how it lies."""


def told_as(lie: Lie, first: dict[tuple[int, str], float]) -> Callable[[str], str]:
    """The page with this lie in it. `first` holds the first values, by replica and series."""
    number, series, how = lie
    pattern = re.compile(rf"^({series}(?:\{{.*\}})?) (\S+)\n", re.MULTILINE)

    def changed(match: re.Match[str]) -> str:
        honest = float(match[2])
        value = HOW[how](honest, first.setdefault((number, match[1]), honest))
        return "" if value is None else f"{match[1]} {value}\n"

    return lambda text: pattern.sub(changed, text)


def lying(told: list[Lie], seconds: float) -> PageFilter:
    """The pages with these lies in them, from `LIES_FROM` on for so many seconds."""
    first: dict[tuple[int, str], float] = {}
    return one_after_another(
        [between(LIES_FROM, LIES_FROM + seconds, told_as(lie, first), only=lie[0]) for lie in told]
    )


def run(page: PageFilter) -> Story:
    return play(
        steady(RATE),
        ENDS_AT,
        after=20,
        initial_replicas=REPLICAS,
        max_replicas=MAX_REPLICAS,
        page=page,
        scaling={"scaleDownCooldown": f"{COOLDOWN_SECONDS:.0f}s"},
    )


@cache
def honest() -> Story:
    story = run(lambda replica, text: text)
    assert set(story.wanted(30, ENDS_AT)) == {REPLICAS}
    return story


lies = st.lists(
    st.tuples(st.integers(0, REPLICAS - 1), st.sampled_from(SERIES), st.sampled_from(sorted(HOW))),
    min_size=1,
    max_size=4,
)


@settings(max_examples=RUNS, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(lies, st.integers(1, LONGEST_SECONDS))
def test_a_lie_costs_a_step_up_at_most_and_is_over_within_two_cooldowns(told: list[Lie], seconds: int):
    story, ends_at = run(lying(told, seconds)), LIES_FROM + seconds
    wanted, serving = story.wanted(30, ENDS_AT), story.serving(30, ENDS_AT)
    assert min(wanted) >= REPLICAS
    assert max(wanted) <= MAX_REPLICAS
    assert min(serving) >= REPLICAS, "nothing that serves goes on doubt"
    assert story.in_time(LIES_FROM) >= honest().in_time(LIES_FROM) - 0.01
    assert max(story.wanted(ends_at + 2 * COOLDOWN_SECONDS, ENDS_AT)) <= REPLICAS + 1
