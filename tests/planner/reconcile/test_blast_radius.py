"""Limits on what one planner may do, even when its input is wrong."""

from dataclasses import replace
from typing import Any

import pytest

from forebay.planner.memory import State
from forebay.planner.planner import plan
from forebay.world.plan import Plan
from forebay.world.settings import Settings
from forebay.world.world import World
from tests.builders.plans import actions, creates, deletes, drains, message
from tests.builders.world import NOW, a_node, a_pod, a_service, a_world, nodes, pods_of, signals_of

LONG_AGO = State.empty(NOW - 3600)


def a_fleet(count: int = 12) -> World:
    service = a_service(min_replicas=12, max_replicas=12)
    pods = pods_of(service, count)
    return a_world(service, pods=pods, signals=signals_of(pods), nodes=nodes(4))


DEAD_NODE_AND_TWO = (a_node("node-0", ready=False, unready_since=NOW - 999), a_node("node-1"), a_node("node-2"))


def a_fleet_on_a_dead_node(count: int = 12, **limits: Any) -> World:
    service = a_service(min_replicas=count, max_replicas=count)
    pods = pods_of(service, count, node="node-0")
    return a_world(service, pods=pods, nodes=DEAD_NODE_AND_TWO, settings=Settings(**limits))


def after(first: World, *others: World) -> tuple[Plan, State]:
    """The last of several ticks, 5 s apart."""
    done, state = plan(first, LONG_AGO, NOW)
    for index, world in enumerate(others, start=1):
        done, state = plan(world, state, NOW + 5 * index)
    return done, state


@pytest.mark.parametrize(
    ("change", "what"),
    [
        pytest.param({"nodes": ()}, "4 nodes", id="no nodes where there were some"),
        pytest.param({"pods": ()}, "12 pods", id="no pods where there were many"),
    ],
)
def test_an_implausible_world_is_held_back(change, what):
    done, _ = after(a_fleet(), replace(a_fleet(), **change))
    assert done.held is not None
    assert done.held.startswith(f"there were {what} and now there are none")
    assert done.services == ()


def test_no_services_where_there_were_many_is_held_back():
    services = tuple(a_service(f"s{index}") for index in range(3))
    done, _ = after(a_world(*services), a_world())
    assert done.held is not None


def test_a_world_that_stays_implausible_is_accepted_in_the_end():
    gone = replace(a_fleet(), nodes=())
    _, state = after(a_fleet(), gone)
    assert plan(gone, state, NOW + 5 + 599)[0].held is not None
    assert plan(gone, state, NOW + 5 + 601)[0].held is None


def test_a_small_world_may_become_empty():
    service = a_service(max_replicas=2)
    done, _ = after(a_world(service, pods=(a_pod(service),)), a_world(service, nodes=(), pods=()))
    assert done.held is None


def test_memory_survives_a_held_tick():
    _, before = after(a_fleet())
    _, held = after(a_fleet(), replace(a_fleet(), nodes=()))
    assert held.services == before.services


def test_drains_per_ten_minutes_are_bounded_over_all_services():
    services = tuple(a_service(f"s{index}", max_replicas=1) for index in range(4))
    pods = tuple(pod for service in services for pod in pods_of(service, 3))
    world = a_world(*services, pods=pods, signals=signals_of(pods), settings=Settings(max_drains_per_10_minutes=5))
    done, state = plan(world, LONG_AGO, NOW)
    assert len(drains(done)) == 5
    assert len(state.drains) == 5
    assert drains(plan(world, state, NOW + 599)[0]) == []
    assert len(drains(plan(world, state, NOW + 600)[0])) == 5


