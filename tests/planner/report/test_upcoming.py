"""`status.decision.upcoming`: the soonest first, the first few replicas by name and the others as a number."""

from forebay.api.instants import unix_seconds
from tests.builders.cluster import Cluster, a_cluster
from tests.builders.engines import Demand
from tests.builders.loads import a_replica_capacity
from tests.builders.variants import BIG, SMALL, a_mixed_cluster, serve
from tests.builders.world import a_node, a_service, a_spec, a_variant

STALL_SECONDS = 120.0
"""How long an engine makes no step before it counts as stalled."""
WAITS = "base may be tried again, to take the place of one of 2 replicas that are less preferred; that waits for"


def upcoming(cluster: Cluster) -> list[str]:
    decision = cluster.status("chat").decision
    assert decision is not None
    return [due.what for due in decision.upcoming]


def seconds_until(cluster: Cluster, beginning: str) -> float:
    """Seconds until the entry that begins with these words."""
    decision = cluster.status("chat").decision
    assert decision is not None
    (at,) = [due.at for due in decision.upcoming if due.what.startswith(beginning)]
    known = unix_seconds(at or "")
    assert known is not None
    return known - cluster.now


def a_served_cluster(replicas: int, **fields) -> Cluster:
    cluster = a_cluster(a_service("chat", **{"min_replicas": replicas, "max_replicas": 8} | fields))
    cluster.demand["chat"] = Demand(requests=10)
    cluster.run_until(lambda: len(cluster.serving("chat")) == replicas)
    cluster.run(60)
    return cluster


class TestMany:
    """Three replicas are named, the others are counted."""

    def test_on_their_way(self):
        cluster = a_cluster(a_service("chat", min_replicas=6, max_replicas=8))
        cluster.run(25)
        assert [what for what in upcoming(cluster) if "is expected to serve" in what] == [
            f"chat-997b1-7f3c-{number} is expected to serve 300 s after it got its node (assumed, with 0 starts seen)."
            for number in range(3)
        ]
        assert "3 more replicas are loading; by then each is expected or given up." in upcoming(cluster)
        assert 270 <= seconds_until(cluster, "3 more replicas are loading") <= 300

    def test_stuck(self):
        cluster = a_cluster(a_service("chat", min_replicas=6, max_replicas=8), nodes=[a_node(gpus=2)])
        cluster.run(320)
        assert sum("finds no node since" in what for what in upcoming(cluster)) == 3
        assert "1 more replica is stuck; by then it is tried anew." in upcoming(cluster)

    def test_draining(self):
        cluster = a_served_cluster(6)
        cluster.stream_seconds = 600
        cluster.edit("chat", spec=a_spec(max_replicas=1))
        cluster.run(10)
        assert sum("is deleted at the latest: drainTimeout (300 s)" in what for what in upcoming(cluster)) == 3
        assert "2 more replicas are draining; by then each is deleted at the latest." in upcoming(cluster)


def test_the_soonest_comes_first_and_what_has_no_time_last():
    cluster = a_served_cluster(2)
    cluster.edit("chat", spec=a_spec(min_replicas=4, max_replicas=8))
    cluster.tick()
    decision = cluster.status("chat").decision
    assert decision is not None
    times = [due.at for due in decision.upcoming]
    assert times == [*sorted(at for at in times if at), *(None for at in times if at is None)]
    assert upcoming(cluster)[-1] == "2 replicas are being created."


class TestStandingStill:
    def test_one_waits_for_its_turn_while_another_drains(self):
        cluster = a_served_cluster(3)
        cluster.stream_seconds = 600
        cluster.hung = set(cluster.serving("chat")[:2])
        cluster.run_until(lambda: "ReplicaStalled" in cluster.event_reasons("chat"))
        cluster.run(10)
        (waiting,) = [what for what in upcoming(cluster) if "has made no step since" in what]
        assert waiting.endswith("; it is replaced in its turn, one at a time.")

    def test_when_all_do_nothing_is_done(self):
        cluster = a_served_cluster(3)
        cluster.hung = set(cluster.serving("chat"))
        cluster.run(STALL_SECONDS + 60)
        still = [what for what in upcoming(cluster) if "has made no step since" in what]
        assert len(still) == 3
        assert all(
            what.endswith("nothing is done about it until one of all that stand still counts on.") for what in still
        )


class TestReturns:
    """Failback to a preferred shape that may be tried again."""

    def with_room(self, **fields) -> Cluster:
        cluster = a_mixed_cluster(big=1, **fields)
        cluster.run_until(serve(cluster, 1, 2))
        cluster.add_node(a_node("more", product=BIG))
        return cluster

    def test_before_the_hold_ends_its_time_is_named(self):
        cluster = self.with_room()
        cluster.run(60)
        assert 0 < seconds_until(cluster, "base is tried again, with one replica on top of what is wanted") <= 600

    def test_while_the_load_is_not_known(self):
        cluster = self.with_room()
        cluster.silent = {"chat"}
        cluster.run(1200)
        assert upcoming(cluster) == [f"{WAITS} the load of every replica that serves to be known."]

    def test_of_a_shape_that_carries_less_than_what_it_would_replace(self):
        strong = a_variant("small", product=SMALL, replica_capacity=a_replica_capacity())
        cluster = self.with_room(replica_capacity=a_replica_capacity(slower=1.6), variants=(strong,))
        cluster.run(1200)
        assert upcoming(cluster) == [
            f"{WAITS} room under maxReplicas (3), since one of it carries less than one that would go."
        ]

    def test_one_that_is_under_way_says_what_ends_it(self):
        cluster = self.with_room()
        cluster.run_until(lambda: len(cluster.pods_of("chat")) == 4)
        cluster.run(20)
        assert (
            "Once chat-997b1-own-1 serves, which is of base, one of 2 replicas that are less preferred drains."
            in upcoming(cluster)
        )
