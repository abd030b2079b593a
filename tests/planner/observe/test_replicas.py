"""Replicas from pods: how they are grouped, and what state each is in."""

from dataclasses import replace

import pytest

from forebay.api.labels import GROUP_GATE
from forebay.planner.observe.replicas import ReplicaState, ReplicaStateInputs, replicas_of
from forebay.world.settings import Settings
from forebay.world.world import PodView
from tests.builders.loads import a_history
from tests.builders.world import NOW, a_pod, a_service

SERVICE = a_service("chat")
INPUTS = ReplicaStateInputs(
    settings=Settings(pending_timeout_seconds=300, stale_after_seconds=30, stall_after_seconds=120),
    now=NOW,
    startup_timeout_seconds=1200,
    pods_per_replica={"7f3c": 1},
    lost_nodes=frozenset({"gone"}),
    watching_since=NOW - 3600,
)
TWO = replace(INPUTS, pods_per_replica={"7f3c": 2})


def pod(**fields) -> PodView:
    return a_pod(SERVICE, **fields)


def gated(**fields) -> PodView:
    return pod(node=None, gates=(GROUP_GATE,), **fields)


@pytest.mark.parametrize(
    ("given_pod", "state", "reason"),
    [
        pytest.param(pod(), "Serving", None, id="ready"),
        pytest.param(pod(ready=False, created_at=NOW - 60), "Loading", None, id="placed, loading"),
        pytest.param(pod(node=None, created_at=NOW - 299), "Loading", None, id="unplaced for a while"),
        pytest.param(pod(node=None, created_at=NOW - 300), "Blocked", "Unschedulable", id="unplaced for too long"),
        pytest.param(
            pod(node=None, created_at=NOW - 300, blocked="Unschedulable"), "Blocked", "Unschedulable", id="and said so"
        ),
        pytest.param(
            pod(blocked="ImagePull", created_at=NOW - 900, unready_since=NOW - 299),
            "Loading",
            None,
            id="no image, counted from when it was placed",
        ),
        pytest.param(
            pod(blocked="ImagePull", created_at=NOW - 300), "Blocked", "ImagePull", id="no image for too long"
        ),
        pytest.param(
            pod(blocked="ContainerConfig", created_at=NOW - 300), "Blocked", "ContainerConfig", id="a Secret is missing"
        ),
        pytest.param(
            pod(blocked="CrashLoop", restarts=1, created_at=NOW - 60), "Loading", None, id="one crash may be chance"
        ),
        pytest.param(
            pod(blocked="CrashLoop", restarts=2, created_at=NOW - 60), "Blocked", "CrashLoop", id="two crashes are not"
        ),
        pytest.param(pod(ready=False, created_at=NOW - 1199), "Loading", None, id="a slow load"),
        pytest.param(pod(ready=False, created_at=NOW - 1200), "Blocked", "ModelLoad", id="a load that took too long"),
        pytest.param(
            pod(ready=False, created_at=NOW - 99999, unready_since=NOW - 60),
            "Loading",
            None,
            id="was ready until lately",
        ),
        pytest.param(pod(phase="Failed"), "Failed", "PodFailed", id="evicted"),
        pytest.param(pod(phase="Succeeded"), "Failed", "PodSucceeded", id="ended"),
        pytest.param(pod(deleting=True), "Deleting", None, id="deleted by hand"),
        pytest.param(pod(deleting=True, phase="Failed"), "Deleting", None, id="deleted and ended"),
        pytest.param(pod(node="gone"), "Lost", "NodeLost", id="its node is gone"),
        pytest.param(
            pod(node="gone", drain_started_at=NOW - 9), "Lost", "NodeLost", id="its node went while it drained"
        ),
        pytest.param(pod(drain_started_at=NOW - 9), "Draining", None, id="drains"),
        pytest.param(pod(serving=False), "Draining", None, id="somebody took the label off"),
        pytest.param(
            pod(serving=False, ready=False, created_at=NOW - 9), "Loading", None, id="no label before it is ready"
        ),
    ],
)
def test_the_state_of_one_pod(given_pod, state, reason):
    (replica,) = replicas_of([given_pod], INPUTS)
    assert (replica.state, replica.reason) == (state, reason)


