"""Situations that people ask about, played by the production planner against a cluster in memory."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from forebay.api.inference_service import ScalingMode
from forebay.api.instants import rfc3339
from forebay.cli.service_reading import ServiceReading
from tests.builders.cluster import Cluster, a_cluster
from tests.builders.engines import Demand
from tests.builders.loads import a_replica_capacity
from tests.builders.schedules import a_schedule
from tests.builders.variants import BIG, a_mixed_cluster, serve
from tests.builders.world import a_node, a_revision, a_service, a_spec


def reading_of(cluster: Cluster, name: str = "chat") -> ServiceReading:
    service = cluster.services[name]
    return ServiceReading(service.key.namespace, name, service.generation, service.spec, service.status)


def busy(replicas: int, requests: float, *, gpus: int = 8, **fields: Any) -> Cluster:
    """The service `chat` under a load, served by its minimum of replicas, after ten minutes of observation."""
    fields = {"min_replicas": replicas, "max_replicas": 8, **fields}
    cluster = a_cluster(a_service("chat", **fields))
    cluster.nodes = {"node-0": a_node("node-0", gpus=gpus)}
    cluster.demand["chat"] = Demand(requests=requests)
    cluster.run_until(lambda: len(cluster.serving("chat")) == replicas)
    cluster.run(600, tick_seconds=20)
    return cluster


def spec_with(cluster: Cluster, **fields: Any) -> None:
    """A change of bounds or mode, which restarts no pod."""
    cluster.edit("chat", spec=a_spec(**fields))


def steady() -> Cluster:
    cluster = busy(2, 60, replica_capacity=a_replica_capacity())
    cluster.demand["chat"] = Demand(requests=60, arrivals=30)
    cluster.run(900)
    return cluster


def guard_fired() -> Cluster:
    cluster = busy(2, 120)
    cluster.demand["chat"] = Demand(requests=290)
    cluster.run(5)
    return cluster


def loading() -> Cluster:
    cluster = guard_fired()
    cluster.run(30)
    return cluster


def cooldown() -> Cluster:
    """The new replica serves, and too many requests still wait."""
    cluster = busy(2, 120)
    cluster.demand["chat"] = Demand(requests=390)
    cluster.run(5)
    cluster.run_until(lambda: len(cluster.serving("chat")) == 3)
    cluster.run(10)
    return cluster


def coming_down() -> Cluster:
    """A peak is over, and its replicas still serve."""
    cluster = busy(2, 120)
    cluster.demand["chat"] = Demand(requests=250)
    cluster.run_until(lambda: len(cluster.serving("chat")) == 3)
    cluster.run(400)
    cluster.demand["chat"] = Demand(requests=40)
    cluster.run(120)
    return cluster


def draining() -> Cluster:
    cluster = coming_down()
    cluster.stream_seconds = 120
    cluster.run_until(lambda: len(cluster.holding_places("chat")) == 2)
    cluster.run(15)
    return cluster


def stuck_pending() -> Cluster:
    cluster = busy(2, 120, gpus=2)
    cluster.demand["chat"] = Demand(requests=290)
    cluster.run(400)
    return cluster


def metrics_lost() -> Cluster:
    cluster = busy(2, 120, min_replicas=2)
    spec_with(cluster, min_replicas=1, max_replicas=8)
    cluster.silent.add("chat")
    cluster.run(400)
    return cluster


def at_max_replicas() -> Cluster:
    cluster = busy(2, 390, max_replicas=2)
    cluster.run(60)
    return cluster


def recommend() -> Cluster:
    cluster = busy(2, 120)
    spec_with(cluster, min_replicas=2, max_replicas=8, mode=ScalingMode.RECOMMEND)
    cluster.demand["chat"] = Demand(requests=290)
    cluster.run(30)
    return cluster


def paused() -> Cluster:
    cluster = busy(2, 120)
    spec_with(cluster, min_replicas=2, max_replicas=8, mode=ScalingMode.PAUSED)
    cluster.demand["chat"] = Demand(requests=290)
    cluster.run(30)
    return cluster


def rollout() -> Cluster:
    cluster = busy(3, 120)
    cluster.edit("chat", wanted=a_revision("9e1d"))
    cluster.run(150)
    return cluster


def failed_rollout() -> Cluster:
    cluster = busy(2, 120)
    cluster.crashing.add("9e1d")
    cluster.edit("chat", wanted=a_revision("9e1d"))
    cluster.run(900)
    return cluster


def after_restart() -> Cluster:
    cluster = busy(2, 120)
    cluster.demand["chat"] = Demand(requests=250)
    cluster.run_until(lambda: len(cluster.serving("chat")) == 3)
    cluster.run(900)
    cluster.restart_operator()
    cluster.run(20)
    return cluster


def starting() -> Cluster:
    cluster = a_cluster(a_service("chat", min_replicas=2, max_replicas=8))
    cluster.run(25)
    return cluster


def crash_loop() -> Cluster:
    cluster = a_cluster(a_service("chat", min_replicas=1, max_replicas=4))
    cluster.crashing.add("7f3c")
    cluster.run(120)
    return cluster


def scheduled(at: str, *, gpus: int = 8, replicas: int = 4) -> Cluster:
    """At 15:17:10, ten and a half minutes after the start, a window is upcoming or open."""
    return busy(2, 60, gpus=gpus, schedules=(a_schedule(at=(at,), zone="UTC", replicas=replicas),))


def schedule_ahead() -> Cluster:
    return scheduled("2025-06-15T18:00")


def schedule_warming() -> Cluster:
    return scheduled("2025-06-15T15:22")


def schedule_at_risk() -> Cluster:
    """A schedule asks for four replicas, and the nodes have GPUs for three."""
    return scheduled("2025-06-15T15:22", gpus=3)


def schedule_open() -> Cluster:
    cluster = scheduled("2025-06-15T15:22")
    cluster.run(900)
    return cluster


def sleepy() -> Cluster:
    """One replica without requests, which may scale to zero."""
    cluster = a_cluster(a_service("chat", min_replicas=0, max_replicas=4, scale_to_zero_after="15m"))
    cluster.demand["chat"] = Demand(requests=0, arrivals=0)
    cluster.run_until(lambda: len(cluster.serving("chat")) == 1)
    cluster.run(420)
    return cluster


def at_zero() -> Cluster:
    cluster = sleepy()
    cluster.run_until(lambda: not cluster.pods_of("chat"))
    cluster.run(600)
    return cluster


def woken() -> Cluster:
    cluster = at_zero()
    cluster.services["chat"] = replace(cluster.services["chat"], wake_requested_at=rfc3339(cluster.now))
    cluster.run(15)
    return cluster


def variant_used() -> Cluster:
    """GPUs of the service's own product are free for one of three replicas."""
    cluster = a_mixed_cluster(big=1)
    cluster.run_until(serve(cluster, 1, 2))
    cluster.run(60)
    return cluster


