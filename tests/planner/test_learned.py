"""What is learned of a service, and how it outlives the operator."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from forebay.api.inference_service import InferenceServiceStatus
from forebay.api.learned import LEARNED_VERSION, LearnedStatus
from forebay.planner.learned import (
    PUBLISH_SECONDS,
    Learned,
    publish,
    recall,
    seen_load,
    seen_starts,
    start_of,
    to_status,
)
from forebay.planner.places import free_places, prospect_of
from forebay.planner.planner import plan
from forebay.planner.replicas import Replica, ReplicaState
from forebay.planner.state import State
from forebay.scaling.arrivals import Lengths
from forebay.scaling.growth import LARGEST_STEP, MOST_DAYS, Growth
from forebay.scaling.lead_time import LONGEST_SECONDS, MOST_STARTS, LeadTimes, WarmState
from tests.builders.cluster import Cluster, Demand, a_cluster
from tests.builders.loads import a_carrier
from tests.builders.plans import only
from tests.builders.world import NOW, a_node, a_pod, a_service, a_shape, a_world, nodes, pods_of, signals_of

PLACEHOLDER, READY, NEW = WarmState
SERVICE = a_service("chat")
NODES = {node.name: node for node in nodes(2)}
PATIENCE = 1500.0
TODAY = int(NOW // 86400)


def a_replica(ordinal: int = 0, *, state: ReplicaState = ReplicaState.SERVING, pods: int = 1, **fields: Any) -> Replica:
    found = tuple(a_pod(SERVICE, ordinal, rank=rank, **fields) for rank in range(pods))
    return Replica(found[0].revision, ordinal, found, state)


def learned_from(*replicas: Replica, before: Learned | None = None, watching_since: float = NOW - 7200) -> Learned:
    return seen_starts(before or Learned(), replicas, NODES, watching_since, PATIENCE)


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
def test_what_is_learned_of_a_replica(fields, expected):
    assert learned_from(a_replica(**fields)).lead_times.starts == expected


def test_a_node_that_came_after_the_pod_was_added_for_it():
    added = {"node-0": replace(a_node("node-0"), created_at=NOW - 3500)}
    found = start_of(a_replica(scheduled_at=NOW - 3400, ready_since=NOW - 3300), added)
    assert found is not None
    assert (found.state, found.seconds) == (NEW, 300)


def test_a_replica_of_several_pods_starts_as_a_whole():
    replica = a_replica(pods=2)
    late = replace(replica.pods[1], ready_since=NOW - 3400, scheduled_at=NOW - 3500)
    found = start_of(replace(replica, pods=(replace(replica.pods[0], scheduled_at=NOW - 3590), late)), NODES)
    assert found is not None
    assert found.seconds == 100
    waiting = replace(replica, pods=(replica.pods[0], replace(late, ready=False, ready_since=None)))
    assert start_of(waiting, NODES) is None


def test_a_start_counts_once_even_if_its_readiness_comes_and_goes():
    once = learned_from(a_replica())
    assert learned_from(a_replica(), before=once) is once
    away = learned_from(a_replica(ready=False, state=ReplicaState.LOADING), before=once)
    back = learned_from(a_replica(ready_since=NOW - 60), before=away)
    assert back.lead_times.starts == {READY: (60,)}


def test_what_is_remembered_of_pods_goes_with_them():
    assert learned_from(before=learned_from(a_replica())).counted == ()


def test_a_late_readiness_of_a_pod_that_was_there_before_us_is_no_start():
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
def test_what_the_next_replica_starts_on(replicas, expected):
    assert prospect_of(LeadTimes(), 1, 0, replicas).state_of(1) is expected


def test_no_room_is_believed_against_what_our_own_pods_leave_free():
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
        Lengths,
        st.integers(1, 10_000_000).map(float),
        st.integers(1, 10_000_000).map(float),
        st.integers(5, 100).map(lambda percent: percent / 100),
        st.integers(0, 10_000).map(float),
    ),
    newest_start=st.integers(0, int(NOW)).map(float),
    published=st.just(LearnedStatus(version=LEARNED_VERSION)),
)


@given(everything)
def test_what_was_learned_comes_back_from_the_status(learned):
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
def test_whatever_stands_in_the_status_is_read_or_forgotten(stored):
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
        pytest.param({"version": 7, "anything": 1}, "it is of version 7, and this operator reads 1.", id="newer"),
        pytest.param({"version": "1"}, "it does not fit the schema.", id="no number"),
        pytest.param({"version": -3}, "it does not fit the schema.", id="no version"),
        pytest.param([1, 2], "it does not fit the schema.", id="no object"),
    ],
)
def test_what_cannot_be_used_is_said(stored, why):
    status = InferenceServiceStatus.model_validate({"learned": stored})
    assert recall(status.learned, "uid", NOW).reset.endswith(why)


def test_a_status_without_it_is_nothing_to_speak_of():
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


# Stories.


def a_learning_cluster(**fields: Any) -> Cluster:
    cluster = a_cluster(a_service("chat", min_replicas=3, max_replicas=6), **fields)
    cluster.demand["chat"] = Demand(requests=10)
    cluster.run_until(lambda: len(cluster.serving("chat")) == 3)
    cluster.run(60)
    return cluster


def lead_seconds(cluster: Cluster) -> float:
    learned = cluster.state.services[cluster.services["chat"].uid].learned
    assert learned is not None
    return learned.lead_times.quantile_seconds(READY, 0.95)


def seconds_of(cluster: Cluster, state: str = "ready_node") -> tuple[int, ...]:
    learned = cluster.status("chat").learned
    assert learned is not None
    assert learned.lead_time is not None
    found = getattr(learned.lead_time, state).seconds
    assert isinstance(found, tuple)
    return found


def test_a_service_learns_how_long_its_replicas_take_to_start():
    cluster = a_learning_cluster(load_seconds=95.0)
    assert seconds_of(cluster) == (95, 95, 95)
    assert lead_seconds(cluster) == 95


def test_a_node_that_has_to_come_first_is_another_matter():
    cluster = a_cluster(a_service("chat", min_replicas=1, max_replicas=2), nodes=[], load_seconds=95.0)
    cluster.run(200)
    cluster.nodes["late"] = a_node("late", created_at=cluster.now)
    cluster.run_until(lambda: len(cluster.serving("chat")) == 1)
    cluster.run(10)
    assert seconds_of(cluster) == ()
    assert seconds_of(cluster, "new_node") == (295,)


def test_an_operator_that_starts_goes_on_with_what_was_learned():
    cluster = a_learning_cluster(load_seconds=95.0)
    cluster.load_seconds = 200.0
    cluster.delete_pod(cluster.serving("chat")[0])
    cluster.run_until(lambda: len(cluster.serving("chat")) == 3)
    cluster.run(10)
    cluster.restart_operator()
    cluster.tick()
    assert seconds_of(cluster) == (95, 95, 95, 200), "of a pod that is gone as well, and none twice"
    assert lead_seconds(cluster) == 200


def test_pods_that_live_tell_what_the_status_does_not():
    cluster = a_learning_cluster(load_seconds=95.0)
    cluster.services["chat"] = replace(cluster.services["chat"], status=InferenceServiceStatus())
    cluster.restart_operator()
    cluster.tick()
    assert seconds_of(cluster) == (95, 95, 95)
    assert "LearnedReset" not in cluster.told("chat")


def test_starts_that_were_over_while_no_operator_watched_are_counted():
    cluster = a_learning_cluster(load_seconds=95.0)
    cluster.delete_pod(cluster.serving("chat")[0])
    cluster.run(30)
    for _ in range(40):
        cluster.live()
        cluster.now += 5
    cluster.restart_operator()
    cluster.tick()
    assert seconds_of(cluster) == (95, 95, 95, 95)


def test_a_corrupt_status_is_told_of_once_and_set_right_by_the_pods():
    cluster = a_learning_cluster(load_seconds=95.0)
    stored = {"learned": {"version": 1, "leadTime": "yesterday"}}
    broken = InferenceServiceStatus.model_validate(
        json.loads(cluster.status("chat").model_dump_json(by_alias=True)) | stored
    )
    cluster.services["chat"] = replace(cluster.services["chat"], status=broken)
    cluster.restart_operator()
    cluster.run(120)
    assert cluster.told("chat").count("LearnedReset") == 1
    assert seconds_of(cluster) == (95, 95, 95)
    assert len(cluster.serving("chat")) == 3


def test_nothing_is_written_while_nothing_is_learned():
    cluster = a_learning_cluster()
    learned = cluster.status("chat").learned
    cluster.run(7200)
    assert cluster.status("chat").learned == learned


class Served:
    """One replica of a service whose requests double every ten minutes, for ten minutes."""

    def __init__(self) -> None:
        carrier = a_carrier(declared=None)
        self.service = a_service("chat", min_replicas=1, max_replicas=1, carrier=carrier)
        self.pods = pods_of(self.service, 1)
        self.now, self.state, self.finished = NOW, State.empty(NOW), 0.0

    def run(self, minutes: float, *, rate: float | None = None, waiting: float = 0.0) -> None:
        for _ in range(int(minutes * 6)):
            self.now += 10
            self.finished += 10 * (rate or (20.0 if (self.now // 600) % 2 else 10.0))
            signals = signals_of(
                self.pods,
                at=self.now,
                waiting=waiting,
                finished=self.finished,
                finished_prompt_tokens=500 * self.finished,
                finished_output_tokens=200 * self.finished,
                prompt_tokens=500 * self.finished,
                generation_tokens=200 * self.finished,
            )
            done, self.state = plan(a_world(self.service, pods=self.pods, signals=signals), self.state, self.now)
            self.service = replace(self.service, status=only(done).status)

    @property
    def learned(self) -> Learned:
        learned = self.state.services[self.service.uid].learned
        assert learned is not None
        return learned


def test_growth_and_lengths_are_learned_decide_and_outlive_the_operator():
    """Arriving work goes from 10 to 20 requests of 15.89 ms: (0.318 + 0.745)/(0.159 + 0.745) − 1 = 17.6 %, so 18 %."""
    served = Served()
    served.run(150)
    assert served.learned.growth.fraction == pytest.approx(0.18)
    published = served.service.status.learned
    assert published is not None
    assert published.lengths is not None
    assert (published.lengths.prompt_tokens, published.lengths.output_tokens) == (500, 200)
    served.state = State.empty(served.now)
    served.run(2)
    assert served.learned.growth.fraction == pytest.approx(0.18)
    decision = served.service.status.decision
    assert decision is not None
    assert any("growth 18 %" in value for value in decision.inputs.values())
    fresh = Served()
    fresh.run(2)
    assert fresh.learned.growth.fraction == 0.0


def test_the_load_of_a_silent_replica_teaches_nothing():
    served = Served()
    served.run(20)
    scaling = served.state.services[served.service.uid].scaling
    before = replace(served.learned, growth=Growth())
    later = served.now + 60
    assert seen_load(before, scaling, False, 300, later).growth == Growth()
    assert seen_load(before, scaling, True, 300, later).growth != Growth()


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        pytest.param(60, "2 replicas", id="a minute: 47.7 GPU-seconds of waiting work are worth a replica"),
        pytest.param(900, "1 replica", id="a quarter of an hour: it will be done before another one serves"),
    ],
)
def test_waiting_work_is_weighed_by_the_lead_time_that_was_learned(seconds, expected):
    served = Served()
    learned = to_status(Learned(lead_times=LeadTimes({READY: (seconds,) * 5}), newest_start=NOW))
    served.service = replace(served.service, status=InferenceServiceStatus(learned=learned))
    served.run(3, rate=40.0, waiting=3000.0)
    decision = served.service.status.decision
    assert decision is not None
    assert decision.inputs["rule.backlog"] == expected