@pytest.mark.parametrize(
    "limits",
    [
        pytest.param({"max_drains_per_10_minutes": 3}, id="few drains are allowed"),
        pytest.param({"max_drains_per_10_minutes": 0}, id="no drain is allowed"),
        pytest.param({"max_creates_per_minute": 3}, id="few creations are allowed"),
        pytest.param({"max_gpus": 12}, id="the lost pods alone would fill the ceiling of GPUs"),
    ],
)
def test_lost_replicas_are_charged_to_no_limit(limits):
    done, state = plan(a_fleet_on_a_dead_node(**limits), LONG_AGO, NOW)
    assert len(deletes(done)) == 12
    assert len(creates(done)) == 12
    assert (state.drains, state.creates) == ((), ())


def test_creations_beyond_those_that_replace_lost_replicas_are_charged():
    world = a_fleet_on_a_dead_node(12, max_creates_per_minute=3)
    done, state = plan(replace(world, pods=world.pods[:10]), LONG_AGO, NOW)
    assert len(creates(done)) == 12
    assert len(state.creates) == 2


def test_the_ceiling_of_gpus_bounds_the_replacements_of_lost_replicas():
    done, _ = plan(a_fleet_on_a_dead_node(max_gpus=5), LONG_AGO, NOW)
    assert (len(deletes(done)), len(creates(done))) == (12, 5)


def test_a_terminating_pod_of_a_lost_node_holds_no_ceiling():
    """Its kubelet is gone, so the pod stays for as long as the node object does."""
    service = a_service(min_replicas=4, max_replicas=4)
    pods = pods_of(service, 4, node="node-0", deleting=True)
    world = a_world(service, pods=pods, nodes=DEAD_NODE_AND_TWO, settings=Settings(max_gpus=4))
    assert len(creates(plan(world, LONG_AGO, NOW)[0])) == 4


def test_creations_per_minute_are_bounded_and_services_without_any_replica_come_first():
    served, empty = a_service("aa", min_replicas=4), a_service("zz", min_replicas=4)
    pods = pods_of(served, 1)
    world = a_world(served, empty, pods=pods, signals=signals_of(pods), settings=Settings(max_creates_per_minute=5))
    done, state = plan(world, LONG_AGO, NOW)
    made = creates(done)
    assert len(made) == 5
    assert sum(name.startswith("zz-") for name in made) == 4
    assert creates(plan(world, state, NOW + 59)[0]) == []


def test_the_gpu_ceiling_counts_every_pod_there_is():
    service = a_service(min_replicas=4)
    pods = (a_pod(service, 0, gpus=2), a_pod(service, 1, gpus=2, deleting=True))
    world = a_world(service, pods=pods, signals=signals_of(pods), settings=Settings(max_gpus=5))
    done, state = plan(world, LONG_AGO, NOW)
    assert len(creates(done)) == 1
    assert "the operator's ceiling of 5 GPUs is reached" in message(done, "Ready")
    assert state.services[service.uid].held_back == "the operator's ceiling of 5 GPUs is reached"


def test_an_error_in_one_service_affects_that_service_alone():
    class Broken:
        """A spec that raises an error when it is read."""

        def __getattr__(self, name):
            raise RuntimeError("no such spec")

    good, bad = a_service("good"), replace(a_service("bad"), spec=Broken())  # type: ignore[arg-type]
    done, state = plan(a_world(good, bad), LONG_AGO, NOW)
    by_name = {share.key.name: share for share in done.services}
    assert by_name["bad"].actions == ()
    assert by_name["good"].actions != ()
    condition = by_name["bad"].status.conditions[0]
    assert (condition.type, condition.status, condition.reason) == ("Planned", "False", "PlanningFailed")
    assert condition.message == "Planning failed, so nothing is done for this service: RuntimeError: no such spec"
    assert "RuntimeError" in (by_name["bad"].error or "")
    assert [event.reason for event in by_name["bad"].events] == ["PlanningFailed"]
    again, _ = plan(a_world(good, bad), state, NOW + 5)
    assert [event.reason for share in again.services if share.key.name == "bad" for event in share.events] == []
    assert actions(again) != ()
