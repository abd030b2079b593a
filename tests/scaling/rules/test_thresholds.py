"""Thresholds: up to the value that is shown the count stays, and just past it the count changes."""

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.api.inference_service import ScalingMode
from forebay.scaling.decision import Decision
from forebay.scaling.limits import Limits
from forebay.scaling.load.arrivals import ArrivalFlow
from forebay.scaling.rules.situation import ReplicaCounts, ScalingMemory
from tests.builders.loads import a_load, a_replica_capacity
from tests.builders.loads import decided as decided_once
from tests.builders.world import NOW

LIMITS = Limits(min_replicas=1, max_replicas=20)


def watched(replicas: int, limits: Limits, *, waiting: float = 0.0, kv: float = 0.0) -> ScalingMemory:
    """The memory after so many replicas carried such a load for ten minutes."""
    memory = ScalingMemory(replicas, NOW - 9999, NOW - 9999)
    load, fixed = a_load(replicas, waiting=waiting, kv=kv), replace(limits, min_replicas=replicas)
    for second in range(-600, 0, 5):
        _, memory = decided_once(fixed, load, ReplicaCounts(serving=replicas), ScalingMode.AUTO, memory, NOW + second)
    return memory


def decided(replicas: int, limits: Limits = LIMITS, *, waiting: float = 0.0, kv: float = 0.0) -> Decision:
    load, memory = a_load(replicas, waiting=waiting, kv=kv), watched(replicas, limits, waiting=waiting, kv=kv)
    return decided_once(limits, load, ReplicaCounts(serving=replicas), ScalingMode.AUTO, memory, NOW)[0]


def value(lines: tuple[str, ...], pattern: str) -> float:
    """The number in the only line that matches."""
    (number,) = [match[1] for line in lines if (match := re.search(pattern, line))]
    return float(number)


@given(replicas=st.integers(1, 12), queue_depth=st.integers(1, 40), now=st.integers(0, 5))
def test_past_the_threshold_the_rule_asks_for_more(replicas: int, queue_depth: int, now: int):
    limits = replace(LIMITS, queue_depth=float(queue_depth))
    memory = ScalingMemory(replicas, NOW - 10, NOW - 9999)
    counts = ReplicaCounts(serving=replicas)

    def at(waiting: float) -> Decision:
        return decided_once(limits, a_load(replicas, waiting=waiting), counts, ScalingMode.AUTO, memory, NOW)[0]

    before = at(min(now, queue_depth * replicas))
    point = value(before.would_raise, r"More than ([0-9]+) waiting request")
    assert at(point).desired == replicas
    assert at(point + 1).desired > replicas
    assert at(point + 1).rule == "queue_depth"


def test_a_kv_cache_past_its_threshold_asks_for_more():
    point = value(decided(3, kv=0.7).would_raise, r"more than ([0-9]+) % full") / 100
    memory = ScalingMemory(3, NOW - 10, NOW - 9999)

    def at(kv: float) -> int:
        return decided_once(LIMITS, a_load(3, kv=kv), ReplicaCounts(serving=3), ScalingMode.AUTO, memory, NOW)[
            0
        ].desired

    assert (at(point), at(point + 0.01)) == (3, 4)


@pytest.mark.parametrize("replicas", [2, 3, 5, 9])
def test_a_queue_at_the_threshold_removes_a_replica(replicas: int):
    most = value(decided(replicas, waiting=20.0 * replicas).would_lower, r"at most ([0-9]+) requests? waiting")
    assert decided(replicas, waiting=most).desired == replicas - 1
    assert decided(replicas, waiting=most + 1).desired == replicas


@pytest.mark.parametrize("replicas", [2, 3, 5, 9])
def test_a_kv_cache_at_the_threshold_removes_a_replica(replicas: int):
    most = value(decided(replicas, kv=0.79).would_lower, r"at most ([0-9]+) % full") / 100
    assert decided(replicas, kv=most - 0.01).desired == replicas - 1
    assert decided(replicas, kv=most + 0.01).desired == replicas


@pytest.mark.parametrize(
    ("replicas", "expected"),
    [
        pytest.param(3, [NOW + 200], id="a third goes when the cooldown is over"),
        pytest.param(4, [], id="a quarter waits for nothing"),
    ],
)
def test_the_end_of_the_cooldown_after_a_step_down_is_upcoming(replicas: int, expected: list[float]):
    memory = replace(watched(replicas, LIMITS, kv=0.79), lowered_at=NOW - 100)
    decision, _ = decided_once(
        LIMITS, a_load(replicas, kv=0.79), ReplicaCounts(serving=replicas), ScalingMode.AUTO, memory, NOW
    )
    assert [due.at for due in decision.upcoming] == expected


def test_work_past_its_threshold_asks_for_more():
    def at(requests_per_second: float) -> Decision:
        memory, load = ScalingMemory(3, NOW - 9999, NOW - 9999), a_load(3, flow=ArrivalFlow(requests_per_second))
        for second in range(-200, 1, 5):
            decision, memory = decided_once(
                LIMITS,
                load,
                ReplicaCounts(serving=3),
                ScalingMode.AUTO,
                memory,
                NOW + second,
                replica_capacity=a_replica_capacity(),
            )
        return decision

    before = at(100)
    assert before.desired == 3
    point = value(before.would_raise, r"or ([0-9.]+) requests of this kind")
    assert at(point * 0.97).desired == 3
    assert at(point * 1.06).desired == 4


def test_at_its_bounds_only_other_bounds_change_the_count():
    at_most = decided(2, replace(LIMITS, min_replicas=2, max_replicas=2), waiting=500)
    (raised,), (lowered,) = at_most.would_raise, at_most.would_lower
    assert re.findall(r"maxReplicas|\d+", raised) == ["maxReplicas", "2", "3"]
    assert "minReplicas is 2" in lowered
