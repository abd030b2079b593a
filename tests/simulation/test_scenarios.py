"""Named scenarios: the production planner on a simulated cluster, and the trajectory that its design demands.

Requests of 6,000 prompt and 1,000 answer tokens keep the numbers of requests small: an 8B model on an H100 carries 1.7
of them a second within 40 ms between tokens. What is asserted is what people would see: how many replicas were wanted
and served, when, and how many requests were in time.
"""

from math import ceil

import pytest

from forebay.simulation.closed_loop import ClosedLoop
from forebay.simulation.cold_start import ColdStarts
from forebay.simulation.traces import noisy, ramp, steady, steps
from tests.simulation.loops import PROMISE
from tests.simulation.stories import play


def test_steady_load_with_noise_changes_nothing():
    """At most 2 changes a day: none in three hours, once the start has been watched."""
    story = play(noisy(steady(4.0), 5, seed=1), 3.5 * 3600, after=0, standing=4)
    assert len([at for at, _ in story.done.changes if at > 1800]) == 0
    assert story.in_time(1800) > 0.995


def test_a_threefold_step_is_answered_in_one_cold_start():
    story = play(steps((0, 3.3), (900, 10.0)), 2100, standing=3)
    need = story.need(1000, 2000)
    assert max(story.wanted(900, 975)) >= need, "ordered before the first minute of it is over"
    assert max(story.wanted()) <= 1.5 * 1.2 * need
    assert story.in_time(900 + 120 + 180, 2100) > 0.95


def test_a_slow_cold_start_does_not_run_away():
    """10 → 30: what is ordered while pods load and when they come never exceeds one and a half times the need."""
    starts = ColdStarts(ready_seconds=300.0, spread=0.0)
    story = play(steps((0, 16.0), (300, 48.0)), 1000, after=0, standing=12, starts=starts)
    need = story.done.need(PROMISE)
    assert story.need(500, 1000) == pytest.approx(30, rel=0.1)
    assert max(story.wanted(300, 600)) >= story.need(500, 1000)
    assert story.done.summary(PROMISE).most_replicas <= 1.5 * ceil(max(need))


def test_a_ramp_is_followed_ahead_of_the_need():
    story = play(ramp(600, 2.0, 2400, 8.0), 3000, standing=2)
    assert story.in_time(600, 3000) > 0.95
    assert max(story.wanted()) <= 2 * story.need(2500, 2900)


def test_prefill_heavy_overload_is_seen_with_kv_at_a_third():
    """The queue and the work tell of it; KV does not."""
    story = play(steps((0, 3.0), (300, 9.0)), 1200, lengths=(8000, 20), standing=1)
    assert max(tick.kv_fraction for tick in story.done.ticks) < 0.6
    assert max(story.wanted(300, 400)) >= story.need(500, 1200)
    assert story.in_time(700, 1200) > 0.95


def test_kv_that_saw_tooths_does_not_make_the_count_do_so():
    """A small cache and long answers: sequences are preempted, and KV use swings."""
    story = play(steady(1.0), 2400, lengths=(1000, 3000), standing=1, kv_tokens=90_000)
    changes = [count for at, count in story.done.changes if at > 1200]
    assert len(changes) <= 1
    assert max(story.wanted(1200)) - min(story.wanted(1200, 2400)) <= 1


def test_long_contexts_are_counted_by_their_work():
    slo = {"timeToFirstToken": {"p95": "4s"}, "interTokenLatency": {"mean": "100ms"}}
    story = play(steps((0, 0.4), (600, 2.0)), 1800, lengths=(30_000, 500), standing=1, slo=slo)
    assert max(story.serving(1200, 1800)) >= 3
    assert max(tick.waiting for tick in story.done.ticks if tick.at > 1300) < 20


class TestPodsThatNeverStart:
    def test_nothing_that_serves_is_given_up_and_orders_stay_bounded(self):
        def never(loop: ClosedLoop) -> None:
            loop.cluster.why_not_start = lambda replica: "never"

        engine, rate = {"startupTimeout": "5m"}, steps((0, 2.0), (300, 5.0))
        story = play(rate, 1800, after=0, standing=2, prepare=never, engine=engine, ask=(1700,))
        assert min(story.serving()) == 2
        assert max(story.wanted()) <= ceil(2 * story.need(400, 1700)), "stuck ones are tried anew, not multiplied"
        assert story.wanted(1100) == [max(story.wanted())] * len(story.wanted(1100))
        assert {"ReplicaModelLoad"} & story.reasons()
        assert "2 ready, 1 loading, 3 stuck" in story.explained[1700]
        assert "and 1 more, since 3 are stuck; further ones would fare like them" in story.explained[1700]
        assert "was not ready within startupTimeout (300 s)" in story.explained[1700]

    def test_it_recovers_when_they_start_again(self):
        def later(loop: ClosedLoop) -> None:
            loop.cluster.why_not_start = lambda replica: "ImagePull" if loop.timeline.now < 900 else None

        story = play(steps((0, 2.0), (300, 5.0)), 2400, standing=2, prepare=later)
        assert story.serving(2200, 2400)[-1] >= story.need(2000, 2400)
        assert story.in_time(2100, 2400) > 0.95
