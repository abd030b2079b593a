"""Replicas of several pods: gated, ready, lost, given back and drained as a whole."""

import re
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from forebay.api.labels import GROUP_GATE
from forebay.planner.memory import ServiceMemory, State
from forebay.planner.observe.replicas import Replica, ReplicaState, ReplicaStateInputs, replicas_of
from forebay.planner.planner import plan
from forebay.world.plan import LiftGate, Plan
from forebay.world.settings import Settings
from forebay.world.world import PodView, ServiceView
from tests.builders.cluster import Cluster, a_cluster
from tests.builders.engines import Demand
from tests.builders.loads import a_history
from tests.builders.plans import actions, adopts, creates, deletes, events, message, reasons
from tests.builders.world import NOW, a_node, a_pod, a_revision, a_service, a_world, nodes, signals_of

PAIR = a_revision("7f3c", pods=2, gpus=8)
SERVICE = a_service("chat", wanted=PAIR)
WATCHED = State.empty(NOW - 3600)
INPUTS = ReplicaStateInputs(
    settings=Settings(pending_timeout_seconds=300),
    now=NOW,
    startup_timeout_seconds=1200,
    pods_per_replica={"7f3c": 2},
    watching_since=NOW - 3600,
)


def rank(number: int, ordinal: int = 0, **fields: Any) -> PodView:
    name = f"chat-{SERVICE.uid[:5]}-7f3c-{ordinal}-{number}"
    return a_pod(SERVICE, ordinal, rank=number, **{"name": name, "node": f"node-{number}", "gpus": 8, **fields})


def replica_from(*pods: PodView, **inputs: Any) -> Replica:
    (replica,) = replicas_of(pods, replace(INPUTS, **inputs))
    return replica


def planned(*pods: PodView, service: ServiceView = SERVICE, state: State = WATCHED, **world: Any) -> Plan:
    done, _ = plan(a_world(service, pods=pods, **{"signals": signals_of(pods), **world}), state, NOW)
    return done


def lifted(done: Plan) -> dict[str, tuple[str, ...]]:
    """The gates that remain, by pod."""
    return {action.name: action.gates for action in actions(done) if isinstance(action, LiftGate)}


GATED: dict[str, Any] = {"node": None, "created_at": NOW - 5, "gates": (GROUP_GATE,), "blocked": "Unschedulable"}


class TestGates:
    def test_they_are_lifted_once_all_pods_exist(self):
        pods = (rank(0, **GATED), rank(1, **GATED))
        assert lifted(planned(*pods)) == {pods[0].name: (), pods[1].name: ()}

    def test_gates_of_others_are_kept(self):
        theirs = (GROUP_GATE, "kueue.x-k8s.io/admission")
        done = planned(rank(0, **{**GATED, "gates": theirs}), rank(1, **{**GATED, "gates": theirs[1:]}))
        assert lifted(done) == {rank(0).name: ("kueue.x-k8s.io/admission",)}

    def test_gates_of_a_removed_group_stay(self):
        service = a_service("chat", wanted=PAIR, max_replicas=1)
        done = planned(rank(0), rank(1), rank(0, 1, **GATED), rank(1, 1, **GATED), service=service)
        assert lifted(done) == {}
        assert deletes(done) == [rank(0, 1).name, rank(1, 1).name]

    def test_a_gated_pod_is_not_stuck_even_when_replicas_are_retried(self):
        assert replica_from(rank(0, **GATED), rank(1, **GATED), retrying=True).state is ReplicaState.LOADING


def test_half_a_group_stays_behind_its_gate_and_is_completed():
    done = planned(rank(0, **GATED))
    assert lifted(done) == {}
    assert creates(done) == [rank(1).name]


def test_a_rank_that_was_started_again_after_the_replica_served_fails_the_whole():
    replica = replica_from(rank(0, ready_since=NOW - 600), rank(1, restarts=1, running_since=NOW - 60))
    assert (replica.state, replica.reason, replica.failing_node) == ("Failed", "RankLost", "node-1")


