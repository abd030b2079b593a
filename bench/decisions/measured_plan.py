"""CPU seconds of `plan()` over a large fleet, in the checkout that PYTHONPATH names; prints one line of JSON.

`whole` is a tick in which every object is new, `sampled` the longest tick when every sample is new and nothing else,
`ticks` how many ticks it takes to read these samples, and `rest` a tick in which nothing is new. It runs against older
commits too, so it asks the checkout's own builders for the world.
"""

from __future__ import annotations

import inspect
import json
import sys
import time
from dataclasses import replace
from typing import Any

from forebay.planner.planner import plan
from forebay.world.world import World
from tests.builders import loads
from tests.builders.world import NOW, a_service, pods_of

try:
    from tests.planner import large_fleet
except ImportError:
    from tests.planner import test_performance as large_fleet  # type: ignore[no-redef]
try:
    from forebay.planner.memory import State
except ModuleNotFoundError:
    from forebay.planner.state import State  # type: ignore[import-not-found,no-redef]

ROUND_SECONDS, SOON_SECONDS = 5.0, 0.5


def measured(services: int, replicas: int, ticks: int) -> dict[str, float]:
    carrier = getattr(loads, "a_replica_capacity", None) or loads.a_carrier  # type: ignore[attr-defined]
    name = "replica_capacity" if hasattr(loads, "a_replica_capacity") else "carrier"
    assert name in inspect.signature(a_service).parameters
    fields: dict[str, Any] = {"min_replicas": 4, "max_replicas": replicas, name: carrier()}
    asked = [a_service(f"s{index:04}", **fields) for index in range(services)]
    pods = [pod for index, service in enumerate(asked) for pod in pods_of(service, replicas, node=f"node-{index}")]
    large_fleet.SERVICES = services  # type: ignore[attr-defined]
    state, whole, sampled, rest = State.empty(NOW - 3600), [], [], []
    for tick in range(ticks):
        world = large_fleet.a_tick(asked, pods, NOW + ROUND_SECONDS * tick, tick)
        took, _, state = timed(world, state, NOW + ROUND_SECONDS * tick)
        whole.append(took)
    for tick in range(ticks, 2 * ticks):
        now = NOW + ROUND_SECONDS * tick
        newest = replace(world, signals=large_fleet.a_tick(asked, pods, now, tick).signals)
        took, soon, state = timed(newest, state, now)
        read = [took]
        while soon:
            took, soon, state = timed(newest, state, now + SOON_SECONDS * len(read))
            read.append(took)
        sampled.append(read)
        took, _, state = timed(newest, state, now + SOON_SECONDS * len(read))
        rest.append(took)
    quickest = min(sampled[1:], key=sum)
    return {"whole": min(whole[2:]), "sampled": max(quickest), "ticks": len(quickest), "rest": min(rest[1:])}


def timed(world: World, state: State, now: float) -> tuple[float, bool, State]:
    """CPU seconds, whether the plan asks for another tick soon, and the state after it."""
    began = time.process_time()
    done, state = plan(world, state, now)
    took = time.process_time() - began
    assert all(share.error is None for share in done.services)
    return took, done.wake_in_seconds == SOON_SECONDS, state


if __name__ == "__main__":
    print(json.dumps(measured(*(int(argument) for argument in sys.argv[1:]))))
