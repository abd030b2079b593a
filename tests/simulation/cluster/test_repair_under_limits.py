"""Nodes that die or announce their end in the closed loop: the operator's limits do not hold repair back.

Seven replicas serve 6.4 requests a second, two on each node. The same run without limits says what repair can do.
"""

from collections.abc import Callable
from functools import cache

import pytest

from forebay.simulation.cluster.closed_loop import ClosedLoop
from forebay.simulation.cluster.cold_start import NodePool
from forebay.simulation.traffic.traces import steady
from forebay.world.settings import Settings
from tests.simulation.loops import PROMISE
from tests.simulation.stories import Story, play

RATE, REPLICAS, MAX_REPLICAS = 6.4, 7, 8
LOST_AT, SECONDS = 400.0, 1000.0
LEAD_SECONDS, COOLDOWN_SECONDS = 120.0, 120.0
NOTICE_SECONDS = 120.0
TIGHT = Settings(max_drains_per_10_minutes=1, max_creates_per_minute=2)

Fault = Callable[[ClosedLoop], object]


def dead(*nodes: str, at: float = LOST_AT) -> Fault:
    """Their kubelets die."""

    def kill(loop: ClosedLoop) -> None:
        for node in nodes:
            loop.cluster.kill_node(node)

    return lambda loop: loop.at(at, kill)


def noticed(node: str, at: float = LOST_AT) -> Fault:
    """The node says that it will end, and ends."""

    def prepare(loop: ClosedLoop) -> None:
        loop.at(at, lambda then: then.cluster.give_notice(node))
        loop.at(at + NOTICE_SECONDS, lambda then: then.cluster.kill_node(node))

    return prepare


def both(first: Fault, second: Fault) -> Fault:
    return lambda loop: (first(loop), second(loop))


FAULTS: dict[str, Fault] = {
    "a node dies": dead("gpu-0"),
    "two nodes die at once": dead("gpu-0", "gpu-1"),
    "one dies, and another while it is replaced": both(dead("gpu-0"), dead("gpu-1", at=LOST_AT + 60)),
    "a node has a notice": noticed("gpu-0"),
    "two nodes have notices, a minute apart": both(noticed("gpu-0"), noticed("gpu-1", at=LOST_AT + 60)),
    "a node has a notice, and another dies": both(noticed("gpu-0"), dead("gpu-1", at=LOST_AT + 30)),
}


@cache
def run(fault: str, settings: Settings) -> Story:
    return play(
        steady(RATE),
        SECONDS,
        initial_replicas=REPLICAS,
        max_replicas=MAX_REPLICAS,
        pools=(NodePool(nodes=10, gpus_per_node=2),),
        scaling={"scaleDownCooldown": f"{COOLDOWN_SECONDS:.0f}s"},
        settings=settings,
        prepare=FAULTS[fault],
    )


@pytest.mark.parametrize("fault", FAULTS)
def test_limits_cost_no_repair(fault: str):
    limited, free = run(fault, TIGHT), run(fault, Settings())
    pairs = list(zip(limited.wanted(30), free.wanted(30), strict=True))
    assert max(abs(count - expected) for count, expected in pairs) <= 1
    assert limited.in_time(LOST_AT, SECONDS) >= free.in_time(LOST_AT, SECONDS) - 0.01
    assert min(limited.serving(30, SECONDS)) >= min(free.serving(30, SECONDS))
    recovered_from = LOST_AT + 60 + 2 * COOLDOWN_SECONDS
    recovered = zip(limited.serving(recovered_from), free.serving(recovered_from), strict=True)
    assert max(abs(count - expected) for count, expected in recovered) <= 1


@pytest.mark.parametrize("fault", [name for name in FAULTS if "dies" not in name and "die " not in name])
def test_a_notice_costs_no_stream(fault: str):
    assert run(fault, TIGHT).done.summary(PROMISE).failed == 0
