"""One tick of a large fleet must leave most of its five seconds to the cluster."""

import time

import pytest

from forebay.planner.memory import State
from forebay.planner.planner import plan
from forebay.scaling.load.signals import PodSignals
from forebay.world.world import PodView, ServiceView, World
from tests.builders.loads import a_replica_capacity
from tests.builders.world import NOW, a_histogram, a_sample, a_service, a_world, nodes, pods_of

SERVICES, REPLICAS, MOST_SECONDS = 200, 8, 1.0
"""Measured: 0.3 s on a shared core. The bound leaves room for a busier machine."""
BOUNDS = [0.001 * 1.5**step for step in range(22)]


def a_tick(services: list[ServiceView], pods: list[PodView], now: float, tick: int) -> World:
    latencies = a_histogram({bound: 10.0 * tick + index for index, bound in enumerate(BOUNDS)})
    sample = a_sample(
        at=now,
        running=20,
        waiting=2,
        kv=0.3,
        steps=100.0 * tick,
        finished=500.0 * tick,
        prompt_tokens=250_000.0 * tick,
        generation_tokens=100_000.0 * tick,
        finished_prompt_tokens=250_000.0 * tick,
        finished_output_tokens=100_000.0 * tick,
        queue_time=latencies,
        time_to_first_token=latencies,
        inter_token_latency=latencies,
    )
    signals = {pod.uid: PodSignals(sample) for pod in pods}
    return a_world(*services, pods=pods, signals=signals, nodes=nodes(SERVICES))


@pytest.mark.alone
def test_200_services_of_8_replicas_each():
    services = [
        a_service(f"s{index:03}", min_replicas=4, max_replicas=REPLICAS, replica_capacity=a_replica_capacity())
        for index in range(SERVICES)
    ]
    pods = [pod for index, service in enumerate(services) for pod in pods_of(service, REPLICAS, node=f"node-{index}")]
    state, took = State.empty(NOW - 3600), []
    for tick in range(12):
        world = a_tick(services, pods, NOW + 5 * tick, tick)
        began = time.process_time()
        done, state = plan(world, state, NOW + 5 * tick)
        took.append(time.process_time() - began)
        assert [share.error for share in done.services] == [None] * SERVICES
    assert min(took[8:]) < MOST_SECONDS
    offered_work = [memory.scaling.offered_work for memory in state.services.values()]
    assert all(found is not None and found.work is not None for found in offered_work), "the work was counted"