@pytest.mark.parametrize(
    ("pods", "state", "reason"),
    [
        pytest.param([rank(0), rank(1)], "Serving", None, id="both"),
        pytest.param([rank(0), rank(1, ready=False, created_at=NOW - 9)], "Loading", None, id="rank 1 starts"),
        pytest.param([rank(0, ready=False, created_at=NOW - 9), rank(1)], "Loading", None, id="rank 0 loads"),
        pytest.param([rank(0, **GATED)], "Loading", None, id="rank 1 is not there yet"),
        pytest.param([rank(0, created_at=NOW - 9)], "Failed", "Incomplete", id="rank 1 was there, and is gone already"),
        pytest.param([rank(0)], "Failed", "Incomplete", id="rank 1 is gone"),
        pytest.param([rank(1)], "Failed", "Incomplete", id="rank 0 is gone"),
        pytest.param([rank(0), rank(1, phase="Failed")], "Failed", "PodFailed", id="rank 1 was evicted"),
    ],
)
def test_half_a_group_is_no_capacity(pods, state, reason):
    replica = replica_from(*pods)
    assert (replica.state, replica.reason) == (state, reason)


@pytest.mark.parametrize(
    ("pods", "reason"),
    [
        pytest.param(
            [rank(0, ready=False, unready_since=NOW - 2000), rank(1, node=None, created_at=NOW - 2000)],
            "Unschedulable",
            id="rank 0 waits for rank 1, which is the one without a node",
        ),
        pytest.param(
            [rank(0, ready=False, unready_since=NOW - 2000), rank(1, blocked="ImagePull", unready_since=NOW - 1900)],
            "ImagePull",
            id="or without an image",
        ),
        pytest.param(
            [rank(0, ready=False, unready_since=NOW - 2000), rank(1, ready=False, unready_since=NOW - 1200)],
            "ModelLoad",
            id="both are there and nothing comes of it",
        ),
        pytest.param(
            [rank(0, ready=False, unready_since=NOW - 2000), rank(1, ready=False, unready_since=NOW - 1199)],
            None,
            id="time to load counts from when the last one had a node",
        ),
    ],
)
def test_the_obstacle_of_one_rank_is_the_groups(pods, reason):
    assert replica_from(*pods).reason == reason


class TestARankThatWasStartedAgain:
    """The other ranks keep waiting for the old process."""

    def test_a_restart_before_it_served_does_not_fail_the_group(self):
        replica = replica_from(rank(0, ready_since=NOW - 600), rank(1, restarts=1, running_since=NOW - 700))
        assert replica.state is ReplicaState.SERVING

    def test_a_restart_of_rank_0_fails_the_group(self):
        again = rank(0, ready=False, unready_since=NOW - 50, restarts=1, running_since=NOW - 40)
        history = {again.uid: a_history({"at": NOW - 55})}
        assert replica_from(again, rank(1), histories=history).reason == "RankLost"
        assert replica_from(again, rank(1)).state is ReplicaState.LOADING, "it never served"

    def test_a_crash_loop_of_a_rank_fails_the_group(self):
        replica = replica_from(rank(0), rank(1, blocked="CrashLoop", restarts=1))
        assert (replica.state, replica.reason) == ("Failed", "RankLost")

    def test_a_replica_of_one_pod_recovers_by_itself(self):
        alone = a_pod(SERVICE, ready_since=NOW - 600, restarts=3, running_since=NOW - 60)
        (replica,) = replicas_of([alone], replace(INPUTS, pods_per_replica={"7f3c": 1}))
        assert replica.state is ReplicaState.SERVING

    def test_all_its_pods_are_deleted(self):
        done = planned(rank(0, ready_since=NOW - 600), rank(1, restarts=1, running_since=NOW - 60))
        assert reasons(done) == {rank(0).name: "RankLost", rank(1).name: "RankLost"}
        assert "ReplicaRankLost" in events(done)


@pytest.mark.parametrize(
    ("pods", "started"),
    [
        pytest.param([rank(0), rank(1)], True, id="all ready"),
        pytest.param([rank(0, ready=False, created_at=NOW - 9), rank(1)], False, id="only a rank without clients"),
        pytest.param([rank(1)], False, id="rank 0 is gone, and its streams with it"),
    ],
)
def test_only_rank_0_has_streams_to_finish(pods, started):
    assert replica_from(*pods).started is started


