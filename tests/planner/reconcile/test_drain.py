"""How a replica is removed: when a drain may end, and which replica drains first."""

from dataclasses import replace

import pytest

from forebay.api.reasons import Reason
from forebay.planner.observe.replicas import Replica, ReplicaState
from forebay.planner.reconcile import drain
from forebay.world.plan import DeletePod, StartDrain
from forebay.world.settings import Settings
from tests.builders.world import NOW, a_pod, a_service

SERVICE = a_service("chat")
SETTINGS = Settings(drain_grace_seconds=5)


def a_replica(
    ordinal=0, *, state=ReplicaState.SERVING, started=True, in_flight=0.0, kv=0.0, sampled=NOW, **pod
) -> Replica:
    return Replica("7f3c", ordinal, (a_pod(SERVICE, ordinal, **pod),), state, None, "", started, in_flight, kv, sampled)


@pytest.mark.parametrize(
    ("since", "in_flight", "sampled", "reason"),
    [
        pytest.param(20, 0.0, NOW - 15, "Drained", id="empty, seen so 5 s after the start"),
        pytest.param(20, 0.0, NOW - 15.1, None, id="empty, seen so too early: proxies may not have heard"),
        pytest.param(20, 1.0, NOW, None, id="one request is left"),
        pytest.param(20, None, None, None, id="nobody knows: wait"),
        pytest.param(299, 3.0, NOW, None, id="until drainTimeout"),
        pytest.param(300, 3.0, NOW, "DrainTimeout", id="and not longer"),
        pytest.param(300, None, None, "DrainTimeout", id="nobody knows, the time is over"),
        pytest.param(20, 0.0, NOW - 3600, None, id="an empty sample from before the drain proves nothing"),
    ],
)
def test_the_end_of_a_drain(since, in_flight, sampled, reason):
    replica = a_replica(state=ReplicaState.DRAINING, in_flight=in_flight, sampled=sampled, drain_started_at=NOW - since)
    steps = drain.finish(replica, 300.0, SETTINGS, NOW)
    assert [step.actions[0].reason for step in steps if isinstance(step.actions[0], DeletePod)] == (
        [reason] if reason else []
    )


@pytest.mark.parametrize(
    ("in_flight", "ends_in", "reason"),
    [
        pytest.param(3.0, 1, None, id="the node still lasts"),
        pytest.param(3.0, 0, "NodeNotice", id="the node ends"),
        pytest.param(None, 0, "NodeNotice", id="nobody knows what is left"),
        pytest.param(0.0, 0, "Drained", id="it is empty in time"),
    ],
)
def test_the_end_of_a_drain_on_a_node_with_a_notice(in_flight, ends_in, reason):
    replica = a_replica(state=ReplicaState.DRAINING, in_flight=in_flight, drain_started_at=NOW - 20)
    steps = drain.finish(replica, 300.0, SETTINGS, NOW, NOW + ends_in)
    assert [step.actions[0].reason for step in steps if isinstance(step.actions[0], DeletePod)] == (
        [reason] if reason else []
    )


def test_a_drain_that_cuts_requests_warns_with_their_number():
    replica = a_replica(state=ReplicaState.DRAINING, in_flight=3.0, drain_started_at=NOW - 300)
    (step,) = drain.finish(replica, 300.0, SETTINGS, NOW)
    assert step.event is not None
    assert (step.event.type, step.event.reason) == ("Warning", "ReplicaDrainTimeout")
    for part in (f"{replica.name} is deleted", "drainTimeout (300 s)", "3 requests in flight"):
        assert part in step.event.message


def test_an_engine_that_crashed_while_it_drained_is_not_waited_for():
    replica = a_replica(state=ReplicaState.DRAINING, in_flight=3.0, drain_started_at=NOW - 20, blocked="CrashLoop")
    (step,) = drain.finish(replica, 300.0, SETTINGS, NOW)
    assert isinstance(step.actions[0], DeletePod)


@pytest.mark.parametrize(
    ("started", "action"),
    [
        pytest.param(True, StartDrain, id="it serves: drain"),
        pytest.param(False, DeletePod, id="it never served: delete"),
        pytest.param(None, None, id="nobody knows yet: wait"),
    ],
)
def test_removal(started, action):
    steps = drain.remove(a_replica(started=started), Reason.SCALE_DOWN, "for the test")
    assert [type(step.actions[0]) for step in steps] == ([action] if action else [])


def test_actions_carry_uid_and_version_of_the_observed_pod():
    replica = a_replica()
    action = drain.start(replica, "ScaleDown", "for the test").actions[0]
    assert isinstance(action, StartDrain)
    assert (action.uid, action.resource_version) == (replica.pods[0].uid, replica.pods[0].resource_version)


def test_a_replica_of_several_pods_drains_as_a_whole():
    pods = tuple(a_pod(SERVICE, 0, rank=rank) for rank in range(3))
    replica = replace(a_replica(), pods=pods)
    actions = drain.start(replica, "ScaleDown", "for the test").actions
    assert [action.name for action in actions if isinstance(action, StartDrain)] == [pod.name for pod in pods]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(a_replica(1, in_flight=2), a_replica(0, in_flight=3), id="least in flight"),
        pytest.param(a_replica(1, kv=0.1), a_replica(0, kv=0.2), id="then the coldest cache"),
        pytest.param(a_replica(1, created_at=NOW - 10), a_replica(0, created_at=NOW - 20), id="then the youngest"),
        pytest.param(a_replica(0), a_replica(1), id="then by name"),
        pytest.param(a_replica(1, in_flight=99), a_replica(0, in_flight=None), id="those nobody knows come last"),
    ],
)
def test_the_order_of_removal(first, second):
    assert sorted([second, first], key=drain.order_of_leaving) == [first, second]


@pytest.mark.parametrize(
    ("started", "grace_seconds"),
    [
        pytest.param(False, drain.NEVER_SERVED_GRACE_SECONDS, id="it never served: nothing to finish"),
        pytest.param(True, None, id="it served: its own grace period"),
        pytest.param(None, None, id="nobody knows: its own grace period"),
    ],
)
def test_how_long_a_deleted_engine_may_take(started, grace_seconds):
    step = drain.delete(a_replica(started=started), Reason.SCALE_DOWN, "it is time")
    assert [action.grace_seconds for action in step.actions if isinstance(action, DeletePod)] == [grace_seconds]
