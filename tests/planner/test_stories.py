"""Long stories of one service, in virtual time, against a cluster in memory."""

from forebay.api.inference_service import WhenNoSpare
from forebay.world.settings import Settings
from tests.builders.cluster import Cluster, a_cluster
from tests.builders.engines import Demand
from tests.builders.loads import a_replica_capacity, known
from tests.builders.world import NOW, a_node, a_pod, a_revision, a_service, a_spec, nodes


def never_above(cluster: Cluster, name: str, most: int):
    """To be called after every tick."""

    def check() -> None:
        held = cluster.holding_places(name)
        assert len(held) <= most, held

    return check


def settled(cluster: Cluster, name: str, replicas: int, revision: str | None = None):
    """Exactly this many replicas serve, and no other pod exists."""
    return lambda: len(cluster.serving(name, revision)) == replicas == len(cluster.pods_of(name))


def a_settled_cluster(replicas: int | None = None, **fields) -> Cluster:
    """The service `chat`, serving at minReplicas, watched for long enough to be scaled down."""
    cluster = a_cluster(a_service("chat", **fields))
    cluster.demand["chat"] = Demand(requests=10)
    cluster.run_until(settled(cluster, "chat", replicas or fields.get("min_replicas", 1)))
    cluster.run(400)
    return cluster


def test_load_adds_replicas_and_its_end_takes_them_away_again():
    cluster = a_settled_cluster(min_replicas=1, max_replicas=4)
    cluster.demand["chat"] = Demand(requests=300)
    took = cluster.run_until(lambda: len(cluster.holding_places("chat")) == 2)
    assert took <= 5
    cluster.run_until(lambda: len(cluster.serving("chat")) == 4)
    cluster.run(600, watch=never_above(cluster, "chat", 4))
    cluster.demand["chat"] = Demand(requests=10)
    quiet_at = cluster.now
    cluster.run_until(lambda: len(cluster.holding_places("chat")) == 3)
    assert 300 <= cluster.now - quiet_at <= 320
    cluster.run_until(settled(cluster, "chat", 1))
    cluster.run(1800)
    assert len(cluster.serving("chat")) == 1
    assert cluster.event_reasons("chat").count("ScaledUp") == 4
    assert cluster.event_reasons("chat").count("ScaledDown") == 3


def test_steady_load_changes_nothing_in_a_day():
    cluster = a_settled_cluster(min_replicas=1, max_replicas=8)
    cluster.demand["chat"] = Demand(requests=240)
    cluster.run(3600)
    writes, before = cluster.writes, len(cluster.serving("chat"))
    for minute in range(24 * 60):
        noise = (0.95, 1.0, 1.05, 1.02, 0.98)[minute % 5]
        cluster.demand["chat"] = Demand(requests=240 * noise)
        cluster.run(60, tick_seconds=20)
    assert len(cluster.serving("chat")) == before
    assert cluster.writes - writes <= 2


def test_a_rollout_at_maxreplicas_ends():
    cluster = a_settled_cluster(min_replicas=2, max_replicas=2)
    cluster.after_write = never_above(cluster, "chat", 3)
    cluster.edit("chat", wanted=a_revision("9d1e"))

    def watch() -> None:
        never_above(cluster, "chat", 3)()
        assert len(cluster.serving("chat")) >= 2

    cluster.run(600, watch=watch)
    assert settled(cluster, "chat", 2, "9d1e")()
    assert cluster.condition("chat", "UpToDate") == ("True", "UpToDate")
    assert [reason for reason in cluster.event_reasons("chat") if reason.startswith("Rollout")] == [
        "RolloutStarted",
        "RolloutFinished",
    ]


def test_a_failing_revision_halts_and_the_old_one_serves_and_grows():
    cluster = a_settled_cluster(min_replicas=2, max_replicas=3)
    cluster.crashing = {"bad0"}
    cluster.edit("chat", wanted=a_revision("bad0"))
    cluster.run(300, watch=never_above(cluster, "chat", 4))
    assert cluster.condition("chat", "UpToDate") == ("False", "RolloutFailed")
    assert len(cluster.serving("chat", "7f3c")) == 2
    assert cluster.event_reasons("chat").count("RolloutFailed") == 1

    cluster.demand["chat"] = Demand(requests=240)
    cluster.run(300, watch=never_above(cluster, "chat", 4))
    assert len(cluster.serving("chat", "7f3c")) == 3

    cluster.edit("chat", wanted=a_revision("9d1e"))
    cluster.run(900, watch=never_above(cluster, "chat", 4))
    assert settled(cluster, "chat", 3, "9d1e")()