def test_a_drain_without_rank_0_has_nothing_to_wait_for():
    done = planned(rank(1, drain_started_at=NOW - 3), rank(0, 1), rank(1, 1))
    assert reasons(done) == {rank(1).name: "Incomplete"}


def test_a_drain_waits_for_rank_0_and_then_takes_all():
    pods = [rank(number, drain_started_at=NOW - 60) for number in (0, 1)]
    busy, idle = signals_of(pods, running=1), signals_of(pods)
    others = (rank(0, 1), rank(1, 1))
    assert deletes(planned(*pods, *others, signals=busy)) == []
    assert deletes(planned(*pods, *others, signals=idle)) == [pods[0].name, pods[1].name]


def test_the_node_of_the_rank_at_fault_is_the_one_that_is_avoided():
    bad = [rank(1, ordinal, phase="Failed", created_at=NOW - 60) for ordinal in (0, 1)]
    pods = (rank(0, 0, created_at=NOW - 60), rank(0, 1, created_at=NOW - 60), *bad)
    _, state = plan(a_world(SERVICE, pods=pods), WATCHED, NOW)
    assert {failure.node for failure in state.services[SERVICE.uid].failures} == {"node-1"}


@pytest.mark.parametrize(
    ("ceiling", "expected"),
    [pytest.param(16, 2, id="room for both ranks"), pytest.param(15, 0, id="for one only: nothing")],
)
def test_a_group_is_granted_as_a_whole_or_not_at_all(ceiling, expected):
    done = planned(settings=Settings(max_gpus=ceiling))
    assert len(creates(done)) == expected


def test_a_group_that_was_begun_is_completed_within_the_ceiling_only():
    assert creates(planned(rank(0, **GATED), settings=Settings(max_gpus=16))) == [rank(1).name]
    assert creates(planned(rank(0, **GATED), settings=Settings(max_gpus=15))) == []


def test_a_rank_that_lost_its_owner_ends_with_what_is_left_of_its_replica():
    orphan = rank(1, owner_uid=None)
    done = planned(rank(0), orphan)
    assert adopts(done) == {orphan.name: None}
    assert deletes(done) == [rank(0).name]


HALF: dict[str, Any] = {"ready": False, "created_at": NOW - 400, "unready_since": NOW - 399}
NO_ROOM: dict[str, Any] = {"node": None, "blocked": "Unschedulable", "created_at": NOW - 400}


class TestHalfBound:
    """Some ranks hold GPUs, others find none."""

    SERVICE = a_service("chat", wanted=PAIR, min_replicas=2)

    def half(self, ordinal: int, **fields: Any) -> tuple[PodView, PodView]:
        return rank(0, ordinal, **{**HALF, **fields}), rank(1, ordinal, **{**NO_ROOM, **fields})

    def test_it_is_given_back_as_a_whole_after_the_pending_timeout(self):
        assert reasons(planned(*self.half(0))) == {rank(0).name: "Unschedulable", rank(1).name: "Unschedulable"}
        young = {"created_at": NOW - 299, "unready_since": NOW - 298}
        assert reasons(planned(rank(0, **{**HALF, **young}), rank(1, **{**NO_ROOM, **young}))) == {}

    def test_one_group_at_a_time_the_youngest_first(self):
        older = self.half(0, created_at=NOW - 500)
        done = planned(*older, *self.half(1), service=self.SERVICE)
        assert set(deletes(done)) == {rank(0, 1).name, rank(1, 1).name}
        going = (rank(0, 1, deleting=True), rank(1, 1, deleting=True))
        assert deletes(planned(*older, *going, service=self.SERVICE)) == []

    def test_a_group_without_any_node_stays_pending_for_the_autoscaler(self):
        waiting = (rank(0, **NO_ROOM), rank(1, **NO_ROOM))
        retried, _ = plan(a_world(SERVICE, pods=waiting), WATCHED, NOW)
        assert len(deletes(retried)) == 2, "the first time it is retried"
        again = replace(WATCHED.services.get(SERVICE.uid) or a_memory(), retries=1)
        done = planned(*waiting, state=replace(WATCHED, services={SERVICE.uid: again}))
        assert deletes(done) == []
        halves = planned(*self.half(0), state=replace(WATCHED, services={SERVICE.uid: again}))
        assert len(deletes(halves)) == 2, "but one that holds a half of it goes every time"

    def test_the_condition_names_the_rank_without_a_node(self):
        done = planned(*self.half(0), state=State.empty(NOW))
        assert re.search(rf"{rank(1).name} .*no node since", message(done, "Ready"))


