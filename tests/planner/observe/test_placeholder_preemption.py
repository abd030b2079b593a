"""Placeholder preemption: how it is observed, learned from, and counted on for the next replicas."""

from dataclasses import replace

import pytest

from forebay.api.inference_service import ScheduleState
from forebay.planner.memory import Preemptions
from forebay.planner.observe.placeholder_preemption import IN_TRANSIT_SECONDS, HeldPlaces, preemptions_of
from forebay.planner.observe.placement import prospect_above_min_of, prospect_of
from forebay.planner.observe.replicas import Replica, ReplicaState
from forebay.scaling.learning.lead_time import PRIOR_SECONDS, LeadTimes, WarmState
from forebay.world.world import PodView, World
from tests.builders.cluster import Cluster, a_cluster
from tests.builders.pools import a_pool, holding
from tests.builders.schedules import a_schedule
from tests.builders.world import (
    IMAGE,
    NOW,
    a_node,
    a_place,
    a_placeholder,
    a_pod,
    a_revision,
    a_service,
    a_spec,
    a_world,
    nodes,
)
from tests.schedules.test_timetable import unix

PLACEHOLDER, READY, NEW = WarmState
SERVICE = a_service("chat", placeholders=2)
HOLDING = a_placeholder(SERVICE, created_at=NOW - 3600)
TOOK = a_pod(SERVICE, created_at=NOW + 1, scheduled_at=NOW + 3, ready=False)


def world_of(*pods: PodView, pools=(), services=(SERVICE,)) -> World:
    return replace(a_world(*services, pods=pods, nodes=nodes(2)), warm_pools=pools)


def preempting_pods(before: World, after: World, later: float = 5.0) -> frozenset[str]:
    return preemptions_of(after, preemptions_of(before, Preemptions(), NOW), NOW + later).taken


def test_a_pod_that_got_its_node_when_a_placeholder_there_had_gone_took_its_place():
    assert preempting_pods(world_of(HOLDING), world_of(TOOK)) == {TOOK.uid}
    assert preempting_pods(world_of(HOLDING), world_of(TOOK, replace(HOLDING, deleting=True))) == {TOOK.uid}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param((HOLDING,), (TOOK, HOLDING), id="the placeholder is still there"),
        pytest.param((HOLDING,), (replace(TOOK, node="node-1"),), id="on another node"),
        pytest.param((HOLDING,), (replace(TOOK, node=None, scheduled_at=None),), id="not placed yet"),
        pytest.param((HOLDING,), (replace(TOOK, scheduled_at=NOW - 60),), id="placed before"),
        pytest.param((HOLDING,), (replace(TOOK, gpus=2),), id="it needs more than was held"),
        pytest.param((HOLDING,), (replace(TOOK, owner_uid="other"),), id="of nobody we know"),
        pytest.param((replace(HOLDING, ready=False),), (TOOK,), id="the image had not been pulled"),
        pytest.param((replace(HOLDING, place="old"),), (TOOK,), id="of a shape that is not known any more"),
        pytest.param((), (TOOK,), id="an operator that has just begun has seen nothing"),
    ],
)
def test_starts_that_preempted_no_placeholder(before, after):
    assert preempting_pods(world_of(*before), world_of(*after)) == frozenset()


def test_a_placeholder_gives_way_to_one_pod_and_two_to_one_of_their_size_together():
    other = replace(TOOK, uid="other", name="other", scheduled_at=NOW + 4)
    assert preempting_pods(world_of(HOLDING), world_of(other, TOOK)) == {TOOK.uid}, "the first one has it"
    both = (HOLDING, a_placeholder(SERVICE, 1, created_at=NOW - 3600))
    assert preempting_pods(world_of(*both), world_of(TOOK, other)) == {TOOK.uid, "other"}
    assert preempting_pods(world_of(*both), world_of(replace(TOOK, gpus=2))) == {TOOK.uid}


def test_a_freed_place_is_reserved_for_a_minute_and_a_preemption_remembered_with_its_pod():
    given_up = preemptions_of(world_of(), preemptions_of(world_of(HOLDING), Preemptions(), NOW), NOW + 5)
    late = replace(TOOK, scheduled_at=NOW + 30)
    taken = preemptions_of(world_of(late), given_up, NOW + 31)
    assert taken.taken == {TOOK.uid}
    assert taken.in_transit == ()
    assert preemptions_of(world_of(late), taken, NOW + 7200).taken == {TOOK.uid}
    assert preemptions_of(world_of(), taken, NOW + 7200).taken == frozenset()
    assert preemptions_of(world_of(late), given_up, NOW + IN_TRANSIT_SECONDS).taken == frozenset()


def test_a_place_of_a_pool_counts_only_for_pods_of_its_image():
    pool = a_pool()
    (held,) = holding(pool, 1)
    assert preempting_pods(world_of(held, pools=(pool,)), world_of(TOOK, pools=(pool,))) == {TOOK.uid}
    other = replace(pool, place=a_place("same", 1, "another:image"))
    assert preempting_pods(world_of(held, pools=(other,)), world_of(TOOK, pools=(other,))) == frozenset()


def held_for(world: World, service=SERVICE) -> int:
    return HeldPlaces.of(world, preemptions_of(world, Preemptions(), NOW)).replicas_for(service.uid, service.wanted)


