"""The load of a service from its pods' samples."""

import pytest

from forebay.scaling.load.freshness import Ages, Freshness, freshness
from forebay.scaling.load.service_load import ReplicaReading, load_of
from tests.builders.loads import a_history
from tests.builders.world import NOW, a_histogram

AGES = Ages(stale_after_seconds=30, lost_after_seconds=300)


@pytest.mark.parametrize(
    ("taken", "ready", "expected"),
    [
        pytest.param(NOW - 30, NOW - 9999, Freshness.FRESH, id="young enough"),
        pytest.param(NOW - 31, NOW - 9999, Freshness.STALE, id="stale"),
        pytest.param(NOW - 301, NOW - 9999, Freshness.LOST, id="lost"),
        pytest.param(NOW + 60, NOW - 9999, Freshness.FRESH, id="from a clock that is ahead"),
        pytest.param(None, NOW - 5, Freshness.STALE, id="none yet"),
        pytest.param(None, NOW - 301, Freshness.LOST, id="none in a long time"),
    ],
)
def test_freshness(taken, ready, expected):
    assert freshness(taken, ready, NOW, AGES) is expected


def a_reading(pod: str, history=None, *, ready_since=NOW - 9999, error=None):
    return ReplicaReading(pod, history, ready_since, error)


def test_queue_is_summed_and_kv_is_the_mean_of_each_ones_peak():
    load = load_of(
        [
            a_reading("a", a_history({"waiting": 3, "running": 4, "kv": 0.9}, {"waiting": 3, "running": 4, "kv": 0.5})),
            a_reading("b", a_history({"waiting": 2, "running": 1, "kv": 0.1})),
        ],
        [],
        NOW,
        AGES,
    )
    assert (load.waiting_requests, load.running_requests) == (5, 5)
    assert load.kv_fraction == pytest.approx(0.5)
    assert load.kv_total == pytest.approx(0.6), "of this moment, not smoothed"
    assert load.complete


def test_a_ready_pod_without_a_sample_is_unknown_and_not_idle():
    load = load_of([a_reading("a", a_history({"kv": 0.8})), a_reading("b", error="refused")], [], NOW, AGES)
    assert (load.replicas, load.known, load.complete) == (2, 1, False)
    assert load.kv_fraction == pytest.approx(0.8), "the mean of those that are known"
    assert load.freshness is Freshness.LOST
    assert [(s.pod, s.error) for s in load.silent] == [("b", "refused")]


def test_a_pod_that_has_just_become_ready_is_waited_for():
    load = load_of([a_reading("a", ready_since=NOW - 10)], [], NOW, AGES)
    assert load.silent[0].new
    assert load.freshness is Freshness.FRESH
    assert not load.complete


def test_old_samples_are_not_added_up():
    load = load_of([a_reading("a", a_history({"waiting": 50}, until=NOW - 31))], [], NOW, AGES)
    assert (load.known, load.waiting_requests) == (0, 0)
    assert load.freshness is Freshness.STALE


def test_requests_on_draining_replicas_count_as_load():
    load = load_of(
        [a_reading("a", a_history({"running": 3, "kv": 0.2}))],
        [a_reading("b", a_history({"running": 4, "waiting": 1, "deferred": 2, "kv": 0.5}))],
        NOW,
        AGES,
    )
    assert load.running_requests == 3
    assert load.draining_requests == 7
    assert load.kv_total == pytest.approx(0.7)


def test_latencies_are_of_the_last_minute_over_all_pods():
    began, ended = a_histogram({0.1: 100, 9.0: 0}), a_histogram({0.1: 100, 9.0: 8})
    load = load_of(
        [a_reading(pod, a_history({"queue_time": began}, {"queue_time": ended})) for pod in "ab"], [], NOW, AGES
    )
    assert load.queue_time is not None
    assert load.queue_time.count == 16


def test_a_missing_series_is_named():
    load = load_of([a_reading("a", a_history({"missing": ("vllm:num_preemptions",)}))], [], NOW, AGES)
    assert load.missing == (("a", ("vllm:num_preemptions",)),)


class TestPartialSums:
    """Arrivals of pods that do not count requests."""

    COUNTS = ({"finished": 0}, {"finished": 10})
    """One request a second."""

    def rate(self, *readings: ReplicaReading) -> float | None:
        flow = load_of(readings, (), NOW, Ages()).flow
        return None if flow is None else flow.requests

    def test_the_others_stand_for_a_pod_without_counters(self):
        counting = a_history(*self.COUNTS, every_seconds=10)
        silent = a_history({}, {}, {}, every_seconds=10)
        assert self.rate(a_reading("a", counting), a_reading("b", counting), a_reading("c", silent)) == 3

    def test_the_others_stand_for_a_pod_that_was_never_scraped(self):
        counting = a_history(*self.COUNTS, every_seconds=10)
        assert self.rate(a_reading("a", counting), a_reading("b")) == 2

    def test_a_pod_that_has_just_become_ready_adds_nothing_yet(self):
        counting = a_history(*self.COUNTS, every_seconds=10)
        assert self.rate(a_reading("a", counting), a_reading("b", ready_since=NOW - 5)) == 1
        assert self.rate(a_reading("a", counting), a_reading("b", a_history({}))) == 1

    def test_without_any_counter_the_flow_is_unknown(self):
        assert self.rate(a_reading("a", a_history({}, {}, {}, every_seconds=10))) is None
