"""What is learned of a service, and how it outlives the operator."""

import json
import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from forebay.api.inference_service import InferenceServiceStatus
from forebay.api.learned_status import LEARNED_VERSION, LearnedStatus
from forebay.planner.memory import Learned
from forebay.planner.observe.learned import PUBLISH_SECONDS, learn_starts, publish, recall, start_of, to_status
from forebay.planner.observe.placement import free_places, prospect_of
from forebay.planner.observe.replicas import Replica, ReplicaState
from forebay.scaling.learning.growth import LARGEST_STEP, MOST_DAYS, Growth
from forebay.scaling.learning.lead_time import LONGEST_SECONDS, MOST_STARTS, LeadTimes, WarmState
from forebay.scaling.load.arrivals import RequestLengths
from tests.builders.world import NOW, a_node, a_pod, a_service, a_shape, nodes, pods_of

PLACEHOLDER, READY, NEW = WarmState
SERVICE = a_service("chat")
NODES = {node.name: node for node in nodes(2)}
LONGEST_START_SECONDS = 1500.0
TODAY = int(NOW // 86400)


def a_replica(ordinal: int = 0, *, state: ReplicaState = ReplicaState.SERVING, pods: int = 1, **fields: Any) -> Replica:
    group = tuple(a_pod(SERVICE, ordinal, rank=rank, **fields) for rank in range(pods))
    return Replica(group[0].revision, ordinal, group, state)


def learned_from(*replicas: Replica, before: Learned | None = None, watching_since: float = NOW - 7200) -> Learned:
    return learn_starts(before or Learned(), replicas, NODES, watching_since, LONGEST_START_SECONDS)


# Starts.


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param({}, {READY: (60,)}, id="60 s on a node that was there"),
        pytest.param({"ready": False}, {}, id="not ready yet"),
        pytest.param({"restarts": 1}, {}, id="crashed on the way, or after it"),
        pytest.param({"node": "gone"}, {}, id="on a node nobody knows"),
        pytest.param({"scheduled_at": NOW - 3590, "ready_since": NOW - 3540}, {READY: (50,)}, id="10 s unplaced"),
    ],
)
def test_lead_times_learned_from_a_replica(fields, expected):
    assert learned_from(a_replica(**fields)).lead_times.starts == expected


def test_a_node_younger_than_the_pod_counts_as_a_new_node():
    added = {"node-0": replace(a_node("node-0"), created_at=NOW - 3500)}
    start = start_of(a_replica(scheduled_at=NOW - 3400, ready_since=NOW - 3300), added)
    assert start is not None
    assert (start.state, start.seconds) == (NEW, 300)


def test_a_replica_of_several_pods_starts_as_a_whole():
    replica = a_replica(pods=2)
    late = replace(replica.pods[1], ready_since=NOW - 3400, scheduled_at=NOW - 3500)
    start = start_of(replace(replica, pods=(replace(replica.pods[0], scheduled_at=NOW - 3590), late)), NODES)
    assert start is not None
    assert start.seconds == 100
    waiting = replace(replica, pods=(replica.pods[0], replace(late, ready=False, ready_since=None)))
    assert start_of(waiting, NODES) is None


def test_a_start_counts_once_even_if_its_readiness_comes_and_goes():
    once = learned_from(a_replica())
    assert learned_from(a_replica(), before=once) is once
    away = learned_from(a_replica(ready=False, state=ReplicaState.LOADING), before=once)
    back = learned_from(a_replica(ready_since=NOW - 60), before=away)
    assert back.lead_times.starts == {READY: (60,)}


def test_counted_starts_of_deleted_pods_are_forgotten():
    assert learned_from(before=learned_from(a_replica())).counted == ()


def test_a_late_ready_time_of_an_older_pod_is_not_a_start():
    flapped = a_replica(created_at=NOW - 86400, ready_since=NOW - 60)
    assert learned_from(flapped, watching_since=NOW - 30).lead_times.starts == {}
    slow = a_replica(created_at=NOW - 2000, ready_since=NOW - 60)
    assert learned_from(slow, watching_since=NOW - 2100).lead_times.starts == {READY: (1940,)}


# Places.


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        pytest.param(a_shape(gpus=1), 14, id="every free GPU"),
        pytest.param(a_shape(gpus=4), 3, id="two and one of four"),
        pytest.param(a_shape(gpus=8), 1, id="a whole node"),
        pytest.param(a_shape(gpus=4, pods=2), 1, id="three pods make one replica of two"),
        pytest.param(a_shape(resource_name="amd.com/gpu"), 0, id="no such GPU"),
        pytest.param(replace(a_shape(), node_selector=(("pool", "a"),)), 2, id="only on its own nodes"),
    ],
)
def test_free_places_by_shape(shape, expected):
    fleet = [
        a_node("node-0"),
        a_node("node-1", gpus=7),
        replace(a_node("node-2", gpus=2), labels={"pool": "a"}),
        a_node("node-3", cordoned=True),
        a_node("node-4", ready=False),
    ]
    held = (*pods_of(SERVICE, 1, node="node-1", gpus=3), *pods_of(SERVICE, 1, node="nowhere"))
    assert free_places([shape], fleet, held)[shape] == expected