def test_places_for_a_service_are_its_own_and_its_share_of_a_pools():
    pool = a_pool()
    held = (HOLDING, *holding(pool, 4))
    assert held_for(world_of(*held, pools=(pool,))) == 5
    assert held_for(world_of(*held, pools=(pool,), services=(SERVICE, a_service("code")))) == 3
    gone = replace(a_service("old"), deleting=True)
    assert held_for(world_of(*held, pools=(pool,), services=(SERVICE, gone))) == 5


def test_unusable_places_do_not_count():
    assert held_for(world_of(replace(HOLDING, node="gone"))) == 0
    cordoned = a_world(SERVICE, pods=(HOLDING,), nodes=(a_node("node-0", cordoned=True),))
    assert held_for(cordoned) == 0
    pair = a_service("chat", wanted=a_revision(gpus=1, pods=2))
    assert held_for(world_of(HOLDING, services=(pair,)), pair) == 0
    assert held_for(world_of(HOLDING, a_placeholder(SERVICE, 1, node="node-1"), services=(pair,)), pair) == 1


def a_replica(ordinal: int = 0, *, state: ReplicaState = ReplicaState.LOADING, **fields) -> Replica:
    pod = a_pod(SERVICE, ordinal, **{"ready": False, **fields})
    return Replica(pod.revision, ordinal, (pod,), state)


WAITS = a_replica(1, node=None)


@pytest.mark.parametrize(
    ("free", "held", "replicas", "expected"),
    [
        pytest.param(0, 2, (), (0, 2), id="held by placeholders"),
        pytest.param(1, 2, (WAITS,), (0, 2), id="one on its way takes free GPUs first"),
        pytest.param(0, 2, (WAITS,), (0, 1), id="else the place of a placeholder"),
        pytest.param(3, 2, (a_replica(1, node=None, blocked="Unschedulable"),), (0, 1), id="others hold those GPUs"),
        pytest.param(0, 0, (WAITS,), (0, 0), id="and nothing is less than nothing"),
    ],
)
def test_what_is_left_for_the_next_replicas(free, held, replicas, expected):
    prospect = prospect_of(LeadTimes(), free, held, replicas)
    assert (prospect.free_places, prospect.placeholders) == expected


def test_the_lead_time_of_a_floor_is_stable_while_its_replicas_start():
    """The lead time is the same before anything is created, while one replica waits and one is placed, and when both
    serve."""
    first = a_replica(0, state=ReplicaState.SERVING, created_at=NOW - 7200)
    one, two = (a_replica(ordinal, created_at=NOW - ordinal) for ordinal in (1, 2))
    waits = a_replica(2, node=None, created_at=NOW)
    for held, replicas, taken in (
        (2, (first,), ()),
        (1, (first, one, waits), (one,)),
        (0, (first, one, two), (one, two)),
    ):
        uids = frozenset(replica.pods[0].uid for replica in taken)
        prospect = prospect_above_min_of(1, LeadTimes(), 0, held, replicas, uids)
        assert prospect.lead_seconds_for(2) == PRIOR_SECONDS[PLACEHOLDER]
    cold = prospect_above_min_of(1, LeadTimes(), 0, 0, (first, one, two), frozenset())
    assert cold.lead_seconds_for(2) == PRIOR_SECONDS[READY]


def a_held_node(placeholders: int = 2, **fields) -> Cluster:
    """A node of three GPUs: one replica runs on it, and placeholders hold the other GPUs. Starts take 60 s."""
    service = a_service("chat", placeholders=placeholders, max_replicas=3, **fields)
    return a_cluster(service, nodes=[a_node("node-0", gpus=3)], now=EIGHT - 1800)


EIGHT = unix("2026-03-30T08:00", "Europe/Berlin")


def starts(cluster: Cluster) -> dict[WarmState, tuple[int, ...]]:
    memory = cluster.state.services[cluster.services["chat"].uid]
    assert memory.learned is not None
    return dict(memory.learned.lead_times.starts)


def test_a_start_in_the_place_of_a_placeholder_is_learned_as_one():
    cluster = a_held_node()
    cluster.run(300)
    assert cluster.condition("chat", "Warm") == ("True", "Warm")
    cluster.edit("chat", spec=a_spec(placeholders=2, min_replicas=3, max_replicas=3))
    cluster.run_until(lambda: len(cluster.serving("chat")) == 3)
    cluster.run(10)
    learned = starts(cluster)
    assert (len(learned[READY]), len(learned[PLACEHOLDER])) == (1, 2)


@pytest.mark.parametrize(("placeholders", "lead"), [(2, 120), (0, 300)])
def test_warming_begins_earlier_without_placeholders(placeholders, lead):
    """With held places warming begins two minutes and the margin before the start, and the start is never at risk."""
    cluster = a_held_node(placeholders, schedules=(a_schedule(replicas=3),))
    first_seen_at: dict[str, float] = {}

    def watch() -> None:
        for schedule in cluster.status("chat").schedules:
            first_seen_at.setdefault(schedule.state, cluster.now)

    cluster.run(1800 + 30, watch=watch)
    assert list(first_seen_at) == [ScheduleState.IDLE, ScheduleState.WARMING, ScheduleState.MET]
    assert 0 <= first_seen_at[ScheduleState.WARMING] - (EIGHT - lead - 30) <= 5
    assert len(starts(cluster).get(PLACEHOLDER, ())) == placeholders


def test_builders_use_the_image_of_revisions():
    assert SERVICE.wanted is not None
    assert SERVICE.wanted.place is not None
    assert SERVICE.wanted.place.image == IMAGE
