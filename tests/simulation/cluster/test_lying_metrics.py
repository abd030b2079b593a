"""Lies of metrics in the closed loop, beside the same run with honest ones.

Each kind is one that users of other systems reported: dead requests in queues, counters that vanish on a part of the
fleet or begin anew, one wrong reading, and engines whose metrics stand still.
"""

from functools import cache
from itertools import pairwise

import pytest

from forebay.simulation.cluster.scrape_model import PageFilter
from forebay.simulation.traffic.traces import steady
from tests.simulation.cluster.metrics_pages import (
    WAITING,
    at_one_scrape,
    between,
    counting_from_last_scrape,
    dead_requests,
    frozen,
    on_replicas,
    removed,
    saying,
    two_processes,
)
from tests.simulation.stories import Story, play

LIES_FROM = 400.0
SECONDS = 1200.0
LEAD_SECONDS = 120.0
QUICK = {"scaleDownCooldown": "120s"}
FINISHED = "vllm:request_success_total"
PROMPT_TOKENS = "vllm:request_prompt_tokens_sum"


def run(rate: float, replicas: int, page: PageFilter | None = None) -> Story:
    return play(steady(rate), SECONDS, initial_replicas=replicas, page=page, scaling=QUICK)


@cache
def honest(rate: float, replicas: int) -> Story:
    return run(rate, replicas)


def unserved_seconds(story: Story) -> float:
    return sum(10.0 for serving in story.serving(30, SECONDS) if not serving)


@pytest.mark.parametrize(
    ("rate", "replicas", "page"),
    [
        pytest.param(6.4, 7, on_replicas(range(6), dead_requests(LIES_FROM)), id="dead requests on six of seven"),
        pytest.param(2.5, 3, on_replicas([1], dead_requests(LIES_FROM)), id="dead requests on one of three"),
        pytest.param(
            5.5, 6, on_replicas(range(4), between(LIES_FROM, 1e9, removed(FINISHED))), id="no counter on four of six"
        ),
        pytest.param(5.5, 6, between(LIES_FROM, 1e9, removed(FINISHED)), id="no counter on any"),
        pytest.param(5.5, 6, counting_from_last_scrape(LIES_FROM), id="counters begin anew at each scrape"),
        pytest.param(
            5.5,
            6,
            on_replicas(range(3), counting_from_last_scrape(LIES_FROM)),
            id="counters begin anew on half",
        ),
        pytest.param(
            2.5,
            3,
            on_replicas([0], at_one_scrape(LIES_FROM, saying("1e9", PROMPT_TOKENS))),
            id="one prompt sum of a thousand million",
        ),
        pytest.param(
            2.5,
            3,
            on_replicas([0], at_one_scrape(LIES_FROM, saying("1e7", PROMPT_TOKENS))),
            id="one prompt sum of ten million",
        ),
        pytest.param(2.5, 3, at_one_scrape(LIES_FROM, saying("20000.0", FINISHED)), id="one count of 20,000 finished"),
        pytest.param(2.5, 3, two_processes(LIES_FROM, (0.3, 0.7)), id="two processes behind one port"),
        pytest.param(2.5, 3, two_processes(LIES_FROM, (3.1, 1.2)), id="two processes that counted more"),
        pytest.param(
            2.5, 3, on_replicas([1], between(LIES_FROM, 1e9, saying("1e12", WAITING))), id="a queue of 1e12 on one"
        ),
        pytest.param(2.5, 3, between(LIES_FROM, 1e9, saying("1.7e308", WAITING)), id="queues whose sum overflows"),
    ],
)
def test_a_lie_changes_neither_the_count_nor_the_latency(rate: float, replicas: int, page: PageFilter):
    story, truth = run(rate, replicas, page), honest(rate, replicas)
    pairs = list(zip(story.wanted(30), truth.wanted(30), strict=False))
    assert max(abs(count - expected) for count, expected in pairs) <= 1
    assert story.in_time(LIES_FROM, SECONDS) >= truth.in_time(LIES_FROM, SECONDS) - 0.01
    assert unserved_seconds(story) <= LEAD_SECONDS
    assert min(story.serving(30, SECONDS)) >= min(truth.serving(30, SECONDS)) - 1, "nothing that serves goes on doubt"


class TestStalledAlone:
    """The metrics of the only replica stand still, and so do those of each replacement."""

    def test_it_serves_until_its_replacement_does(self):
        story = play(steady(1.0), 2000, initial_replicas=1, max_replicas=1, page=frozen(LIES_FROM), scaling=QUICK)
        assert min(story.serving(30)) == 1
        assert story.in_time(LIES_FROM, 2000) > 0.99

    def test_each_replacement_that_stalls_too_doubles_the_wait(self):
        story = play(steady(1.0), 4000, initial_replicas=1, max_replicas=1, page=frozen(LIES_FROM), scaling=QUICK)
        starts = [event.at for event in story.control.events if event.reason == "DrainStarted"]
        waits = [later - earlier for earlier, later in pairwise(starts)]
        assert len(waits) >= 3
        assert all(later >= earlier + 100 for earlier, later in pairwise(waits))
        assert min(story.serving(30)) == 1
