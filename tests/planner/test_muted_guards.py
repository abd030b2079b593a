"""What keeps guards from acting ends: a queue that seems to shrink, and replicas that crash and return."""

from dataclasses import replace

from tests.builders.cluster import Cluster, a_cluster
from tests.builders.engines import Demand
from tests.builders.world import a_node, a_service

OVERLOAD = Demand(requests=900.0, per_replica=100.0)
DIP_EVERY_SECONDS = 60.0
TICK_SECONDS = 5.0


def overloaded(*, minimum: int, maximum: int) -> Cluster:
    """A service without a capacity model, which only guards scale, that has served a calm load."""
    cluster = a_cluster(
        a_service(min_replicas=minimum, max_replicas=maximum), nodes=[a_node(f"node-{i}") for i in range(4)]
    )
    cluster.run_until(lambda: len(cluster.serving("chat")) == minimum)
    cluster.run(300)
    return cluster


def replicas_under_overload(*, dips: bool) -> list[int]:
    """Serving replicas at each tick. With `dips`, one look a minute shows an almost empty queue."""
    cluster = overloaded(minimum=2, maximum=10)
    began, path = cluster.now, []
    while cluster.now - began < 900:
        passed = cluster.now - began
        dip = dips and passed >= 30 and passed % DIP_EVERY_SECONDS < TICK_SECONDS
        cluster.demand["chat"] = replace(OVERLOAD, requests=205.0) if dip else OVERLOAD
        cluster.tick()
        cluster.now += TICK_SECONDS
        path.append(len(cluster.serving("chat")))
    return path


def test_one_low_look_a_minute_does_not_keep_guards_from_acting():
    honest, with_dips = replicas_under_overload(dips=False), replicas_under_overload(dips=True)
    assert max(honest) == 10
    assert max(abs(count - expected) for count, expected in zip(with_dips, honest, strict=True)) <= 1


def crash_after(cluster: Cluster, seconds: float) -> None:
    """The containers of seven in ten replicas restart whenever they have been ready for that long."""
    for pod in cluster.pods_of("chat"):
        if pod.ordinal % 10 < 7 and pod.ready_since is not None and cluster.now - pod.ready_since >= seconds:
            down = replace(pod, ready=False, ready_since=None, unready_since=cluster.now, restarts=pod.restarts + 1)
            cluster.engines[pod.uid].scheduled_at = cluster.now
            cluster.store((pod.key.namespace, pod.name), down)


def test_replicas_that_crash_again_and_again_do_not_hold_back_the_others():
    """Seven in ten replicas crash under overload every 150 s and load for a minute after each."""
    cluster = overloaded(minimum=10, maximum=20)
    cluster.demand["chat"] = Demand(requests=1200.0, per_replica=60.0)
    began = cluster.now
    while cluster.now - began < 1200:
        if cluster.now - began >= 60:
            crash_after(cluster, 150)
        cluster.tick()
        cluster.now += TICK_SECONDS
    assert cluster.status("chat").replicas.desired == 20