def test_a_retried_replica_is_stuck_as_soon_as_it_is_blocked():
    unplaced = pod(node=None, created_at=NOW - 10, blocked="Unschedulable")
    (replica,) = replicas_of([unplaced], replace(INPUTS, retrying=True))
    assert replica.state is ReplicaState.BLOCKED
    (replica,) = replicas_of([replace(unplaced, blocked=None)], replace(INPUTS, retrying=True))
    assert replica.state is ReplicaState.LOADING, "the scheduler has not looked at it yet"


@pytest.mark.parametrize(
    ("pods", "state"),
    [
        pytest.param([pod(), pod(rank=1)], "Serving", id="both ready"),
        pytest.param([pod(), pod(rank=1, ready=False, created_at=NOW - 9)], "Loading", id="one loads"),
        pytest.param([gated(created_at=NOW - 59)], "Loading", id="the second one is being created"),
        pytest.param([gated(created_at=NOW - 60)], "Failed", id="the second one never came"),
        pytest.param([pod(created_at=NOW - 5)], "Failed", id="the second one is gone"),
        pytest.param([pod(), pod(rank=1, deleting=True)], "Deleting", id="one is being deleted"),
        pytest.param([pod(), pod(rank=1, drain_started_at=NOW)], "Draining", id="one drains"),
        pytest.param([pod(), pod(rank=1, node="gone")], "Lost", id="one is lost"),
    ],
)
def test_the_state_of_a_replica_of_two_pods(pods, state):
    (replica,) = replicas_of(pods, TWO)
    assert replica.state == state
    assert replica.name == pods[0].name


def test_grouping_does_not_depend_on_order():
    pods = [a_pod(SERVICE, ordinal, rank=rank) for ordinal in (1, 0) for rank in (1, 0)]
    assert replicas_of(pods, TWO) == replicas_of(reversed(pods), TWO)
    assert [len(replica.pods) for replica in replicas_of(pods, TWO)] == [2, 2]


def test_a_hung_engine_is_no_capacity_though_its_probes_are_green():
    given_pod = pod()
    hung = a_history(*[{"running": 3, "steps": 7}] * 30)
    (replica,) = replicas_of([given_pod], replace(INPUTS, histories={given_pod.uid: hung}))
    assert (replica.state, replica.reason) == ("Blocked", "Stalled")
    assert "has 3 requests and has made no step since 2025-06-15T15:04:15Z" in replica.message


@pytest.mark.parametrize(
    ("given_pod", "answered", "watching_for", "expected"),
    [
        pytest.param(pod(), False, 0, True, id="ready now"),
        pytest.param(pod(ready=False), True, 3600, True, id="answered for its metrics once"),
        pytest.param(pod(ready=False), False, 3600, False, id="never answered"),
        pytest.param(pod(ready=False), False, 29, None, id="nobody has asked it for long enough"),
        pytest.param(pod(node=None), False, 0, False, id="is nowhere"),
    ],
)
def test_whether_a_replica_has_served(given_pod, answered, watching_for, expected):
    histories = {given_pod.uid: a_history({"running": 1})} if answered else {}
    (replica,) = replicas_of([given_pod], replace(INPUTS, histories=histories, watching_since=NOW - watching_for))
    assert replica.started is expected


def test_the_message_of_a_stuck_replica_gives_the_time_and_the_schedulers_words():
    (replica,) = replicas_of(
        [pod(node=None, created_at=NOW - 300, blocked="Unschedulable", blocked_message="0/4 nodes are available.")],
        INPUTS,
    )
    assert replica.message.startswith(f"{replica.name} ")
    assert replica.message.endswith(" since 2025-06-15T15:01:40Z: 0/4 nodes are available.")