def test_a_halted_rollout_is_taken_back_by_the_old_spec():
    cluster = a_settled_cluster(min_replicas=2, max_replicas=2)
    cluster.crashing = {"bad0"}
    cluster.edit("chat", wanted=a_revision("bad0"))
    cluster.run(200)
    before = cluster.serving("chat")
    cluster.edit("chat", wanted=a_revision("7f3c"))
    cluster.run_until(settled(cluster, "chat", 2))
    assert cluster.serving("chat") == before
    assert cluster.condition("chat", "UpToDate") == ("True", "UpToDate")
    numbers = {r.hash: r.number for r in cluster.revisions[cluster.services["chat"].uid]}
    assert numbers == {"bad0": 2, "7f3c": 3}


def test_a_node_drain_moves_every_replica_first():
    cluster = a_settled_cluster(min_replicas=3, max_replicas=3)
    assert {pod.node for pod in cluster.pods_of("chat")} == {"node-0"}
    cluster.cordon("node-0")

    def watch() -> None:
        never_above(cluster, "chat", 4)()
        assert len(cluster.serving("chat")) >= 3

    cluster.run(900, watch=watch)
    assert {pod.node for pod in cluster.pods_of("chat")} == {"node-1"}
    assert settled(cluster, "chat", 3)()


def test_a_lost_node_is_replaced_within_its_lead_time():
    cluster = a_settled_cluster(min_replicas=2, max_replicas=2)
    cluster.kill_node("node-0")
    took = cluster.run_until(lambda: len(cluster.serving("chat")) == 2)
    assert took <= 60 + cluster.load_seconds + 10
    assert "ReplicaNodeLost" in cluster.event_reasons("chat")


def test_60_replicas_on_8_dead_nodes_are_replaced_within_their_lead_time():
    service = a_service(min_replicas=60, max_replicas=60)
    cluster = a_cluster(service, nodes=nodes(24))
    cluster.run_until(lambda: len(cluster.serving("chat")) == 60)
    used = {pod.node for pod in cluster.pods_of("chat") if pod.node is not None}
    assert len(used) == 8
    for node in used:
        cluster.kill_node(node)
    took = cluster.run_until(lambda: len(cluster.serving("chat")) == 60)
    assert took <= 60 + cluster.load_seconds + 10


def test_a_dead_node_does_not_fill_the_ceiling_of_gpus():
    service = a_service(min_replicas=4, max_replicas=4)
    cluster = a_cluster(service, nodes=nodes(3, gpus=4), settings=Settings(max_gpus=4))
    cluster.run_until(lambda: len(cluster.serving("chat")) == 4)
    cluster.kill_node("node-0")
    took = cluster.run_until(lambda: len(cluster.serving("chat")) == 4)
    assert took <= 60 + cluster.load_seconds + 10


def test_a_pod_deleted_by_hand_is_replaced_under_another_name_at_once():
    cluster = a_settled_cluster(min_replicas=2, max_replicas=2)
    victim = cluster.serving("chat")[0]
    cluster.delete_pod(victim)
    cluster.tick()
    assert len(cluster.holding_places("chat")) == 2
    assert victim not in cluster.holding_places("chat")
    cluster.run_until(settled(cluster, "chat", 2))


def test_a_metrics_outage_at_load_lowers_nothing():
    cluster = a_settled_cluster(min_replicas=1, max_replicas=4)
    cluster.demand["chat"] = Demand(requests=250)
    cluster.run(900)
    before = cluster.serving("chat")
    assert len(before) >= 3
    cluster.silent = {"chat"}
    cluster.demand["chat"] = Demand(requests=0)
    cluster.run(3600)
    assert cluster.serving("chat") == before
    assert cluster.condition("chat", "MetricsFresh") == ("False", "MetricsLost")
    assert cluster.condition("chat", "Ready") == ("False", "MetricsLost")
    assert cluster.status("chat").load.queue is None
    cluster.silent = set()
    back_at = cluster.now
    cluster.run_until(lambda: len(cluster.holding_places("chat")) < len(before))
    assert cluster.now - back_at >= 300
    told = [reason for reason in cluster.event_reasons("chat") if reason.startswith("Metrics")]
    assert told == ["MetricsStale", "MetricsLost", "MetricsBack"]


def test_an_operator_that_restarts_in_the_middle_of_a_drain_goes_on_with_it():
    cluster = a_settled_cluster(min_replicas=1, max_replicas=4)
    cluster.stream_seconds = 100
    cluster.demand["chat"] = Demand(requests=170)
    cluster.run(600)
    cluster.demand["chat"] = Demand(requests=20)
    cluster.run_until(lambda: cluster.status("chat").replicas.draining > 0)
    leaving = [pod.name for pod in cluster.pods_of("chat") if pod.drain_started_at is not None]
    cluster.restart_operator()
    cluster.run(150)
    assert not [pod for pod in cluster.pods_of("chat") if pod.name in leaving]
    assert "DrainCancelled" not in cluster.event_reasons("chat")


