"""Fleets of hundreds of services under load, with and without TenantQuotas."""

from collections.abc import Iterable, Sequence
from typing import Any

from forebay.scaling.load.signals import PodSignals
from forebay.world.tenants import TenantQuotaView
from forebay.world.world import PodView, ServiceView, World
from tests.builders.loads import a_replica_capacity
from tests.builders.tenant_quotas import a_tenant_quota
from tests.builders.world import a_histogram, a_sample, a_service, a_world, nodes, pods_of

BOUNDS = [0.001 * 1.5**step for step in range(22)]


def a_fleet(services: int, replicas: int) -> tuple[list[ServiceView], list[PodView]]:
    """Services in namespaces of their own, each with its replicas on one node."""
    made = [
        a_service(
            "chat",
            namespace=f"n{index:04}",
            min_replicas=min(4, replicas),
            max_replicas=8,
            replica_capacity=a_replica_capacity(),
        )
        for index in range(services)
    ]
    return made, [pod for index, service in enumerate(made) for pod in pods_of(service, replicas, node=f"node-{index}")]


def a_tick(services: Sequence[ServiceView], pods: Iterable[PodView], now: float, tick: int) -> World:
    """The world at the `tick`th tick, with new samples of all pods."""
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
    return a_world(*services, pods=pods, signals=signals, nodes=nodes(len(services)))


def a_shared_fleet(services: int, quotas: int) -> tuple[list[ServiceView], list[PodView], list[TenantQuotaView]]:
    """Each tenant has as many namespaces of one service as there are for it, and a share of 20 models. The first tenth
    of the tenants are organisations of the others."""
    made, pods = a_fleet(services, 4)
    models, each = [str(service.key) for service in made], services // quotas

    def parent_of(number: int) -> dict[str, Any]:
        return {"parent": f"tenant-{number // 10}"} if number >= quotas // 10 else {}

    tenants = [
        a_tenant_quota(
            f"tenant-{number}",
            namespaces=[f"n{index:04}" for index in range(number * each, number * each + each)],
            gpus=[{"guaranteed": 8}],
            tokens={models[(number * each + step) % services]: (1000, 2_000_000) for step in range(20)},
            **parent_of(number),
        )
        for number in range(quotas)
    ]
    return made, pods, tenants
