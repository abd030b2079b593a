"""Services of which nothing has changed keep their plan, and nothing that happens is missed because of it."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.planner.memory import State
from forebay.planner.observe.at_rest import LONGEST_REST_SECONDS, services_at_rest
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
    return {service.key.name for service in world.services if service.uid in resting}


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
