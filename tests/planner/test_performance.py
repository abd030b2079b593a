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
from tests.builders.world import NOW, a_histogram, a_sample, a_service, a_world, nodes, pods_of, signals_of

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
@pytest.mark.parametrize(
    ("ticks", "seconds", "new_samples"),
    [
        pytest.param(8, 5.0, True, id="new samples of all pods"),
        pytest.param(40, 1.0, False, id="all services at rest, and the end of their rest"),
    ],
)
def test_100_quotas_beside_1000_services(ticks: int, seconds: float, new_samples: bool):
    """Each tenant has 10 namespaces of one service, and a share of 20 models. The two fleets take turns, so that what
    else the machine does falls on both."""
    services, pods, quotas = a_shared_fleet()
    idle = a_world(*services, pods=pods, signals=signals_of(pods), nodes=nodes(MANY))
    states = {with_quotas: State.empty(NOW - 3600) for with_quotas in (False, True)}
    took = dict.fromkeys(states, 0.0)
    for tick in range(ticks):
        world = a_tick(services, pods, NOW + seconds * tick, tick) if new_samples else idle
        for with_quotas in sorted(states, reverse=bool(tick % 2)):
            seen = replace(world, tenant_quotas=tuple(quotas if with_quotas else ()))
            began = time.process_time()
            done, states[with_quotas] = plan(seen, states[with_quotas], NOW + seconds * tick)
            took[with_quotas] += (time.process_time() - began) if tick >= 2 else 0.0
            assert [share.error for share in done.services] == [None] * len(services)
            assert len(done.tenants) == (QUOTAS if with_quotas else 0)
    print(f"CPU without and with quotas: {took[False]:.2f} s, {took[True]:.2f} s")
    assert took[True] <= MOST_WITH_QUOTAS * took[False], took


def a_shared_fleet() -> tuple[list[ServiceView], list[PodView], list[TenantQuotaView]]:
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
    return services, pods, quotas


def parent_of(number: int) -> dict[str, Any]:
    """The first ten tenants are organisations of the others."""
    return {"parent": f"tenant-{number // 10}"} if number >= 10 else {}


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