def test_an_operator_that_restarts_drains_nothing_before_it_has_watched():
    cluster = a_settled_cluster(min_replicas=1, max_replicas=8)
    cluster.demand["chat"] = Demand(requests=630)
    cluster.run(1200)
    assert len(cluster.serving("chat")) == 8
    cluster.restart_operator()
    cluster.demand["chat"] = Demand(requests=0)
    cluster.run(295)
    assert len(cluster.holding_places("chat")) == 8
    cluster.run(10)
    assert len(cluster.holding_places("chat")) == 7


def test_an_operator_that_restarts_in_the_middle_of_a_rollout_finishes_it():
    cluster = a_settled_cluster(min_replicas=3, max_replicas=3)
    cluster.edit("chat", wanted=a_revision("9d1e"))

    def watch() -> None:
        never_above(cluster, "chat", 4)()
        assert len(cluster.serving("chat")) >= 3

    for _ in range(20):
        cluster.run(35, watch=watch)
        cluster.restart_operator()
    cluster.run(300, watch=watch)
    assert settled(cluster, "chat", 3, "9d1e")()


def test_names_that_are_still_terminating_are_not_used():
    cluster = a_settled_cluster(min_replicas=2, max_replicas=2)
    cluster.termination_seconds = 600
    old = cluster.serving("chat")
    for name in old:
        cluster.delete_pod(name)
    cluster.run(120)
    assert len(cluster.serving("chat")) == 2
    assert not set(cluster.serving("chat")) & set(old)
    assert len(cluster.pods_of("chat")) == 4


def test_eight_orphans_with_room_for_two():
    service = a_service("chat", min_replicas=1, max_replicas=2)
    cluster = a_cluster(service)
    cluster.revisions[service.uid] = [a_revision(number=1)]
    for ordinal in range(8):
        cluster.put(a_pod(service, ordinal, owner_uid=None))
    cluster.demand["chat"] = Demand(requests=80)
    cluster.run(5, watch=never_above(cluster, "chat", 2))
    assert len(cluster.serving("chat")) == 1
    assert len([pod for pod in cluster.pods_of("chat") if pod.drain_started_at is not None]) == 7
    cluster.run(200, watch=never_above(cluster, "chat", 2))
    assert settled(cluster, "chat", 1)()


def test_two_at_most_and_one_image_error_recovers():
    service = a_service("chat", min_replicas=2, max_replicas=2)
    cluster = a_cluster(service, nodes=(a_node("node-0", gpus=1), a_node("node-1")))
    cluster.unpullable = {"node-0"}
    cluster.run(280, watch=never_above(cluster, "chat", 2))
    assert len(cluster.serving("chat")) == 1
    cluster.run(120, watch=never_above(cluster, "chat", 2))
    assert settled(cluster, "chat", 2)(), "retried on the other node"
    assert "ReplicaImagePull" in cluster.event_reasons("chat")


def test_one_pending_pod_does_not_blind_the_guards():
    cluster = a_settled_cluster(min_replicas=1, max_replicas=6)
    cluster.nodes = {"node-0": a_node("node-0", gpus=2)}
    cluster.demand["chat"] = Demand(requests=300)
    cluster.run_until(lambda: cluster.status("chat").replicas.desired == 3)
    pending_at = cluster.now
    cluster.run_until(lambda: cluster.status("chat").replicas.desired == 4)
    assert 300 <= cluster.now - pending_at <= 310
    cluster.run(1800)
    assert len(cluster.serving("chat")) == 2
    assert len(cluster.holding_places("chat")) == 4, "one more is tried, not one more per cooldown"
    cluster.nodes["node-1"] = a_node("node-1")
    cluster.run_until(lambda: len(cluster.serving("chat")) >= 4)


def test_no_spare_gpu_waits_when_every_replica_is_needed_and_says_so():
    cluster = a_settled_cluster(min_replicas=2, max_replicas=2)
    cluster.nodes = {"node-0": a_node("node-0", gpus=2)}
    cluster.edit("chat", wanted=a_revision("9d1e"))
    cluster.run(900)
    assert len(cluster.serving("chat", "7f3c")) == 2
    assert cluster.condition("chat", "UpToDate") == ("False", "WaitingForSpare")
    spec = a_spec(min_replicas=2, max_replicas=2, when_no_spare=WhenNoSpare.REPLACE)
    cluster.edit("chat", spec=spec)
    cluster.run_until(settled(cluster, "chat", 2, "9d1e"))


def test_no_spare_gpu_replaces_one_by_one_while_the_load_allows_it():
    cluster = a_settled_cluster(min_replicas=1, warm_replicas=1, max_replicas=2, replicas=2)
    cluster.nodes = {"node-0": a_node("node-0", gpus=2)}
    cluster.edit("chat", wanted=a_revision("9d1e"))
    cluster.run_until(settled(cluster, "chat", 2, "9d1e"))
    assert "WaitingForSpare" not in cluster.event_reasons("chat")


