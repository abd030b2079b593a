"""`python -m bench.tenant_cost`: how much longer `plan()` takes for 1,000 services when 100 TenantQuotas divide them.

Each tenant has 10 namespaces of one service, and a share of 20 models. The two fleets take turns, so that what else the
machine does falls on both; the goal is a ratio of 1.15.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from time import process_time

from forebay.planner.memory import State
from forebay.planner.planner import plan
from tests.builders.world import NOW, a_world, nodes, signals_of
from tests.planner.large_fleet import a_shared_fleet, a_tick

SERVICES, QUOTAS, GOAL = 1000, 100, 1.15
FIRST_TICKS = 2
"""Not counted: everything is new."""
CASES = {
    "new samples of all pods": (8, 5.0, True),
    "all services at rest, and the end of their rest": (40, 1.0, False),
}
"""Ticks, seconds between two, and whether samples are new at each, by name."""


def main() -> int:
    for name, case in CASES.items():
        without, with_quotas = seconds(*case)
        print(f"{name}: {without:.2f} s of CPU, {with_quotas:.2f} s with quotas, ratio {with_quotas / without:.2f}")
    print(f"goal: {GOAL}")
    return 0


def seconds(ticks: int, apart: float, new_samples: bool) -> tuple[float, float]:
    """CPU seconds without and with quotas."""
    services, pods, quotas = a_shared_fleet(SERVICES, QUOTAS)
    idle = a_world(*services, pods=pods, signals=signals_of(pods), nodes=nodes(SERVICES))
    states = {with_quotas: State.empty(NOW - 3600) for with_quotas in (False, True)}
    took = dict.fromkeys(states, 0.0)
    for tick in range(ticks):
        now = NOW + apart * tick
        world = a_tick(services, pods, now, tick) if new_samples else idle
        for with_quotas in sorted(states, reverse=bool(tick % 2)):
            seen = replace(world, tenant_quotas=tuple(quotas if with_quotas else ()))
            began = process_time()
            _, states[with_quotas] = plan(seen, states[with_quotas], now)
            took[with_quotas] += process_time() - began if tick >= FIRST_TICKS else 0.0
    return took[False], took[True]


if __name__ == "__main__":
    sys.exit(main())