def a_memory() -> ServiceMemory:
    _, state = plan(a_world(SERVICE), WATCHED, NOW)
    return state.services[SERVICE.uid]


# Stories.


def a_cluster_of(count: int, **fields: Any) -> Cluster:
    service = a_service("chat", wanted=PAIR, **fields)
    cluster = a_cluster(service, nodes=nodes(count))
    cluster.demand["chat"] = Demand(requests=10)
    return cluster


def ready(cluster: Cluster) -> int:
    return cluster.status("chat").replicas.ready


def test_a_group_comes_serves_and_goes_as_a_whole():
    cluster = a_cluster_of(4, min_replicas=1, max_replicas=2)
    cluster.tick()
    assert [pod.gates for pod in cluster.pods_of("chat")] == [(GROUP_GATE,)] * 2
    cluster.run_until(lambda: ready(cluster) == 1)
    assert {pod.node for pod in cluster.pods_of("chat")} == {"node-0", "node-1"}
    cluster.run(600)
    cluster.demand["chat"] = Demand(requests=300)
    cluster.run_until(lambda: ready(cluster) == 2)
    assert len(cluster.pods_of("chat")) == 4
    cluster.demand["chat"] = Demand(requests=1)

    def whole() -> None:
        by_replica: dict[int, set[bool]] = {}
        for pod in cluster.pods_of("chat"):
            by_replica.setdefault(pod.ordinal, set()).add(pod.serving)
        assert all(len(states) == 1 for states in by_replica.values()), by_replica

    cluster.run(1200, watch=whole)
    assert len(cluster.pods_of("chat")) == 2
    assert ready(cluster) == 1


def test_a_node_that_dies_costs_the_whole_replica_and_it_comes_again_elsewhere():
    cluster = a_cluster_of(5)
    cluster.run_until(lambda: ready(cluster) == 1)
    cluster.kill_node("node-1")
    cluster.run_until(lambda: ready(cluster) == 0)
    cluster.run_until(lambda: ready(cluster) == 1)
    serving = [pod for pod in cluster.pods_of("chat") if not pod.deleting]
    assert len(serving) == 2
    assert "node-1" not in {pod.node for pod in serving}


def test_with_room_for_one_rank_the_half_is_given_back_again_and_again_and_never_counts():
    cluster = a_cluster_of(1)
    bound: dict[str, float] = {}

    def watch() -> None:
        assert ready(cluster) == 0
        bound.update((pod.uid, pod.created_at) for pod in cluster.pods_of("chat") if pod.node is not None)

    cluster.run(1800, watch=watch)
    tries = sorted(bound.values())
    assert all(300 <= later - earlier <= 400 for earlier, later in pairwise(tries)), tries
    assert len(tries) >= 4
    cluster.nodes["node-1"] = a_node("node-1")
    cluster.run_until(lambda: ready(cluster) == 1)


def test_two_services_with_half_placed_groups_do_not_block_each_other_for_ever():
    cluster = a_cluster_of(2)
    other = a_service("code", wanted=PAIR)
    cluster.add(other)
    cluster.demand["code"] = Demand(requests=10)
    for service in cluster.services.values():
        mine = [a_pod(service, rank=n, **half) for n, half in enumerate((HALF, NO_ROOM))]
        node = "node-0" if service.key.name == "chat" else "node-1"
        for pod, place in zip(mine, (node, None), strict=True):
            name = f"{service.key.name}-{service.uid[:5]}-7f3c-0-{pod.rank}"
            cluster.put(replace(pod, name=name, node=place, gpus=8, created_at=NOW, unready_since=NOW))
    cluster.run_until(lambda: len(cluster.serving("chat")) + len(cluster.serving("code")) == 2, within_seconds=900)
