"""Placeholders: their number and shape, and that no rule counts them as replicas."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.api.inference_service import ScalingMode, WarmPoolSpec
from forebay.planner.memory import State
from forebay.planner.planner import plan
from forebay.world.plan import CreatePlaceholder, DeletePlaceholder
from forebay.world.settings import Settings
from forebay.world.world import PodView, Refusal, ServiceView, World
from tests.builders.cluster import Cluster, a_cluster
from tests.builders.plans import actions, condition, creates, deletes, drains, given_up, held, message
from tests.builders.world import (
    NOW,
    a_node,
    a_placeholder,
    a_pod,
    a_revision,
    a_service,
    a_spec,
    a_world,
    pods_of,
    signals_of,
)
from tests.planner.any_world import quick, worlds

PATIENT = State.empty(NOW - 3600)


def planned(service, *pods: PodView, state=PATIENT, **world):
    return plan(a_world(service, pods=pods, signals=signals_of(pods), **world), state, NOW)[0]


def stem(service) -> str:
    return f"{service.key.name}-{service.uid[:5]}-placeholder"


def test_placeholders_are_created_beside_maxreplicas():
    service = a_service(placeholders=2, min_replicas=1, max_replicas=1)

    done = planned(service, a_pod(service))

    assert (held(done), creates(done)) == ([f"{stem(service)}-0", f"{stem(service)}-1"], [])


def test_replicas_are_created_first_and_not_fewer():
    done = planned(a_service(placeholders=1, min_replicas=2))

    kinds = [type(action).__name__ for action in actions(done)]
    assert kinds == ["CreatePod", "CreatePod", "CreatePlaceholder"]


def test_placeholders_have_the_configured_priority_class():
    done = planned(a_service(placeholders=1), settings=Settings(placeholder_priority_class="ours"))

    assert [a.priority_class for a in actions(done) if isinstance(a, CreatePlaceholder)] == ["ours"]


def test_a_replica_of_several_pods_needs_a_place_for_each():
    service = a_service(placeholders=2, wanted=a_revision(pods=2))

    assert len(held(planned(service))) == 4


def test_an_existing_placeholder_is_neither_recreated_nor_counted_as_a_replica():
    """It is ready and has no serving label, which in a replica would be a drain."""
    service = a_service(placeholders=1, min_replicas=1)

    done = planned(service, a_pod(service), a_placeholder(service))

    assert actions(done) == ()
    assert done.services[0].status.replicas.ready == 1
    assert condition(done, "Warm") == ("True", "Warm")


@pytest.mark.parametrize(
    ("fields", "why", "new"),
    [
        pytest.param({"place": "other"}, "another shape", 1, id="another shape"),
        pytest.param({"phase": "Failed"}, "ended", 1, id="evicted"),
        pytest.param({"phase": "Failed", "created_at": NOW - 5}, None, 0, id="refused by its node just now"),
        pytest.param({"node": None}, None, 0, id="waiting for room is no fault"),
        pytest.param({"blocked": "ImagePull"}, None, 0, id="nor is an image that is not there yet"),
        pytest.param({"deleting": True}, None, 1, id="handed over"),
        pytest.param({"node": "node-1"}, "its node is cordoned", 1, id="on a cordoned node"),
    ],
)
def test_when_a_placeholder_is_removed(fields, why, new):
    service = a_service(placeholders=1)
    pod = a_placeholder(service, **fields)

    done = planned(service, a_pod(service), pod, nodes=[a_node("node-0"), a_node("node-1", cordoned=True)])

    assert list(given_up(done)) == ([pod.name] if why else [])
    assert all(why in reason for reason in given_up(done).values())
    assert len(held(done)) == new
    assert (deletes(done), drains(done)) == ([], [])


def test_a_placeholder_on_a_lost_node_is_removed():
    service = a_service(placeholders=1)
    existing = [a_node(f"node-{i}") for i in range(3)] + [a_node("dead", ready=False, unready_since=NOW - 600)]

    done = planned(service, a_pod(service), a_placeholder(service, node="dead"), nodes=existing)

    assert list(given_up(done).values()) == ["its node is lost"]


def test_ready_placeholders_are_kept_when_fewer_are_wanted():
    service = a_service(placeholders=1)
    waiting, holding = a_placeholder(service, 0, node=None), a_placeholder(service, 1)

    assert list(given_up(planned(service, a_pod(service), waiting, holding))) == [waiting.name]


def test_a_rollout_that_changes_no_shape_leaves_them_alone():
    service = a_service(placeholders=1, wanted=a_revision("new0"))
    old = a_revision("old0", number=1)

    done = planned(service, a_pod(service, revision=old), a_placeholder(service), revisions={service.uid: (old,)})

    assert (given_up(done), held(done)) == ({}, [])
    assert creates(done)


def test_paused_touches_no_placeholder():
    service = a_service(placeholders=2, mode=ScalingMode.PAUSED)
    pod = a_placeholder(service, place="other")

    assert actions(planned(service, a_pod(service), pod)) == ()


def test_placeholders_of_other_owners_are_left_alone():
    service = a_service(placeholders=0)
    pod = replace(a_placeholder(service), owner_uid=None)

    assert actions(planned(service, a_pod(service), pod)) == ()


def asking_for(service: ServiceView, placeholders: int) -> ServiceView:
    assert service.spec is not None
    warm = WarmPoolSpec(replicas=service.spec.warm_pool.replicas, placeholders=placeholders)
    return replace(service, spec=service.spec.model_copy(update={"warm_pool": warm}))


def without_placeholders(world: World) -> World:
    return replace(
        world,
        services=tuple(asking_for(service, 0) for service in world.services),
        pods=tuple(pod for pod in world.pods if pod.place is None),
        warm_pools=(),
    )


@quick
@given(worlds(), st.data())
def test_placeholders_do_not_change_actions_on_replicas(world, data):
    """Whatever placeholders there are and are asked for, not one action on replicas differs."""
    world = without_placeholders(world)
    existing = tuple(
        a_placeholder(
            service,
            number,
            place=data.draw(st.sampled_from(["same", "other", ""])),
            node=data.draw(st.sampled_from([None, *(node.name for node in world.nodes)])),
            phase=data.draw(st.sampled_from([None, "Failed"])),
            deleting=data.draw(st.booleans()),
            owner_uid=data.draw(st.sampled_from(["", None])),
        )
        for service in world.services
        for number in range(data.draw(st.integers(0, 3)))
    )
    asked = tuple(asking_for(service, data.draw(st.integers(0, 3))) for service in world.services)
    alone, _ = plan(world, PATIENT, NOW)
    done, _ = plan(replace(world, services=asked, pods=(*world.pods, *existing)), PATIENT, NOW)
    about_places = (CreatePlaceholder, DeletePlaceholder)

    assert [action for action in actions(done) if not isinstance(action, about_places)] == list(actions(alone))
    assert [share.status.replicas for share in done.services] == [share.status.replicas for share in alone.services]
    names = [pod.name for pod in world.pods] + [pod.name for pod in existing]
    assert not set(held(done)) & set(names)
    assert set(given_up(done)) <= {pod.name for pod in existing if pod.owner_uid is not None}


def test_the_gpu_ceiling_goes_to_replicas_first():
    service = a_service(placeholders=4, min_replicas=3)

    done = planned(service, settings=Settings(max_gpus=5))

    assert (len(creates(done)), len(held(done))) == (3, 2)


def test_a_replica_takes_the_place_of_one_under_the_ceiling():
    """Four GPUs, all held: two replicas and two placeholders. A third replica is created, and one of them goes."""
    service = a_service(placeholders=2, min_replicas=3)
    pods = (*pods_of(service, 2), a_placeholder(service, 0), a_placeholder(service, 1))

    done = planned(service, *pods, settings=Settings(max_gpus=4))

    assert (len(creates(done)), len(given_up(done))) == (1, 1)


def test_the_condition_names_the_ceiling():
    service = a_service(placeholders=2)
    pods = (a_pod(service),)
    world = a_world(service, pods=pods, signals=signals_of(pods), settings=Settings(max_gpus=2))
    done, state = plan(world, PATIENT, NOW)
    done, _ = plan(world, state, NOW + 5)

    assert condition(done, "Warm") == ("False", "PlaceholdersHeldBack")
    assert "the operator's ceiling of 2 GPUs leaves room for 1" in message(done, "Warm")


def test_half_of_the_creations_stay_for_replicas():
    done = planned(a_service(placeholders=9), settings=Settings(max_creates_per_minute=6))

    assert (len(creates(done)), len(held(done))) == (1, 2)


def test_a_quota_that_has_no_room_for_a_replica_has_none_for_placeholders():
    service, other = a_service("chat", min_replicas=2), a_service("code", placeholders=1)
    pods = (a_pod(service), a_pod(other), a_placeholder(other))
    refusal = Refusal(service.uid, "chat-1", "QuotaExceeded", "exceeded quota", NOW - 5)
    world = a_world(service, other, pods=pods, signals=signals_of(pods), refusals=[refusal])

    assert list(given_up(plan(world, PATIENT, NOW)[0])) == [f"{stem(other)}-0"]


@pytest.mark.parametrize(("ago", "new"), [(10, 0), (61, 1)])
def test_a_refused_placeholder_is_retried_after_a_minute_and_delays_no_replica(ago, new):
    service = a_service(placeholders=1, min_replicas=2)
    refusal = Refusal(service.uid, "x", "QuotaExceeded", "exceeded quota", NOW - ago, placeholder=True)

    done = planned(service, a_pod(service), refusals=[refusal])

    assert (len(held(done)), len(creates(done))) == (new, 1)


def two_gpus() -> Cluster:
    """One node with one replica and one placeholder."""
    service = a_service(placeholders=1, min_replicas=1, max_replicas=2, scale_down_cooldown="60s")
    cluster = a_cluster(service, nodes=[a_node("node-0", gpus=2)])
    cluster.run(90)
    assert cluster.condition("chat", "Warm") == ("True", "Warm")
    return cluster


def scale(cluster, least: int) -> None:
    cluster.edit("chat", spec=a_spec(placeholders=1, min_replicas=least, max_replicas=2, scale_down_cooldown="60s"))


def test_a_placeholder_is_preempted_in_one_step_and_returns():
    cluster = two_gpus()
    cluster.load_seconds = 30.0
    scale(cluster, 2)
    took = cluster.run_until(lambda: len(cluster.serving("chat")) == 2)
    assert took <= 45, "the place was there, so only the load is waited for"
    cluster.run(120)
    (waiting,) = cluster.placeholders_of("chat")
    assert (waiting.node, waiting.blocked) == (None, "Unschedulable")
    assert cluster.condition("chat", "Warm") == ("False", "PlaceholdersPending")
    assert cluster.condition("chat", "Ready") == ("True", "Serving")
    scale(cluster, 1)
    cluster.run_until(lambda: cluster.condition("chat", "Warm") == ("True", "Warm"))
    (back,) = cluster.placeholders_of("chat")
    assert (back.name, back.ready) == (waiting.name, True), "the one that waited got the place"


def test_a_pending_placeholder_sends_no_event_and_writes_no_status():
    cluster = two_gpus()
    scale(cluster, 2)
    cluster.run_until(lambda: len(cluster.serving("chat")) == 2)
    cluster.run(60)
    events_before, writes = list(cluster.event_reasons("chat")), cluster.writes
    cluster.run(7200)
    assert (cluster.event_reasons("chat"), cluster.writes) == (events_before, writes)
    assert not [reason for reason in events_before if "laceholder" in reason]


def test_placeholders_are_deleted_when_none_are_wanted():
    cluster = two_gpus()
    cluster.edit("chat", spec=a_spec(min_replicas=1, max_replicas=2))
    cluster.run(15)
    assert cluster.placeholders_of("chat") == []