@pytest.mark.parametrize(
    ("replicas", "expected"),
    [
        pytest.param((), READY, id="there is room"),
        pytest.param((a_replica(node=None, state=ReplicaState.LOADING),), NEW, id="which one on its way takes"),
        pytest.param((a_replica(node="node-0", state=ReplicaState.LOADING),), READY, id="a placed one has its own"),
        pytest.param((a_replica(node=None, state=ReplicaState.DRAINING),), READY, id="one that goes takes none"),
    ],
)
def test_the_node_state_for_the_next_replica(replicas, expected):
    assert prospect_of(LeadTimes(), 1, 0, replicas).state_of(1) is expected


def test_an_unschedulable_replica_overrides_free_gpus():
    stuck = a_replica(node=None, blocked="Unschedulable", state=ReplicaState.LOADING)
    assert prospect_of(LeadTimes(), 8, 0, (stuck,)).free_places == 0


# Status.


def durations() -> st.SearchStrategy[tuple[int, ...]]:
    return st.lists(st.integers(1, LONGEST_SECONDS), min_size=1, max_size=MOST_STARTS).map(tuple)


everything = st.builds(
    Learned,
    lead_times=st.dictionaries(st.sampled_from(WarmState), durations()).map(LeadTimes),
    growth=st.dictionaries(
        st.integers(TODAY - 400, TODAY),
        st.dictionaries(st.integers(0, LARGEST_STEP), st.integers(1, 1440), min_size=1),
        max_size=MOST_DAYS,
    ).map(Growth),
    lengths=st.none()
    | st.builds(
        RequestLengths,
        st.integers(1, 10_000_000).map(float),
        st.integers(1, 10_000_000).map(float),
        st.integers(5, 100).map(lambda percent: percent / 100),
        st.integers(0, 10_000).map(float),
    ),
    newest_start=st.integers(0, int(NOW)).map(float),
    published=st.just(LearnedStatus(version=LEARNED_VERSION)),
)


@given(everything)
def test_learned_data_survives_the_status(learned):
    status = InferenceServiceStatus(learned=to_status(learned))
    stored = json.loads(status.model_dump_json(by_alias=True, exclude_none=True))
    back = recall(InferenceServiceStatus.model_validate(stored).learned, "uid", NOW)
    assert (back.lead_times, back.growth, back.lengths) == (learned.lead_times, learned.growth, learned.lengths)
    assert back.recalled_until == learned.newest_start
    assert back.reset == ""
    assert len(json.dumps(stored["learned"])) < 3000


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)
PLACES = [("version",), ("leadTime",), ("growth",), ("leadTime", "countedUntil"), ("leadTime", "readyNode", "seconds")]
PLACES += [("growth", "days"), ("leadTime", "newNode"), ("growth", "p95Percent")]


@st.composite
def spoiled(draw: st.DrawFn) -> Any:
    """A sound one with something else in one place, or anything at all."""
    if draw(st.booleans()):
        return draw(json_values)
    sound = to_status(draw(everything))
    assert sound is not None
    stored = sound.model_dump(mode="json", by_alias=True)
    place = draw(st.sampled_from(PLACES))
    inner = stored
    for name in place[:-1]:
        inner = inner[name]
    inner[place[-1]] = draw(json_values)
    return stored


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(spoiled())
def test_any_stored_status_is_read_or_discarded(stored):
    status = InferenceServiceStatus.model_validate({"observedGeneration": 7, "learned": stored})
    assert status.observed_generation == 7
    learned = recall(status.learned, "uid", NOW)
    if learned.reset:
        assert learned.lead_times == LeadTimes()
        assert learned.growth == Growth()
        assert learned.published is not None
    again = to_status(replace(learned, published=LearnedStatus(version=LEARNED_VERSION)))
    assert recall(again, "uid", NOW).reset == ""


@pytest.mark.parametrize(
    ("stored", "why"),
    [
        pytest.param({"version": 7, "anything": 1}, r"version 7\b.* 1\.$", id="a newer version"),
        pytest.param({"version": "1"}, r"schema\.$", id="the version is not a number"),
        pytest.param({"version": -3}, r"schema\.$", id="the version is negative"),
        pytest.param([1, 2], r"schema\.$", id="not an object"),
    ],
)
def test_a_stored_status_that_cannot_be_used_names_the_reason(stored, why):
    status = InferenceServiceStatus.model_validate({"learned": stored})
    assert re.search(why, recall(status.learned, "uid", NOW).reset)


def test_a_status_without_learned_data_is_not_an_error():
    assert recall(None, "uid", NOW).reset == ""


def test_what_was_learned_is_published_every_half_hour_at_its_own_time():
    due = [recall(None, f"uid-{index}", NOW).publish_at - NOW for index in range(200)]
    assert all(0 <= after < PUBLISH_SECONDS for after in due)
    assert len({int(after // 60) for after in due}) > 25, "spread over the half hour"
    learned = replace(Learned(publish_at=NOW), lead_times=LeadTimes({READY: (60,)}))
    first = publish(learned, NOW)
    assert first.published is not None
    assert publish(first, NOW + PUBLISH_SECONDS - 1) is first
    assert publish(first, NOW + PUBLISH_SECONDS) is not first
    assert publish(learned, NOW - 1).published is None
    assert publish(learned, NOW - 1, at_once=True).published is not None
