"""The production planner with metrics that vanish, are renamed, freeze, restart or lie.

Three replicas serve 2.5 requests a second, which is the work of two replicas plus headroom. Where a test shows that the
count holds, the load falls to almost nothing: a planner that took missing metrics for idleness would scale down.
"""

from collections.abc import Callable
from itertools import pairwise

import pytest

from forebay.simulation.cluster.scrape_model import PageFilter
from forebay.simulation.traffic.traces import steady, steps
from tests.simulation.cluster.metrics_pages import (
    KV,
    RUNNING,
    WAITING,
    between,
    counting_anew,
    frozen,
    renamed,
    saying,
    silent,
)
from tests.simulation.loops import PROMISE
from tests.simulation.stories import Story, play

RATE = 2.5
FALLS = steps((0, RATE), (320, 0.1))
BROKEN_FROM, BROKEN_UNTIL = 300.0, 700.0
LATER = 650.0
"""A time at which metrics are lost, long after the last window with load."""
QUICK = {"scaleDownCooldown": "120s"}
"""A short cooldown keeps the runs short."""


def while_the_load_falls(page: PageFilter) -> Story:
    return play(FALLS, 1080, after=40, initial_replicas=3, page=page, ask=(LATER,), scaling=QUICK)


@pytest.mark.parametrize(
    ("broken", "says"),
    [
        pytest.param(silent, "no answer within 3 s", id="vanish"),
        pytest.param(
            renamed("vllm:num_requests_running"),
            "vllm:num_requests_running … vllm:iteration_tokens_total_count … vLLM 0.32.0",
            id="rename running",
        ),
        pytest.param(renamed("vllm:kv_cache_usage_perc"), "vllm:kv_cache_usage_perc", id="rename KV"),
        pytest.param(saying("NaN", RUNNING), "vllm:num_requests_running is nan", id="lie with NaN"),
        pytest.param(
            saying("-50.0", RUNNING, WAITING),
            "vllm:num_requests_waiting_by_reason is -50.0",
            id="lie below zero",
        ),
    ],
)
def test_unreadable_metrics_hold_the_count(broken: Callable[[str], str | None], says: str):
    """The count holds even long after the load is gone, and falls as usual once the metrics can be read again."""
    story = while_the_load_falls(between(BROKEN_FROM, BROKEN_UNTIL, broken))
    assert set(story.wanted(BROKEN_FROM, BROKEN_UNTIL)) == {3}
    assert story.wanted()[-1] == 1
    assert story.in_time(330) > 0.99
    assert not story.unsaid(
        LATER,
        "Load unknown",
        f"Why 3: metrics_unknown … chat-uidde-cllf6lv-2 and 2 more … no metrics: {says}",
        "Signals: Lost; 0 of 3 replicas … 6 min",
        "# GPU-seconds … as last seen (# requests of # ms)",
        "What would lower it Nothing",
    )
    assert {"MetricsStale", "MetricsLost", "MetricsBack"} <= story.reasons()


class TestFreeze:
    def test_pages_that_all_stand_still_are_the_metrics_and_nothing_is_touched(self):
        story = while_the_load_falls(frozen(BROKEN_FROM, BROKEN_UNTIL))
        assert set(story.wanted(BROKEN_FROM, BROKEN_UNTIL)) == {3}
        assert set(story.serving(BROKEN_FROM, BROKEN_UNTIL)) == {3}
        assert story.wanted()[-1] == 1
        assert not story.unsaid(
            LATER,
            "3 replicas wanted, 0 ready, 3 stalled",
            "Why 3: metrics_unknown",
            "chat-uidde-cllf6lv-0 … 9 requests … since 2025-06-15T15:11:40Z",
            "All 3 replicas … requests",
        )

    def test_one_that_stands_still_is_replaced_and_its_streams_end_well(self):
        story = play(steady(RATE), 800, initial_replicas=3, page=frozen(BROKEN_FROM, only=1), ask=(500,))
        assert set(story.wanted(30)) == {3}
        assert set(story.serving()) == {3}, "it drains after its replacement serves"
        assert story.done.summary(PROMISE).failed == 0
        assert {"ReplicaStalled", "ReplicaDrainTimeout"} <= story.reasons()
        assert not story.unsaid(
            500,
            "3 replicas wanted, 2 ready, 1 loading, 1 stalled",
            "Why 3: metrics_unknown",
            "chat-uidde-cllf6lv-3 is expected to serve 120 s",
            "chat-uidde-cllf6lv-1 … once its replacement serves",
        )
        stalled = next(event for event in story.control.events if event.reason == "ReplicaStalled")
        assert "chat-uidde-cllf6lv-1" in stalled.message
        assert 120 <= stalled.at - BROKEN_FROM <= 140


