"""Spot and maintenance notices: replicas move, and what drains on such a node is over when the node ends."""

from dataclasses import replace
from typing import Any

import pytest

from forebay.api.inference_service import ScalingMode
from forebay.planner.memory import State
from forebay.planner.planner import plan
from forebay.world.plan import CreatePod, DeletePod, Plan, StartDrain
from forebay.world.settings import Settings
from tests.builders.cluster import Cluster, a_cluster
from tests.builders.engines import Demand
from tests.builders.plans import actions, creates, deletes, drains
from tests.builders.world import NOW, a_node, a_pod, a_service, a_world, nodes, pods_of, signals_of

NOTICE_SECONDS = 120
LAST_START_SECONDS = 60
"""When a drain begins whether or not another replica serves, counted from the notice."""
PATIENT = State.empty(NOW - 3600)


def a_spot_cluster(replicas: int = 8, **fields: Any) -> Cluster:
    """All replicas are on node-0, with requests, and the other nodes are free."""
    service = a_service("chat", min_replicas=replicas, max_replicas=replicas)
    defaults: dict[str, Any] = {"nodes": nodes(2), "load_seconds": 30.0}
    cluster = a_cluster(service, **defaults | fields)
    cluster.demand["chat"] = Demand(requests=10 * replicas)
    cluster.run_until(lambda: len(cluster.serving("chat")) == replicas)
    cluster.run(60)
    assert {pod.node for pod in cluster.pods_of("chat")} == {"node-0"}
    return cluster


def on(cluster: Cluster, node: str) -> list[str]:
    """Replicas of this node that have not been told to end."""
    return [pod.name for pod in cluster.pods_of("chat") if pod.node == node and not pod.deleting]


def test_all_replicas_of_the_node_are_replaced_at_once_and_none_is_missed():
    """maxReplicas is 8 and maxSurge 1: a cordon would move them one after the other."""
    cluster = a_spot_cluster()
    cluster.give_notice("node-0")
    assert len(creates(cluster.tick())) == 8
    least = []
    cluster.run(NOTICE_SECONDS, watch=lambda: least.append(len(cluster.serving("chat"))))
    assert min(least) == 8
    assert (on(cluster, "node-0"), len(on(cluster, "node-1"))) == ([], 8)
    assert cluster.event_reasons("chat").count("ReplicaDrained") == 8


def test_replicas_serve_as_long_as_their_requests_allow_when_nothing_else_serves():
    cluster = a_spot_cluster(2, load_seconds=300.0)
    cluster.give_notice("node-0")
    cluster.run(LAST_START_SECONDS)
    assert len(cluster.serving("chat")) == 2
    cluster.run(5)
    assert cluster.serving("chat") == []
    cluster.run(NOTICE_SECONDS - LAST_START_SECONDS)
    assert on(cluster, "node-0") == []
    assert cluster.event_reasons("chat").count("ReplicaDrained") == 2


def test_a_drain_that_the_notice_began_ends_with_the_notice():
    cluster = a_spot_cluster(2, stream_seconds=3000.0)
    cluster.give_notice("node-0")
    cluster.run(NOTICE_SECONDS)
    assert len(on(cluster, "node-0")) == 2
    cluster.run(5)
    assert on(cluster, "node-0") == []
    assert cluster.event_reasons("chat").count("ReplicaNodeNotice") == 2


def test_a_drain_that_ran_before_the_notice_ends_with_it():
    cluster = a_spot_cluster(4, stream_seconds=3000.0)
    cluster.edit("chat", spec=a_service(min_replicas=1, max_replicas=3).spec)
    cluster.tick()
    (victim,) = [pod.name for pod in cluster.pods_of("chat") if pod.drain_started_at is not None]
    cluster.give_notice("node-0")
    cluster.run(NOTICE_SECONDS + 5)
    assert victim not in on(cluster, "node-0")


def test_the_limit_of_drains_does_not_hold_a_notice_back():
    cluster = a_spot_cluster(settings=Settings(max_drains_per_10_minutes=0))
    cluster.give_notice("node-0")
    cluster.run(NOTICE_SECONDS)
    assert (on(cluster, "node-0"), len(cluster.serving("chat"))) == ([], 8)
    assert cluster.state.drains == ()


def test_a_notice_that_is_withdrawn_moves_nothing_more():
    cluster = a_spot_cluster(2, load_seconds=300.0)
    cluster.give_notice("node-0")
    cluster.run(30)
    cluster.nodes["node-0"] = a_node("node-0")
    cluster.run(600)
    assert len(on(cluster, "node-0")) == 2
    assert cluster.state.notices == {}