def variants_all_short() -> Cluster:
    """Neither GPU product is free for the third replica."""
    cluster = a_mixed_cluster(small=0)
    cluster.run(800)
    return cluster


def variant_returning() -> Cluster:
    """Nodes with the service's own GPU were added, and the first replica fails back."""
    cluster = a_mixed_cluster(big=1)
    cluster.run_until(serve(cluster, 1, 2))
    cluster.add_node(a_node("more", product=BIG))
    cluster.run_until(lambda: len(cluster.pods_of("chat")) == 4)
    cluster.run(20)
    return cluster


def variant_without_surge() -> Cluster:
    """The service's own GPU is free, but maxReplicas is reached."""
    cluster = a_mixed_cluster(big=1, max_surge=0)
    cluster.run_until(serve(cluster, 1, 2))
    cluster.add_node(a_node("more", product=BIG))
    cluster.run(1200)
    return cluster


SITUATIONS: tuple[Callable[[], Cluster], ...] = (
    steady,
    guard_fired,
    loading,
    cooldown,
    coming_down,
    draining,
    stuck_pending,
    metrics_lost,
    at_max_replicas,
    recommend,
    paused,
    rollout,
    failed_rollout,
    after_restart,
    starting,
    crash_loop,
    schedule_ahead,
    schedule_warming,
    schedule_at_risk,
    schedule_open,
    sleepy,
    at_zero,
    woken,
    variant_used,
    variants_all_short,
    variant_returning,
    variant_without_surge,
)
