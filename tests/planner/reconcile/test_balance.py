"""Balance: which replicas are created, adopted, removed and left alone."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from forebay.api.inference_service import InferenceServiceStatus, ReplicaStatus, ScalingMode
from forebay.api.labels import GROUP_GATE
from forebay.planner.memory import State
from forebay.planner.planner import plan
from forebay.scaling.load.signals import PodSignals
from forebay.world.plan import CreatePod, Plan
from forebay.world.world import PodView, Refusal, ServiceView
from tests.builders.plans import actions, adopts, cancels, creates, deletes, drains, reasons
from tests.builders.world import NOW, a_node, a_pod, a_revision, a_sample, a_service, a_world, pods_of, signals_of

WATCHED = State.empty(NOW - 3600)


def planned(service: ServiceView, *pods: PodView, **world: Any) -> Plan:
    signals = {"signals": signals_of(pods, running=1), **world}
    done, _ = plan(a_world(service, pods=pods, **signals), WATCHED, NOW)
    return done


def test_unstarted_replicas_are_removed_before_serving_ones():
    service = a_service(max_replicas=2)
    pods = (*pods_of(service, 2), a_pod(service, 2, ready=False, created_at=NOW - 30), a_pod(service, 3, node=None))
    done = planned(service, *pods)
    assert deletes(done) == [pods[3].name, pods[2].name]
    assert drains(done) == []


def test_the_least_busy_serving_replica_with_the_emptiest_cache_drains():
    service = a_service(max_replicas=2)
    pods = pods_of(service, 3)
    samples = (a_sample(running=3, kv=0.1), a_sample(running=1, kv=0.5), a_sample(running=1, kv=0.4))
    signals = {pod.uid: PodSignals(sample) for pod, sample in zip(pods, samples, strict=True)}
    assert drains(planned(service, *pods, signals=signals)) == [pods[2].name]


def test_of_a_large_fleet_a_tenth_drains_at_once_and_the_next_when_it_is_gone():
    service, state = a_service(min_replicas=1, max_replicas=40), State.empty(NOW - 3600)
    pods = pods_of(service, 40)
    for second in range(0, 305, 5):
        signals = signals_of(pods, at=NOW + second, running=1)
        done, state = plan(a_world(service, pods=pods, signals=signals), state, NOW + second)
    assert len(drains(done)) == 4
    leaving = set(drains(done))
    pods = tuple(
        replace(pod, serving=False, drain_started_at=NOW + 300, drain_reason="ScaleDown")
        if pod.name in leaving
        else pod
        for pod in pods
    )
    signals = signals_of(pods, at=NOW + 305, running=1)
    done, _ = plan(a_world(service, pods=pods, signals=signals), state, NOW + 305)
    assert drains(done) == []


def test_a_replica_whose_load_is_unknown_is_removed_last():
    service = a_service(max_replicas=2)
    pods = pods_of(service, 3)
    signals = signals_of(pods[1:], running=9, kv=0.9)
    assert pods[0].name not in drains(planned(service, *pods, signals=signals))


def test_names_of_existing_objects_are_not_used():
    service = a_service(min_replicas=3)
    terminating, foreign = a_pod(service, 0, deleting=True), a_pod(service, 2, owner_uid="foreign")
    refusal = Refusal(service.uid, a_pod(service, 1).name, "NameTaken", "exists", NOW - 5)
    done = planned(service, terminating, foreign, refusals=(refusal,))
    assert [name.rsplit("-", 1)[1] for name in creates(done)] == ["3", "4", "5"]


def test_replicas_of_several_pods_are_created_together_with_ranks():
    service = a_service(min_replicas=1, wanted=a_revision("7f3c", pods=2, gpus=8))
    done = planned(service)
    assert [name.split("-", 3)[3] for name in creates(done)] == ["0-0", "0-1"]


def test_a_pod_that_its_replica_lacks_is_created_under_the_same_ordinal():
    service = a_service(min_replicas=1, wanted=a_revision("7f3c", pods=2, gpus=8))
    name = f"chat-{service.uid[:5]}-7f3c-0-0"
    first = a_pod(service, 0, name=name, node=None, gates=(GROUP_GATE,), created_at=NOW - 10)
    assert creates(planned(service, first)) == [f"chat-{service.uid[:5]}-7f3c-0-1"]


def test_orphans_of_a_known_revision_are_adopted_as_far_as_they_are_needed():
    service = a_service(min_replicas=2, max_replicas=2)
    orphans = pods_of(service, 4, owner_uid=None)
    done = planned(service, *orphans)
    assert adopts(done) == {
        orphans[0].name: None,
        orphans[1].name: None,
        orphans[2].name: "NotNeeded",
        orphans[3].name: "NotNeeded",
    }
    assert creates(done) == []


@pytest.mark.parametrize(
    "orphan",
    [
        pytest.param({"revision": "gone"}, id="of an unknown revision"),
        pytest.param({"deleting": True}, id="being deleted"),
        pytest.param({"phase": "Failed"}, id="ended"),
    ],
)
def test_orphans_that_are_not_adopted(orphan):
    service = a_service()
    assert adopts(planned(service, a_pod(service, 0, owner_uid=None, **orphan))) == {}


def test_a_draining_orphan_goes_on_draining():
    service = a_service()
    orphan = a_pod(service, 0, owner_uid=None, drain_started_at=NOW - 10)
    done = planned(service, orphan)
    assert adopts(done) == {orphan.name: None}
    assert len(creates(done)) == 1


def test_the_serving_label_taken_off_by_hand_is_a_drain_and_the_replica_is_replaced():
    service = a_service()
    quarantined = a_pod(service, 0, serving=False)
    done = planned(service, quarantined)
    assert reasons(done) == {quarantined.name: "LabelRemoved"}
    assert len(creates(done)) == 1


@pytest.mark.parametrize(
    ("fields", "taken_back"),
    [
        pytest.param({}, True, id="it serves"),
        pytest.param({"ready": False}, False, id="its engine is gone"),
        pytest.param({"drain_reason": "Stalled"}, False, id="it hangs"),
        pytest.param({"node": "cordoned"}, False, id="its node is to be left"),
        pytest.param({"revision": "aaaa"}, False, id="it is of an older revision"),
    ],
)
def test_which_drains_are_cancelled(fields, taken_back):
    service = a_service(min_replicas=1)
    draining = a_pod(service, 0, drain_started_at=NOW - 30, **fields)
    done = planned(service, draining, nodes=(a_node("node-0"), a_node("cordoned", cordoned=True)))
    assert (cancels(done), len(creates(done))) == ((([draining.name], 0)) if taken_back else ([], 1))


def test_failed_pods_are_deleted_and_replaced():
    service = a_service()
    ended = a_pod(service, 0, phase="Failed")
    done = planned(service, ended)
    assert reasons(done) == {ended.name: "PodFailed"}
    assert creates(done) == [f"chat-{service.uid[:5]}-7f3c-1"]


def test_pods_that_end_again_and_again_are_not_replaced_in_a_hot_loop():
    service = a_service()
    state, times = WATCHED, [0.0]
    ended: tuple[PodView, ...] = (a_pod(service, 0, name="chat-pod-0", phase="Failed", created_at=NOW - 1),)
    for tick in range(120):
        now = NOW + 5 * tick
        done, state = plan(a_world(service, pods=ended), state, now)
        ended = ()
        if creates(done):
            times.append(now - NOW)
            ended = (a_pod(service, 0, name=f"chat-pod-{tick + 1}", phase="Failed", created_at=now),)
    pauses = [later - earlier for earlier, later in pairwise(times)]
    assert pauses == [0, 15, 25, 45, 85, 165]


def test_a_node_where_replicas_fail_repeatedly_is_avoided():
    service = a_service(min_replicas=2)
    state = WATCHED
    for tick in range(2):
        failing = a_pod(service, tick, blocked="CrashLoop", node="node-1", created_at=NOW - 400)
        done, state = plan(a_world(service, pods=(failing,)), state, NOW + 5 * tick)
    made = [action for action in actions(done) if isinstance(action, CreatePod)]
    assert {action.avoid_nodes for action in made} == {("node-1",)}


def test_a_stuck_replica_is_tried_once_more_and_then_left_to_wait_for_a_node():
    service = a_service()
    stuck = a_pod(service, 0, node=None, blocked="Unschedulable", created_at=NOW - 300)
    done, state = plan(a_world(service, pods=(stuck,)), WATCHED, NOW)
    assert (deletes(done), len(creates(done))) == ([stuck.name], 1)
    again = a_pod(service, 1, node=None, blocked="Unschedulable", created_at=NOW)
    for later in (5, 300, 3599):
        done, state = plan(a_world(service, pods=(again,)), state, NOW + later)
        assert actions(done) == ()
    done, state = plan(a_world(service, pods=(again,)), state, NOW + 3600)
    assert deletes(done) == [again.name], "nodes that were to be avoided may be well again"


def test_a_replica_that_cannot_pull_is_tried_less_and_less_often():
    service = a_service()
    state, created_at = WATCHED, NOW
    tried: list[float] = []
    for tick in range(int(4 * 3600 / 60)):
        now = NOW + 60 * tick
        stuck = a_pod(service, 0, name=f"chat-pod-{len(tried)}", blocked="ImagePull", created_at=created_at)
        done, state = plan(a_world(service, pods=(stuck,)), state, now)
        if deletes(done):
            tried.append((now - NOW) / 60)
            created_at = now
    assert tried == [5, 15, 35, 75, 135, 195]


def test_recommend_replaces_what_is_lost_and_does_not_follow_the_load():
    status = InferenceServiceStatus(observed_generation=1, replicas=ReplicaStatus(desired=4))
    service = a_service(mode=ScalingMode.RECOMMEND, min_replicas=1, max_replicas=8, status=status)
    pods = pods_of(service, 3)
    done, _ = plan(a_world(service, pods=pods, signals=signals_of(pods, waiting=100)), WATCHED, NOW)
    share = done.services[0]
    assert len(creates(done)) == 1
    assert share.status.replicas.desired == 4
    assert share.status.decision is not None
    assert (share.status.decision.rule, share.status.decision.desired) == ("queue_depth", 5)


def test_after_a_restart_what_is_there_is_kept_even_if_status_lags():
    status = InferenceServiceStatus(observed_generation=1, replicas=ReplicaStatus(desired=2))
    service = a_service(min_replicas=1, max_replicas=8, status=status)
    done = planned(service, *pods_of(service, 4))
    assert (drains(done), deletes(done)) == ([], [])
