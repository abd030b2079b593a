"""The planner as a whole, one tick at a time: what it creates, drains, deletes and says."""

from dataclasses import replace

import pytest

from forebay.api.inference_service import ScalingMode
from forebay.api.reasons import Reason
from forebay.planner.memory import State
from forebay.planner.planner import plan
from forebay.world.plan import DeletePod, StartDrain
from forebay.world.world import SpecProblem
from tests.builders.plans import (
    actions,
    cancels,
    condition,
    creates,
    deletes,
    drains,
    events,
    message,
    reasons,
    rule,
    stores,
)
from tests.builders.world import NOW, a_node, a_pod, a_revision, a_service, a_world, pods_of, signals_of

LONG_AGO = State.empty(NOW - 3600)


def test_a_new_service_gets_its_revision_and_minreplicas():
    service = a_service("chat", min_replicas=2)
    done, _ = plan(a_world(service, revisions={}), State.empty(NOW), NOW)
    assert stores(done) == [("7f3c", 1)]
    assert creates(done) == [f"chat-{service.uid[:5]}-7f3c-0", f"chat-{service.uid[:5]}-7f3c-1"]
    assert rule(done) == "min_replicas"
    assert condition(done, "Ready") == ("False", "Loading")
    assert events(done) == ["ScaledUp"]


def test_a_service_at_its_count_is_left_alone():
    service = a_service(min_replicas=2)
    pods = pods_of(service, 2)
    done, _ = plan(a_world(service, pods=pods, signals=signals_of(pods)), LONG_AGO, NOW)
    assert actions(done) == ()
    assert condition(done, "Ready") == ("True", "Serving")


def test_maxreplicas_lowered_drains_what_is_above_it_at_once():
    service = a_service(max_replicas=2)
    pods = pods_of(service, 4)
    done, _ = plan(a_world(service, pods=pods, signals=signals_of(pods)), LONG_AGO, NOW)
    assert len(drains(done)) == 2
    assert set(reasons(done).values()) == {"ScaleDown"}


def test_a_plan_lists_its_actions_in_their_one_order():
    """A replica that failed is dealt with before any other, and yet drains come before deletions."""
    service = a_service(max_replicas=2)
    pods = (*pods_of(service, 3), a_pod(service, 3, phase="Failed"))
    done, _ = plan(a_world(service, pods=pods, signals=signals_of(pods)), LONG_AGO, NOW)
    assert [type(action) for action in actions(done)] == [StartDrain, DeletePod]


def test_a_drained_replica_is_deleted_once_a_later_sample_shows_it_empty():
    service = a_service()
    staying, leaving = a_pod(service, 0), a_pod(service, 1, drain_started_at=NOW - 20)
    for sampled_at, expected in ((NOW - 16, []), (NOW - 15, [leaving.name])):
        world = a_world(service, pods=(staying, leaving), signals=signals_of((staying, leaving), at=sampled_at))
        done, _ = plan(world, LONG_AGO, NOW)
        assert deletes(done) == expected


def test_a_service_with_a_problem_creates_nothing_and_says_why():
    problem = SpecProblem(
        Reason.FORMAT_UNAVAILABLE, 'spec.model.quantization: "int3" is not supported; use awq, fp8 or gptq.'
    )
    done, _ = plan(a_world(a_service(problems=(problem,))), LONG_AGO, NOW)
    assert actions(done) == ()
    assert condition(done, "Planned") == ("False", "FormatUnavailable")
    assert message(done, "Planned") == problem.message


def test_paused_does_nothing():
    service = a_service(mode=ScalingMode.PAUSED, min_replicas=2)
    done, _ = plan(a_world(service, revisions={}), LONG_AGO, NOW)
    assert actions(done) == ()
    assert condition(done, "Ready") == ("False", "Paused")


def test_a_service_that_is_being_deleted_is_left_to_garbage_collection():
    service = a_service(deleting=True, min_replicas=2)
    done, _ = plan(a_world(service, pods=(a_pod(service),)), LONG_AGO, NOW)
    assert actions(done) == ()


@pytest.mark.parametrize("ready", [True, False])
def test_load_that_returns_takes_the_newest_drain_back_before_anything_is_created(ready):
    service = a_service(min_replicas=2)
    pods = (
        a_pod(service, 0),
        a_pod(service, 1, drain_started_at=NOW - 60),
        a_pod(service, 2, drain_started_at=NOW - 30, ready=ready),
    )
    done, _ = plan(a_world(service, pods=pods, signals=signals_of(pods, running=1)), LONG_AGO, NOW)
    assert cancels(done) == [pods[2 if ready else 1].name]
    assert creates(done) == []


def test_pods_of_somebody_else_are_not_touched_and_their_names_not_taken():
    service = a_service()
    foreign = a_pod(service, 0, owner_uid="somebody-else")
    done, _ = plan(a_world(service, pods=(foreign,)), LONG_AGO, NOW)
    assert creates(done) == [f"chat-{service.uid[:5]}-7f3c-1"]
    assert deletes(done) == drains(done) == []


def test_a_new_revision_is_surged_and_a_node_drain_too():
    service = a_service(min_replicas=2, max_replicas=2, wanted=a_revision("9d1e"))
    pods = pods_of(service, 2, revision="7f3c")
    world = a_world(
        service, pods=pods, signals=signals_of(pods), revisions={service.uid: (a_revision("7f3c", number=1),)}
    )
    done, _ = plan(world, LONG_AGO, NOW)
    assert stores(done) == [("9d1e", 2)]
    assert creates(done) == [f"chat-{service.uid[:5]}-9d1e-0"]
    assert condition(done, "UpToDate") == ("False", "RollingOut")

    same = replace(service, wanted=a_revision("7f3c"))
    cordoned = replace(world, services=(same,), nodes=(a_node("node-0", cordoned=True), a_node("node-1")))
    done, _ = plan(cordoned, LONG_AGO, NOW)
    assert creates(done) == [f"chat-{service.uid[:5]}-7f3c-2"]
    assert condition(done, "UpToDate") == ("False", "LeavingNodes")