def test_counters_that_begin_anew_change_nothing():
    """Counters reset every 100 s on every replica. The arrival rate is held, and gauges still count."""
    story = play(steady(RATE), 700, after=0, initial_replicas=3, page=counting_anew(100.0), ask=(650,))
    assert set(story.wanted(30)) == {3}
    assert "MetricsStale" not in story.reasons()
    assert not story.unsaid(
        650,
        "3 replicas wanted, 3 ready",
        "# GPU-seconds per second: 2.7 requests of # ms, as last seen",
        "CountersImplausible … did not restart",
    )


class TestLies:
    def test_gauges_that_always_say_idle_hide_no_work(self):
        """The counters still show the work, which holds the count."""
        story = play(
            steady(RATE),
            1000,
            after=0,
            initial_replicas=3,
            page=between(400, 1e9, saying("0.0", RUNNING, WAITING, KV)),
            ask=(900,),
        )
        assert set(story.wanted(30)) == {3}
        assert story.in_time(400) > 0.97
        assert not story.unsaid(
            900,
            "0 requests waiting, KV cache 0 % full",
            "running 0 requests",
            "Why 3: feed_forward … 1.3 GPU-seconds … (2.9 requests of 447 ms) … 37 % headroom … 2.4 replicas",
            "at most 1.7 replicas (the most was #)",
        )

    @pytest.mark.parametrize(
        "lie",
        [
            pytest.param(saying("1000000.0", WAITING), id="a queue of a million"),
            pytest.param(saying("1e9", "vllm:request_success_total"), id="a thousand million finished"),
        ],
    )
    def test_numbers_that_no_engine_can_reach_order_no_fleet(self, lie: Callable[[str], str]):
        """One of three replicas reports such numbers for half a minute. They are rejected, as if it gave no metrics."""
        story = play(steady(RATE), 500, after=0, initial_replicas=3, page=between(400, 440, lie, only=1), ask=(435,))
        assert set(story.wanted(30)) == {3}
        assert {"MetricsStale", "MetricsBack"} <= story.reasons()
        assert not story.unsaid(
            435,
            "Why 3: feed_forward",
            "Signals: Stale; 2 of 3 replicas … 40 s",
            "chat-uidde-cllf6lv-1 … 5,000",
        )

    def test_a_queue_that_one_replica_makes_up_is_answered_in_single_steps(self):
        """A lasting lie cannot be told from a true queue, but it causes one guard step per lead time and no jump."""
        story = play(
            steady(RATE),
            800,
            after=0,
            initial_replicas=3,
            page=between(400, 1e9, saying("1000000.0", WAITING), only=1),
            ask=(625,),
        )
        rises = [(round(at), count) for at, count in story.done.changes if at > 30]
        steps_at = sorted({at for at, _ in rises})
        assert [max(count for at, count in rises if at == when) for when in steps_at] == [5, 8, 12]
        assert min(later - earlier for earlier, later in pairwise(steps_at)) >= 120, "not before the last step serves"
        assert not story.unsaid(
            625,
            "Why 8: queue_depth (since 2025-06-15T15:17:01Z, 4 s ago)",
            "1000000 requests wait on 5 replicas, target 20 each.",
            "backlog 3 1000000 requests … # GPU-seconds … 2.4 replicas",
            "3 replicas",
        )
