"""CPU seconds of one `plan()` over a large fleet, in the checkout that PYTHONPATH names; prints one line of JSON.

It runs against older commits too, so it asks the checkout's own builders for the world.
"""

from __future__ import annotations

import inspect
import json
import sys
import time
from typing import Any

from forebay.planner.planner import plan
from tests.builders import loads
from tests.builders.world import NOW, a_service, pods_of
from tests.planner import test_performance

try:
    from forebay.planner.memory import State
except ModuleNotFoundError:
    from forebay.planner.state import State  # type: ignore[import-not-found,no-redef]


def measured(services: int, replicas: int, ticks: int) -> dict[str, float]:
    carrier = getattr(loads, "a_replica_capacity", None) or loads.a_carrier  # type: ignore[attr-defined]
    name = "replica_capacity" if hasattr(loads, "a_replica_capacity") else "carrier"
    assert name in inspect.signature(a_service).parameters
    fields: dict[str, Any] = {"min_replicas": 4, "max_replicas": replicas, name: carrier()}
    asked = [a_service(f"s{index:04}", **fields) for index in range(services)]
    pods = [pod for index, service in enumerate(asked) for pod in pods_of(service, replicas, node=f"node-{index}")]
    test_performance.SERVICES = services
    state, took = State.empty(NOW - 3600), []
    for tick in range(ticks):
        world = test_performance.a_tick(asked, pods, NOW + 5 * tick, tick)
        began = time.process_time()
        done, state = plan(world, state, NOW + 5 * tick)
        took.append(time.process_time() - began)
        assert all(share.error is None for share in done.services)
    return {"first": took[0], "settled": min(took[2:]), "median": sorted(took[2:])[len(took[2:]) // 2]}


if __name__ == "__main__":
    print(json.dumps(measured(*(int(argument) for argument in sys.argv[1:]))))