def test_a_service_that_pods_cannot_be_created_for_says_so_and_recovers():
    cluster = a_cluster(a_service("chat", min_replicas=2, max_replicas=2))
    asked: list[float] = []

    def refuse(action):
        asked.append(cluster.now)
        return "exceeded quota: gpus, used: requests.nvidia.com/gpu=8, limited: 8"

    cluster.refuse = refuse
    cluster.run(600)
    assert len(asked) <= 14
    assert cluster.condition("chat", "Ready") == ("False", "HeldBack")
    cluster.refuse = lambda action: None
    cluster.run_until(settled(cluster, "chat", 2))


def test_a_hung_engine_is_replaced():
    cluster = a_settled_cluster(min_replicas=2, max_replicas=3)
    cluster.demand["chat"] = Demand(requests=40)
    cluster.run(10)
    victim = cluster.pods_of("chat")[0]
    cluster.hung = {victim.name}
    cluster.run_until(lambda: victim.name not in cluster.holding_places("chat"), within_seconds=400)
    cluster.run_until(settled(cluster, "chat", 2), within_seconds=900)
    assert victim.name not in cluster.serving("chat")
    assert "ReplicaStalled" in cluster.event_reasons("chat")


def test_the_same_manifests_again_change_nothing():
    cluster = a_settled_cluster(min_replicas=3, max_replicas=4)
    writes = cluster.writes
    cluster.add(a_service("chat", min_replicas=3, max_replicas=4, status=cluster.status("chat")))
    cluster.run(600)
    assert cluster.writes == writes
    assert cluster.now > NOW


def test_a_peak_from_before_the_new_replica_served_does_not_order_another_one():
    """KV use is smoothed over a minute; here the cooldown is shorter than that."""
    cluster = a_settled_cluster(min_replicas=1, max_replicas=6, scale_up_cooldown="10s")
    cluster.demand["chat"] = Demand(requests=95)
    cluster.run(600)
    assert len(cluster.serving("chat")) == 2
    assert cluster.event_reasons("chat").count("ScaledUp") == 2


def test_replicas_are_ordered_for_what_arrives_before_anything_waits():
    """100 requests a second of 500/200 take three replicas of an 8B model on an H100, with 20 % headroom."""
    cluster = a_settled_cluster(min_replicas=1, max_replicas=8, replica_capacity=a_replica_capacity())
    cluster.demand["chat"] = Demand(requests=20, arrivals=100)
    cluster.run_until(lambda: cluster.status("chat").replicas.desired == 3, within_seconds=120)
    cluster.run(600, watch=never_above(cluster, "chat", 3))
    assert known(cluster.status("chat").decision).rule == "feed_forward"
    cluster.demand["chat"] = Demand(requests=2, arrivals=3)
    quiet_at = cluster.now
    cluster.run_until(lambda: len(cluster.holding_places("chat")) == 2)
    assert 300 <= cluster.now - quiet_at <= 390, "the cooldown, and the minute over which arrivals are smoothed"
    cluster.run_until(settled(cluster, "chat", 1))


def test_a_restart_at_8_does_not_drain_at_the_first_dip():
    cluster = a_settled_cluster(min_replicas=1, max_replicas=8, replica_capacity=a_replica_capacity())
    cluster.demand["chat"] = Demand(requests=400, arrivals=300)
    cluster.run_until(settled(cluster, "chat", 8))
    cluster.run(400)
    cluster.restart_operator()
    cluster.run(20)
    cluster.demand["chat"] = Demand(requests=0, arrivals=0)
    cluster.run(270)
    cluster.demand["chat"] = Demand(requests=400, arrivals=300)
    cluster.run(3600)
    assert len(cluster.serving("chat")) == 8
    assert "ScaledDown" not in cluster.event_reasons("chat")


def test_a_rollout_at_maxreplicas_ends_while_more_work_arrives_than_fits():
    cluster = a_settled_cluster(min_replicas=2, max_replicas=2, replica_capacity=a_replica_capacity())
    cluster.demand["chat"] = Demand(requests=80, arrivals=200)
    cluster.run(120)
    assert known(cluster.status("chat").decision).rule == "max_replicas"
    cluster.edit("chat", wanted=a_revision("9d1e"))
    cluster.run_until(settled(cluster, "chat", 2, "9d1e"))


def test_arrivals_that_nobody_counts_leave_scaling_to_the_guards():
    cluster = a_settled_cluster(min_replicas=1, max_replicas=4, replica_capacity=a_replica_capacity())
    cluster.demand["chat"] = Demand(requests=300)
    cluster.run_until(lambda: len(cluster.serving("chat")) == 4)
    cluster.demand["chat"] = Demand(requests=10)
    cluster.run_until(settled(cluster, "chat", 1))
