"""One tick of a large fleet must leave most of its five seconds to the cluster."""

import time
from dataclasses import replace
from typing import Any

import pytest

from forebay.planner.memory import State
from forebay.planner.planner import plan
from forebay.scaling.load.signals import PodSignals
from forebay.world.tenants import TenantQuotaView
from forebay.world.world import PodView, ServiceView, World
from tests.builders.loads import a_replica_capacity
from tests.builders.tenant_quotas import a_tenant_quota
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


MANY, QUOTAS, MOST_WITH_QUOTAS = 1000, 100, 1.15
"""Services, quotas, and how much longer a plan may take with them."""


@pytest.mark.alone
@pytest.mark.parametrize("new_samples", [True, False], ids=["new samples of all pods", "all services at rest"])
def test_100_quotas_beside_1000_services(new_samples: bool):
    """Each tenant has 10 namespaces of one service, and a share of 20 models of others."""
    services = [
        a_service(
            "chat", namespace=f"n{index:04}", min_replicas=4, max_replicas=8, replica_capacity=a_replica_capacity()
        )
        for index in range(MANY)
    ]
    pods = [pod for index, service in enumerate(services) for pod in pods_of(service, 4, node=f"node-{index}")]
    models = [str(service.key) for service in services]
    quotas = [
        a_tenant_quota(
            f"tenant-{number}",
            namespaces=[f"n{index:04}" for index in range(number * 10, number * 10 + 10)],
            gpus=[{"guaranteed": 8}],
            tokens={models[(number * 10 + step) % MANY]: (1000, 2_000_000) for step in range(20)},
            **parent_of(number),
        )
        for number in range(QUOTAS)
    ]
    took = {
        with_quotas: _settled(services, pods, quotas if with_quotas else [], new_samples)
        for with_quotas in (False, True)
    }
    assert took[True] <= MOST_WITH_QUOTAS * took[False], took


def parent_of(number: int) -> dict[str, Any]:
    """The first ten tenants are organisations of the others."""
    return {"parent": f"tenant-{number // 10}"} if number >= 10 else {}


def _settled(
    services: list[ServiceView], pods: list[PodView], quotas: list[TenantQuotaView], new_samples: bool
) -> float:
    """CPU seconds per tick, over half a minute of settled ticks."""
    state, took = State.empty(NOW - 3600), 0.0
    world = a_tick(services, pods, NOW, 0)
    for tick in range(12):
        if new_samples or tick < 6:
            world = a_tick(services, pods, NOW + 5 * tick, tick)
        world = replace(world, tenant_quotas=tuple(quotas))
        began = time.process_time()
        done, state = plan(world, state, NOW + 5 * tick)
        if tick >= 6:
            took += time.process_time() - began
        assert [share.error for share in done.services] == [None] * len(services)
        assert len(done.tenants) == len(quotas)
    return took / 6


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
