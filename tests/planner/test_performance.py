"""A tick costs a service no more in a large fleet than in a small one, and quotas cost little beside it.

Counted are calls of Python functions, which nothing else on the machine can change; `bench/` measures the seconds.
"""

import sys
from collections.abc import Callable
from dataclasses import replace
from types import FrameType
from typing import Any

from forebay.planner.memory import State
from forebay.planner.planner import plan
from forebay.world.plan import Plan
from forebay.world.world import World
from tests.builders.world import NOW
from tests.planner.large_fleet import a_fleet, a_shared_fleet, a_tick

TICKS = 8
MOST_GROWTH = 1.1
"""Of the calls for each service, when the fleet is four times as large."""
MOST_WITH_QUOTAS = 1.15


def calls_of(work: Callable[[], tuple[Plan, State]]) -> tuple[int, Plan, State]:
    """How many Python functions it calls, and its result."""
    calls = 0

    def count(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event == "call"

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        done, state = work()
    finally:
        sys.setprofile(before)
    return calls, done, state


def calls_per_tick(worlds: Callable[[float, int], World]) -> tuple[float, Plan, State]:
    """Calls of a tick once rates and lengths are known, the last plan and its state."""
    state, counted = State.empty(NOW - 3600), []
    for tick in range(TICKS):
        now = NOW + 5.0 * tick
        calls, done, state = calls_of(lambda now=now, tick=tick, state=state: plan(worlds(now, tick), state, now))  # type: ignore[misc]
        counted.append(calls)
        assert [share.error for share in done.services] == [None] * len(done.services)
    return sum(counted[3:]) / (TICKS - 3), done, state


def test_a_service_costs_no_more_in_a_larger_fleet():
    calls = {}
    for services in (25, 100):
        made, pods = a_fleet(services, 8)
        of_tick, _, state = calls_per_tick(lambda now, tick, made=made, pods=pods: a_tick(made, pods, now, tick))  # type: ignore[misc]
        calls[services] = of_tick / services
        offered_work = [memory.scaling.offered_work for memory in state.services.values()]
        assert all(found is not None and found.work is not None for found in offered_work), "the work was counted"
    assert calls[100] <= MOST_GROWTH * calls[25], calls


def test_quotas_cost_little_beside_the_services_that_they_divide():
    services, pods, quotas = a_shared_fleet(100, 10)
    without, _, _ = calls_per_tick(lambda now, tick: a_tick(services, pods, now, tick))
    with_quotas, done, _ = calls_per_tick(
        lambda now, tick: replace(a_tick(services, pods, now, tick), tenant_quotas=tuple(quotas))
    )
    assert len(done.tenants) == len(quotas)
    assert with_quotas <= MOST_WITH_QUOTAS * without, (without, with_quotas)
