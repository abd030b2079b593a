"""Services of which nothing has changed keep their plan, and nothing that happens is missed because of it."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.planner.memory import State
from forebay.planner.observe.at_rest import (
    LONGEST_REST_SECONDS,
    MOST_PODS_AWAKENED,
    SERVICE_IN_PODS,
    AtRest,
    services_at_rest,
)
from forebay.planner.observe.fleet_context import fleet_context_of
from forebay.planner.planner import plan
from forebay.scaling.load.signals import PodSignals
from forebay.world.plan import Plan
from forebay.world.world import ChildView, Refusal, World
from tests.builders.world import NOW, a_node, a_sample, a_service, a_world, pods_of, signals_of
from tests.planner.any_world import quick

CHILD = ChildView("Service", "default", "chat", None, "same")
SERVICE = a_service("chat", min_replicas=2, max_replicas=4)
OTHER = a_service("other", min_replicas=1)
PODS = pods_of(SERVICE, 2)
WORLD = a_world(SERVICE, OTHER, pods=(*PODS, *pods_of(OTHER, 1)), signals=signals_of((*PODS, *pods_of(OTHER, 1))))


def settled(world: World = WORLD, now: float = NOW) -> State:
    _, state = plan(world, State.empty(now - 3600), now)
    return state


def at_rest(world: World, state: State, now: float) -> set[str]:
    """The names of the services that keep their plan."""
    resting = services_at_rest(fleet_context_of(world, state, now), world.services)
    return {service.key.name for service in world.services if service.uid in resting.memories}


def status_of(done: Plan, name: str) -> object:
    return next(service.status for service in done.services if service.key.name == name)


def test_a_service_of_which_nothing_has_changed_keeps_its_plan():
    state = settled()
    assert at_rest(WORLD, state, NOW + 1) == {"chat", "other"}
    done, after = plan(WORLD, state, NOW + 1)
    assert [(service.key.name, service.actions, service.events) for service in done.services] == [
        ("chat", (), ()),
        ("other", (), ()),
    ]
    assert after.services == state.services
    assert status_of(done, "chat") is state.services[SERVICE.uid].status


def with_pod(world: World, **changes: Any) -> World:
    return replace(world, pods=(replace(PODS[0], **changes), *world.pods[1:]))


CHANGES: dict[str, Callable[[World], World]] = {
    "its object": lambda world: replace(world, services=(replace(SERVICE, generation=2), OTHER)),
    "a pod": lambda world: with_pod(world, ready=False, ready_since=None),
    "a pod that is gone": lambda world: replace(world, pods=world.pods[1:]),
    "a sample": lambda world: replace(
        world, signals={**world.signals, PODS[0].uid: PodSignals(a_sample(at=NOW + 1, waiting=100))}
    ),
    "a scrape that failed": lambda world: replace(
        world, signals={**world.signals, PODS[0].uid: PodSignals(None, "refused")}
    ),
    "a revision": lambda world: replace(world, revisions={**world.revisions, SERVICE.uid: ()}),
    "a refusal": lambda world: replace(world, refusals=(Refusal(SERVICE.uid, "chat-x", "QuotaExceeded", "no", NOW),)),
    "the room on the nodes": lambda world: replace(world, nodes=(a_node("node-0", gpus=2),)),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_a_change_ends_the_rest_of_the_service_it_concerns(change: Callable[[World], World]):
    resting = at_rest(change(WORLD), settled(), NOW + 2)
    assert "chat" not in resting


@pytest.mark.parametrize("name", ["its object", "a pod", "a sample", "a revision", "a refusal"])
def test_a_change_leaves_other_services_at_rest(name: str):
    assert at_rest(CHANGES[name](WORLD), settled(), NOW + 2) == {"other"}


def test_a_change_of_what_all_share_ends_the_rest_of_all():
    cordoned = replace(WORLD, nodes=(replace(WORLD.nodes[0], cordoned=True), WORLD.nodes[1]))
    assert at_rest(cordoned, settled(), NOW + 2) == set()
    longer = replace(WORLD, settings=replace(WORLD.settings, stale_after_seconds=300.0))
    assert at_rest(longer, settled(), NOW + 2) == set()


def test_an_own_object_that_is_changed_by_hand_ends_the_rest():
    service = a_service("chat", min_replicas=2, children=(replace(CHILD, body={}),))
    owned = replace(CHILD, owner_uid=service.uid)
    pods = pods_of(service, 2)
    world = a_world(service, pods=pods, signals=signals_of(pods), children=(owned,))
    assert at_rest(world, settled(world), NOW + 2) == {"chat"}
    changed = replace(world, children=(replace(owned, fingerprint="other"),))
    assert at_rest(changed, settled(world), NOW + 2) == set()


def test_a_rest_ends_after_half_a_minute_or_when_the_samples_grow_old():
    later = replace(WORLD, settings=replace(WORLD.settings, stale_after_seconds=300.0))
    state = settled(later)
    assert at_rest(later, state, NOW + LONGEST_REST_SECONDS - 1) == {"chat", "other"}
    assert at_rest(later, state, NOW + LONGEST_REST_SECONDS) == set()
    sooner = replace(WORLD, settings=replace(WORLD.settings, stale_after_seconds=20.0))
    assert at_rest(sooner, settled(sooner), NOW + 20) == set()


def test_a_rest_ends_when_something_of_the_service_is_due():
    state = settled()
    memory = state.services[SERVICE.uid]
    cooling = replace(memory, scaling=replace(memory.scaling, raised_at=NOW - 291.0), rest=None)
    _, state = plan(WORLD, replace(state, services={**state.services, SERVICE.uid: cooling}), NOW)
    assert at_rest(WORLD, state, NOW + 8) == {"chat", "other"}
    assert at_rest(WORLD, state, NOW + 9) == {"other"}
    done, _ = plan(WORLD, state, NOW + 8)
    assert done.wake_in_seconds == pytest.approx(1.0)


def test_a_service_with_something_to_wait_for_does_not_rest():
    world = with_pod(WORLD, ready=False, ready_since=None, unready_since=NOW - 10)
    assert "chat" not in at_rest(world, settled(world), NOW + 1)
    silent = replace(WORLD, signals={PODS[0].uid: WORLD.signals[PODS[0].uid]})
    assert "chat" not in at_rest(silent, settled(silent), NOW + 1)


FLEET = tuple(a_service(f"s{number:03}", min_replicas=2) for number in range(500))
FLEET_PODS = tuple(pod for service in FLEET for pod in pods_of(service, 2))
FLEET_WORLD = a_world(*FLEET, pods=FLEET_PODS)
A_TICK = -(-MOST_PODS_AWAKENED // (SERVICE_IN_PODS + 2))
"""So many of these services are awakened in one tick."""


def a_fleet(sampled_at: float) -> World:
    return replace(FLEET_WORLD, signals=signals_of(FLEET_PODS, at=sampled_at))


def resting(world: World, state: State, now: float) -> AtRest:
    return services_at_rest(fleet_context_of(world, state, now), world.services)


def test_new_samples_of_a_whole_fleet_are_read_in_several_ticks_the_longest_rest_first():
    state = settled(a_fleet(NOW))
    world = a_fleet(NOW + 5)
    assert len(resting(world, state, NOW + 5).put_off) == len(FLEET) - A_TICK

    done, state = plan(world, state, NOW + 5)
    assert done.wake_in_seconds == pytest.approx(0.5)
    again = resting(world, state, NOW + 6)
    assert not again.put_off
    assert len(again.memories) == A_TICK

    newest = resting(a_fleet(NOW + 7), state, NOW + 7)
    assert newest.put_off < again.memories.keys()


def test_a_pod_that_fails_does_not_wait_for_the_samples_of_the_fleet():
    state = settled(a_fleet(NOW))
    failed = replace(FLEET_PODS[-1], ready=False, ready_since=None, unready_since=NOW + 4)
    world = replace(a_fleet(NOW + 5), pods=(*FLEET_PODS[:-1], failed))
    assert FLEET[-1].uid not in resting(world, state, NOW + 5).memories


def test_a_service_is_put_off_for_half_a_minute_at_most():
    state = settled(a_fleet(NOW))
    world = a_fleet(NOW + LONGEST_REST_SECONDS)
    assert not resting(world, state, NOW + LONGEST_REST_SECONDS).memories


def without_rest(state: State) -> State:
    return replace(state, services={uid: replace(memory, rest=None) for uid, memory in state.services.items()})


@quick
@given(
    replicas=st.integers(1, 4),
    running=st.integers(0, 300),
    waiting=st.integers(0, 60),
    kv=st.floats(0, 1),
    seconds=st.floats(0.5, LONGEST_REST_SECONDS),
)
def test_a_plan_from_scratch_would_change_nothing_either(replicas, running, waiting, kv, seconds):
    service = a_service("chat", min_replicas=1, max_replicas=6)
    pods = pods_of(service, replicas)
    world = a_world(service, pods=pods, signals=signals_of(pods, running=running, waiting=waiting, kv=kv))
    state = settled(world)
    kept, _ = plan(world, state, NOW + seconds)
    anew, _ = plan(world, without_rest(state), NOW + seconds)
    assert kept.services[0].actions == anew.services[0].actions
    assert kept.services[0].status.replicas == anew.services[0].status.replicas
