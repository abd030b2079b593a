"""Named scenarios: the production planner on a simulated cluster, and the trajectory that its design demands.

Requests of 6,000 prompt and 1,000 answer tokens keep the numbers of requests small: an 8B model on an H100 serves 1.7
of them a second within 40 ms between tokens. The tests assert what users would see: how many replicas were wanted and
served, when, and how many requests were in time. At an important moment they also check `forebay explain`: the rule,
its numbers, and what comes next.
"""

from math import ceil

import pytest

from forebay.simulation.cluster.closed_loop import ClosedLoop
from forebay.simulation.cluster.cold_start import ColdStarts
from forebay.simulation.traffic.traces import noisy, ramp, steady, steps
from tests.simulation.loops import PROMISE, a_model, a_view
from tests.simulation.stories import play


def test_steady_load_with_noise_changes_nothing():
    """At most 2 changes a day: none in three hours, after the first half hour."""
    story = play(noisy(steady(4.0), 5, seed=1), 3.5 * 3600, after=0, initial_replicas=4, ask=(7200,))
    assert len([at for at, _ in story.done.changes if at > 1800]) == 0
    assert story.in_time(1800) > 0.995
    assert not story.unsaid(
        7200,
        "4 replicas wanted, 4 ready",
        "Why 4: work_would_not_fit … # replicas … 300 s … 1.2 times … 1.1 times … 1800 s … 3 replicas",
        "What would lower it One replica … 300 s …:",
        "at most 2.5 replicas (the most was #)",
    )


def test_a_threefold_step_is_answered_in_one_cold_start():
    story = play(steps((0, 3.3), (900, 10.0)), 2100, initial_replicas=3, ask=(930, 960))
    need = story.need(1000, 2000)
    assert max(story.wanted(900, 930)) >= need, "ordered within half a minute, while nothing is late yet"
    assert max(story.wanted()) <= 1.5 * 1.2 * need
    assert story.in_time(900 + 120 + 180, 2100) > 0.95
    assert not story.unsaid(
        930,
        "8 replicas wanted, 4 ready, 3 loading",
        "0 requests waiting",
        "Why 8: feed_forward … # GPU-seconds … (# requests of # ms) … # % headroom … 7.1 replicas of # GPU-seconds",
        "to serve 120 s after",
    )
    assert not story.unsaid(
        960,
        "8 replicas wanted, 4 ready, 4 loading",
        "Why 8: recently_raised",
        "- kv_cache 6 … 4 replicas … # % … target 80 % … yet: 4 replicas … loading",
    )


def test_a_slow_cold_start_does_not_run_away():
    """The need goes from 10 to 30: while pods load, the count never exceeds one and a half times the need."""
    starts = ColdStarts(ready_seconds=300.0, spread=0.0)
    story = play(steps((0, 16.0), (300, 48.0)), 1000, after=0, initial_replicas=12, starts=starts, ask=(450,))
    need = story.done.need(PROMISE)
    assert story.need(500, 1000) == pytest.approx(30, rel=0.1)
    assert max(story.wanted(300, 600)) >= story.need(500, 1000)
    assert story.done.summary(PROMISE).most_replicas <= 1.5 * ceil(max(need))
    assert not story.unsaid(
        450,
        "36 replicas wanted, 13 ready, 23 loading",
        "Why 36: backlog … # requests … # GPU-seconds … 35.7 replicas",
        "- queue_depth 20 # requests … 13 replicas, target 20 each … yet: 23 replicas … loading",
        "to serve 300 s after",
        "20 more replicas",
    )


def test_a_ramp_is_followed_ahead_of_the_need():
    story = play(ramp(600, 2.0, 2400, 8.0), 3000, initial_replicas=2, ask=(1500,))
    assert story.in_time(600, 3000) > 0.95
    assert max(story.wanted()) <= 2 * story.need(2500, 2900)
    assert not story.unsaid(
        1500,
        "4 replicas wanted, 4 ready",
        "0 requests waiting",
        "Why 4: feed_forward",
        "# % headroom … 3.5 replicas of # GPU-seconds",
        "More than # GPU-seconds … # requests … (# now): feed_forward",
        "scaleDownCooldown (300 s) … replica",
    )


