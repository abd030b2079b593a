"""The load window: what it keeps, and what clears it."""

import pytest

from forebay.scaling.load.freshness import Freshness
from forebay.scaling.load.load_window import MOST_OVERLOADS, LoadWindow, update_load_window
from forebay.scaling.load.service_load import ServiceLoad, SilentReplica
from forebay.scaling.rules.guards import late
from tests.builders.loads import a_latency, a_load, some_limits
from tests.builders.world import NOW

LIMITS = some_limits(scale_down_cooldown_seconds=300, scale_up_cooldown_seconds=90)
LATE = a_latency({0.1: 0, 1.0: 0, 9.0: 100})


def watched(
    load, seconds: float, load_window: LoadWindow | None = None, *, begin: float = NOW, step: float = 5.0
) -> LoadWindow:
    load_window = load_window or LoadWindow()
    at = begin
    while at <= begin + seconds:
        load_window = update_load_window(load_window, load(at) if callable(load) else load, LIMITS, at, late)
        at += step
    return load_window


def test_a_window_is_covered_once_it_was_watched_from_end_to_end():
    load_window = watched(a_load(2), 300)
    assert not load_window.covers(300, NOW + 299)
    assert load_window.covers(300, NOW + 300)


def test_a_peak_counts_until_it_has_left_the_window():
    load_window = watched(lambda at: a_load(2, waiting=30 if at == NOW else 0), 300)
    assert load_window.waiting_requests == 30
    load_window = watched(a_load(2), 20, load_window, begin=NOW + 305)
    assert load_window.waiting_requests == 0


@pytest.mark.parametrize("step", [1.0, 5.0, 50.0])
def test_it_is_bounded(step):
    load_window = watched(lambda at: a_load(2, waiting=at % 7, queue_time=LATE, running=500), 7200, step=step)
    assert len(load_window.parts) <= 22
    assert len(load_window.overloads) <= MOST_OVERLOADS


@pytest.mark.parametrize(
    ("gap", "ends"),
    [
        pytest.param(
            a_load(2, silent=(SilentReplica("a", Freshness.STALE, NOW, None),)),
            True,
            id="one reports no metrics any more",
        ),
        pytest.param(a_load(0), True, id="no replica serves"),
        pytest.param(
            a_load(3, silent=(SilentReplica("a", Freshness.STALE, NOW, None, new=True),)),
            False,
            id="one is new and waited for",
        ),
        pytest.param(
            ServiceLoad(1, 0, 0, 0, 0, silent=(SilentReplica("a", Freshness.STALE, NOW, None, new=True),)),
            False,
            id="the only one is new",
        ),
    ],
)
def test_a_gap_ends_the_watch(gap, ends):
    load_window = update_load_window(watched(a_load(2), 300), gap, LIMITS, NOW + 305, late)
    assert load_window.covers(300, NOW + 305) is not ends


def test_a_time_without_an_observation_is_a_gap():
    load_window = update_load_window(watched(a_load(2), 300), a_load(2), LIMITS, NOW + 300 + 61, late)
    assert not load_window.covers(300, NOW + 361)


def test_a_latency_within_the_headroom_of_its_limit_is_noted():
    near = a_latency({0.1: 0, 0.8: 0, 0.95: 100})
    limits = some_limits(queue_wait_seconds=1.0, headroom=0.2)
    load_window = update_load_window(LoadWindow(), a_load(2, running=9, queue_time=near), limits, NOW, late)
    assert load_window.parts[0].late.startswith("queue wait (p99) was 948 ms")
    assert load_window.overloads == ()


def test_a_load_that_made_requests_late_is_remembered_for_six_cooldowns():
    load_window = update_load_window(LoadWindow(), a_load(2, running=90, queue_time=LATE), LIMITS, NOW, late)
    assert [overload.running_per_replica for overload in load_window.overloads] == [45]
    assert update_load_window(load_window, a_load(2), LIMITS, NOW + 1799, late).overloads == load_window.overloads
    assert update_load_window(load_window, a_load(2), LIMITS, NOW + 1800, late).overloads == ()


def test_lateness_without_load_is_no_overload():
    assert update_load_window(LoadWindow(), a_load(2, running=1, queue_time=LATE), LIMITS, NOW, late).overloads == ()


def test_overloads_survive_a_gap():
    load_window = update_load_window(LoadWindow(), a_load(2, running=90, queue_time=LATE), LIMITS, NOW, late)
    assert update_load_window(load_window, a_load(0), LIMITS, NOW + 5, late).overloads == load_window.overloads