def test_a_restarted_operator_wants_no_more_replicas_than_before():
    cluster = a_spot_cluster(4, load_seconds=300.0)
    cluster.edit("chat", spec=a_service(min_replicas=1, max_replicas=16).spec)
    cluster.give_notice("node-0")
    cluster.run(20)
    assert len(cluster.pods_of("chat")) == 8
    cluster.restart_operator()
    cluster.run(20)
    assert cluster.status("chat").replicas.desired == 4


def test_the_ceiling_of_gpus_holds_until_the_node_ends():
    """Replicas of the node use their GPUs until then."""
    cluster = a_spot_cluster(4, settings=Settings(max_gpus=4))
    cluster.give_notice("node-0")
    assert creates(cluster.tick()) == []
    cluster.run_until(lambda: len(on(cluster, "node-1")) == 4, within_seconds=NOTICE_SECONDS + 30)


def test_nodes_that_ended_by_their_notice_are_lost_even_when_they_are_most():
    """Two of three nodes are taken back at once: no sign that the control plane has lost sight of them."""
    cluster = a_spot_cluster(nodes=nodes(3), settings=Settings(max_gpus=8))
    for node in ("node-0", "node-2"):
        cluster.give_notice(node)
    cluster.tick()
    for node in ("node-0", "node-2"):
        cluster.kill_node(node)
    cluster.run_until(lambda: len(cluster.serving("chat")) == 8, within_seconds=60 + 30 + 15)


def test_replicas_of_a_node_that_is_shut_down_are_replaced_at_once():
    cluster = a_spot_cluster()
    cluster.kill_node("node-0")
    cluster.nodes["node-0"] = replace(cluster.nodes["node-0"], cordoned=True, shut_down=True)
    assert len(creates(cluster.tick())) == 8


def test_a_loading_replica_on_the_node_is_given_up_at_once():
    service = a_service(min_replicas=1, max_replicas=1)
    pod = a_pod(service, ready=False, node="node-0", created_at=NOW - 20)
    world = a_world(service, pods=(pod,), nodes=(a_node("node-0", notice=True), a_node("node-1")))
    done, _ = plan(world, PATIENT, NOW)
    assert (deletes(done), len(creates(done))) == ([pod.name], 1)


@pytest.mark.parametrize(
    ("mode", "moves"),
    [
        pytest.param(ScalingMode.RECOMMEND, True, id="Recommend obeys node drains"),
        pytest.param(ScalingMode.PAUSED, False, id="Paused creates and deletes nothing"),
    ],
)
def test_modes(mode, moves):
    service = a_service(min_replicas=2, max_replicas=2, mode=mode)
    pods = pods_of(service, 2, node="node-0")
    world = a_world(
        service, pods=pods, signals=signals_of(pods), nodes=(a_node("node-0", notice=True), a_node("node-1"))
    )
    done, _ = plan(world, PATIENT, NOW)
    assert bool(creates(done)) is moves


def test_a_service_whose_spec_cannot_be_used_ends_its_drains_with_the_notice():
    service = replace(a_service(), spec=None)
    pod = a_pod(a_service(), node="node-0", drain_started_at=NOW - 10)
    world = a_world(service, pods=(pod,), signals=signals_of([pod], running=3), nodes=(a_node(notice=True),))
    assert ended(world, NOW + 119) == []
    assert ended(world, NOW + 120) == [pod.name]


def ended(world, at: float) -> list[str]:
    """What is deleted at this time when the notice was observed at NOW."""
    _, state = plan(world, PATIENT, NOW)
    return deletes(plan(world, state, at)[0])


def kinds(done: Plan) -> set[type]:
    return {type(action) for action in actions(done)} & {CreatePod, StartDrain, DeletePod}


@pytest.mark.parametrize(
    ("node", "first"),
    [
        pytest.param(a_node("node-0", notice=True), {CreatePod}, id="a notice: its replacement is created"),
        pytest.param(a_node("node-0", cordoned=True), set(), id="a cordon: maxSurge is 0, so it waits"),
    ],
)
def test_maxsurge_does_not_hold_a_notice_back(node, first):
    service = a_service(min_replicas=1, max_replicas=1, max_surge=0)
    pods = pods_of(service, 1, node="node-0")
    world = a_world(service, pods=pods, signals=signals_of(pods, running=1), nodes=(node, a_node("node-1")))
    done, _ = plan(world, PATIENT, NOW)
    assert kinds(done) == first
    assert drains(done) == []
