"""`status.decision.upcoming`: the soonest first, the first few replicas by name and the others as a number."""

import re

from forebay.api.instants import unix_seconds
from tests.builders.cluster import Cluster, a_cluster
from tests.builders.engines import Demand
from tests.builders.loads import a_replica_capacity, known
from tests.builders.variants import BIG, SMALL, a_mixed_cluster, serve
from tests.builders.world import a_node, a_service, a_spec, a_variant

STALL_SECONDS = 120.0
"""How long an engine makes no step before it counts as stalled."""
WAITS = r"base may be tried again .*\b2 less preferred replicas; it waits for .*"


def upcoming(cluster: Cluster) -> list[str]:
    decision = cluster.status("chat").decision
    assert decision is not None
    return [due.what for due in decision.upcoming]


def seconds_until(cluster: Cluster, beginning: str) -> float:
    """Seconds until the entry that begins with these words."""
    decision = cluster.status("chat").decision
    assert decision is not None
    (at,) = [due.at for due in decision.upcoming if due.what.startswith(beginning)]
    return known(unix_seconds(at or "")) - cluster.now


def a_served_cluster(replicas: int, **fields) -> Cluster:
    cluster = a_cluster(a_service("chat", **{"min_replicas": replicas, "max_replicas": 8} | fields))
    cluster.demand["chat"] = Demand(requests=10)
    cluster.run_until(lambda: len(cluster.serving("chat")) == replicas)
    cluster.run(60)
    return cluster


class TestMany:
    """Three replicas are named, the others are counted."""

    def test_loading_replicas(self):
        cluster = a_cluster(a_service("chat", min_replicas=6, max_replicas=8))
        cluster.run(25)
        named = [what for what in upcoming(cluster) if "is expected to serve 300 s after" in what]
        assert [what.split()[0] for what in named] == [f"chat-997b1-7f3c-{number}" for number in range(3)]
        assert all(re.search(r"\(assumed, .*\b0 starts", what) for what in named)
        assert sum(what.startswith("3 more replicas are loading; by then each") for what in upcoming(cluster)) == 1
        assert 270 <= seconds_until(cluster, "3 more replicas are loading") <= 300

    def test_stuck_replicas(self):
        cluster = a_cluster(a_service("chat", min_replicas=6, max_replicas=8), nodes=[a_node(gpus=2)])
        cluster.run(320)
        assert sum("no node since" in what for what in upcoming(cluster)) == 3
        assert sum(what.startswith("1 more replica is stuck; by then it") for what in upcoming(cluster)) == 1

    def test_draining_replicas_of_a_node_with_a_notice(self):
        cluster = a_served_cluster(6, max_replicas=6)
        cluster.give_notice("node-0")
        cluster.run(75)
        named = [what for what in upcoming(cluster) if "latest: the spot or maintenance notice of its node" in what]
        assert len(named) == 3
        assert 40 <= seconds_until(cluster, named[0].split()[0]) <= 60

    def test_draining_replicas(self):
        cluster = a_served_cluster(6)
        cluster.stream_seconds = 600
        cluster.edit("chat", spec=a_spec(max_replicas=1))
        cluster.run(10)
        assert sum("is deleted at the latest: drainTimeout (300 s)" in what for what in upcoming(cluster)) == 3
        assert sum(what.startswith("2 more replicas are draining; by then each") for what in upcoming(cluster)) == 1


def test_the_soonest_comes_first_and_what_has_no_time_last():
    cluster = a_served_cluster(2)
    cluster.edit("chat", spec=a_spec(min_replicas=4, max_replicas=8))
    cluster.tick()
    decision = cluster.status("chat").decision
    assert decision is not None
    times = [due.at for due in decision.upcoming]
    assert times == [*sorted(at for at in times if at), *(None for at in times if at is None)]
    assert upcoming(cluster)[-1] == "2 replicas are being created."


class TestStalledReplicas:
    def test_each_drains_once_its_replacement_serves(self):
        cluster = a_served_cluster(3)
        cluster.stream_seconds = 600
        cluster.hung = set(cluster.serving("chat")[:2])
        cluster.run_until(lambda: "ReplicaStalled" in cluster.event_reasons("chat"))
        cluster.run(10)
        waiting = [what for what in upcoming(cluster) if "has made no step since" in what]
        assert len(waiting) == 2
        assert all("once its replacement serves" in what for what in waiting)

    def test_a_replacement_that_stalls_too_gets_more_time(self):
        cluster = a_served_cluster(1)
        cluster.hung = set(cluster.serving("chat"))
        cluster.run_until(lambda: bool(set(cluster.serving("chat")) - cluster.hung), within_seconds=600)
        (replacement,) = set(cluster.serving("chat")) - cluster.hung
        cluster.hung |= {replacement}
        cluster.run_until(lambda: any("stalled before it" in what for what in upcoming(cluster)), within_seconds=600)
        assert cluster.serving("chat") == [replacement]
        due = next(due for due in known(cluster.status("chat").decision).upcoming if "stalled before it" in due.what)
        assert due.at is not None

    def test_none_is_replaced_when_all_are_stalled(self):
        cluster = a_served_cluster(3)
        cluster.hung = set(cluster.serving("chat"))
        cluster.run(STALL_SECONDS + 60)
        still = [what for what in upcoming(cluster) if "has made no step since" in what]
        assert len(still) == 3
        assert all("none is replaced" in what for what in still)


class TestFailback:
    """Failback to a preferred shape that may be tried again."""

    def with_room(self, **fields) -> Cluster:
        cluster = a_mixed_cluster(big=1, **fields)
        cluster.run_until(serve(cluster, 1, 2))
        cluster.add_node(a_node("more", product=BIG))
        return cluster

    def test_before_the_hold_ends_the_time_of_the_retry_is_named(self):
        cluster = self.with_room()
        cluster.run(60)
        assert 0 < seconds_until(cluster, "base is tried again") <= 600

    def test_it_waits_while_the_load_is_unknown(self):
        cluster = self.with_room()
        cluster.silent = {"chat"}
        cluster.run(1200)
        (waits,) = upcoming(cluster)
        assert re.fullmatch(f"{WAITS}load.*known.*", waits)

    def test_a_shape_with_less_capacity_waits_for_room_under_maxreplicas(self):
        strong = a_variant("small", product=SMALL, replica_capacity=a_replica_capacity())
        cluster = self.with_room(replica_capacity=a_replica_capacity(slower=1.6), variants=(strong,))
        cluster.run(1200)
        (waits,) = upcoming(cluster)
        assert re.fullmatch(rf"{WAITS}room under maxReplicas \(3\), .*less.*", waits)

    def test_one_in_progress_names_what_completes_it(self):
        cluster = self.with_room()
        cluster.run_until(lambda: len(cluster.pods_of("chat")) == 4)
        cluster.run(20)
        pattern = r"Once chat-997b1-own-1 .*base.* serves, .*2 less preferred replicas drains\."
        assert any(re.fullmatch(pattern, what) for what in upcoming(cluster))
