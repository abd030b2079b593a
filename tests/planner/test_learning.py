"""A service learns while it runs, and a new operator continues with what was learned."""

import json
from dataclasses import replace
from typing import Any

import pytest

from forebay.api.inference_service import InferenceServiceStatus
from forebay.planner.memory import Learned, State
from forebay.planner.observe.learned import learn_load, to_status
from forebay.planner.planner import plan
from forebay.scaling.learning.growth import Growth
from forebay.scaling.learning.lead_time import LeadTimes, WarmState
from forebay.scaling.limits import Limits
from forebay.scaling.load.freshness import Freshness
from forebay.scaling.load.service_load import SilentReplica
from forebay.scaling.rules.situation import Situation
from tests.builders.cluster import Cluster, a_cluster
from tests.builders.engines import Demand
from tests.builders.loads import a_load, a_replica_capacity
from tests.builders.plans import only
from tests.builders.world import NOW, a_node, a_service, a_world, pods_of, signals_of

_, READY, _ = WarmState


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


def test_starts_on_new_nodes_are_learned_separately():
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


def test_starts_missing_from_the_status_are_learned_from_existing_pods():
    cluster = a_learning_cluster(load_seconds=95.0)
    cluster.services["chat"] = replace(cluster.services["chat"], status=InferenceServiceStatus())
    cluster.restart_operator()
    cluster.tick()
    assert seconds_of(cluster) == (95, 95, 95)
    assert "LearnedReset" not in cluster.event_reasons("chat")


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


def test_a_corrupt_status_is_reported_once_and_corrected_by_the_pods():
    cluster = a_learning_cluster(load_seconds=95.0)
    stored = {"learned": {"version": 1, "leadTime": "yesterday"}}
    broken = InferenceServiceStatus.model_validate(
        json.loads(cluster.status("chat").model_dump_json(by_alias=True)) | stored
    )
    cluster.services["chat"] = replace(cluster.services["chat"], status=broken)
    cluster.restart_operator()
    cluster.run(120)
    assert cluster.event_reasons("chat").count("LearnedReset") == 1
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
        replica_capacity = a_replica_capacity(declared=None)
        self.service = a_service("chat", min_replicas=1, max_replicas=1, replica_capacity=replica_capacity)
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


def test_a_replica_without_metrics_teaches_nothing():
    served = Served()
    served.run(20)
    scaling = served.state.services[served.service.uid].scaling
    before = replace(served.learned, growth=Growth())
    situation = Situation(
        limits=Limits(),
        load=a_load(1),
        now=served.now + 60,
        arrivals=scaling.arrivals,
        offered_work=scaling.offered_work,
    )
    silent = replace(situation, load=a_load(1, known=0, silent=(SilentReplica("chat-0", Freshness.LOST, NOW, None),)))
    assert learn_load(before, silent).growth == Growth()
    assert learn_load(before, situation).growth != Growth()


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