def test_prefill_heavy_overload_is_seen_with_kv_at_a_third():
    """The queue and the work show the overload; the KV cache does not."""
    story = play(steps((0, 3.0), (300, 9.0)), 1200, lengths=(8000, 20), initial_replicas=1, ask=(330,))
    assert max(tick.kv_fraction for tick in story.done.ticks) < 0.6
    assert max(story.wanted(300, 400)) >= story.need(500, 1200)
    assert story.in_time(700, 1200) > 0.95
    assert not story.unsaid(
        330,
        "0 requests waiting, KV cache 2 % full",
        "Why 6: feed_forward … 0.89 GPU-seconds … (6.1 requests of 147 ms) … 100 % headroom … 5.4 replicas",
        "lengths 8000 tokens in, 20 out",
        "80 % full (2 % now): kv_cache",
        "to serve 120 s after",
    )


def test_kv_that_saw_tooths_does_not_make_the_count_do_so():
    """A small cache and long answers: random arrivals alone fill and empty it."""
    small = a_model(a_view(max_replicas=100), kv_tokens=50_000)
    story = play(steady(1.8), 3600, lengths=(1000, 3000), initial_replicas=1, model=small, ask=(700, 1200))
    kv_fractions = [tick.kv_fraction for tick in story.done.ticks if 600 < tick.at < 3600]
    assert max(kv_fractions) > 0.8 > 0.4 > min(kv_fractions)
    changes = [count for at, count in story.done.changes if at > 1200]
    assert len(changes) <= 1
    assert max(story.wanted(1200)) - min(story.wanted(1200, 3600)) <= 1
    assert story.in_time(600, 3600) > 0.99
    assert not story.unsaid(
        700,
        "5 replicas wanted, 5 ready",
        "- kv_cache 8 … 5 replicas … 99 % … target 80 % … yet: a … queue",
    )
    assert not story.unsaid(
        1200,
        "Why 5: kv_cache_would_fill … 4 replicas … # % full, 20 % headroom … target 80 %",
        "5 replicas at most 53 % full (the most was # %)",
    )


def test_long_contexts_are_counted_by_their_work():
    slo = {"timeToFirstToken": {"p95": "4s"}, "interTokenLatency": {"mean": "100ms"}}
    story = play(steps((0, 0.4), (600, 2.0)), 1800, lengths=(30_000, 500), initial_replicas=1, slo=slo, ask=(640,))
    assert max(story.serving(1200, 1800)) >= 3
    assert max(tick.waiting for tick in story.done.ticks if tick.at > 1300) < 20
    assert not story.unsaid(
        640,
        "5 replicas wanted, 2 ready, 2 loading",
        "Why 5: feed_forward … (1.5 requests of 1.27 s) … 77 % headroom … 4.2 replicas of # GPU-seconds",
        "lengths 30000 tokens in, 500 out",
        "bound by … KV cache",
        "- time_to_first_token 3 … (p95) was # s … limit 4 s … yet: 2 replicas … loading",
        "to serve 300 s after … 2 starts",
    )


class TestPodsThatNeverStart:
    def test_nothing_that_serves_is_given_up_and_orders_stay_bounded(self):
        def never(loop: ClosedLoop) -> None:
            loop.cluster.start_failure = lambda replica: "never"

        engine, rate = {"startupTimeout": "5m"}, steps((0, 2.0), (300, 5.0))
        story = play(rate, 1800, after=0, initial_replicas=2, prepare=never, engine=engine, ask=(1700,))
        assert min(story.serving()) == 2
        assert max(story.wanted()) <= ceil(2 * story.need(400, 1700)), "stuck ones are tried anew, not multiplied"
        assert story.wanted(1100) == [max(story.wanted())] * len(story.wanted(1100))
        assert {"ReplicaModelLoad"} & story.reasons()
        assert not story.unsaid(
            1700,
            "6 replicas wanted, 2 ready, 1 loading, 3 stuck",
            "Why 6: work_would_not_fit",
            "- queue_depth 4 # requests … 2 replicas, target 20 each; plus 1 for 3 stuck … yet: 1 replica … loading",
            "engine.startupTimeout",
            "startupTimeout (300 s)",
        )

    def test_it_recovers_when_they_start_again(self):
        def later(loop: ClosedLoop) -> None:
            loop.cluster.start_failure = lambda replica: "ImagePull" if loop.timeline.now < 900 else None

        story = play(steps((0, 2.0), (300, 5.0)), 2400, initial_replicas=2, prepare=later, ask=(700,))
        assert story.serving(2200, 2400)[-1] >= story.need(2000, 2400)
        assert story.in_time(2100, 2400) > 0.95
        assert not story.unsaid(
            700,
            "5 replicas wanted, 2 ready, 3 stuck",
            "# requests … 2 replicas, target 20 each; plus 1 for 3 stuck",
            "image since 2025-06-15T15:12:21Z: ImagePull",
        )
