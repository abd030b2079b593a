"""Scale to zero and back: the idle time of a service, and the requests that wake it."""

from dataclasses import replace
from typing import Any

import pytest

from forebay.api.instants import rfc3339, unix_seconds
from forebay.api.status import DecisionStatus, InferenceServiceStatus, ScaledToZeroStatus
from forebay.planner.decide.wake_request import NO_REQUEST, first_start, wake_request_of
from forebay.planner.memory import State
from forebay.planner.observe.replicas import Replica, ReplicaState
from forebay.planner.planner import plan
from forebay.scaling.limits import Limits
from forebay.world.settings import Settings
from tests.builders.cluster import Cluster, a_cluster
from tests.builders.engines import Demand
from tests.builders.loads import a_replica_capacity
from tests.builders.plans import condition, creates, desired, message, only, rule
from tests.builders.schedules import a_schedule
from tests.builders.world import NOW, a_pod, a_revision, a_service, a_spec, a_world

AFTER = 900.0
SLEEPY: dict[str, Any] = {"min_replicas": 0, "max_replicas": 4, "scale_to_zero_after": "15m"}
LIMITS = Limits.of(a_spec(**SLEEPY))
ASLEEP = InferenceServiceStatus(
    decision=DecisionStatus(rule="scaled_to_zero", because="nothing asks", desired=0),
    scaled_to_zero=ScaledToZeroStatus(since=rfc3339(NOW - 3600), answered_wake="2025-06-15T12:00:00Z"),
)
AWAKE = InferenceServiceStatus(decision=DecisionStatus(rule="woken", because="asked", desired=1))


def a_sleepy_cluster(requests: float = 0.0, **fields) -> Cluster:
    cluster = a_cluster(a_service("chat", **{**SLEEPY, **fields}))
    cluster.demand["chat"] = Demand(requests=requests)
    return cluster


def wakes(cluster: Cluster) -> None:
    """Write a wake request with the current time."""
    cluster.services["chat"] = replace(cluster.services["chat"], wake_requested_at=rfc3339(cluster.now))


def at_zero(cluster: Cluster):
    return lambda: not cluster.pods_of("chat")


def serves(cluster: Cluster):
    return lambda: len(cluster.serving("chat")) == 1


def a_sleeping_cluster(**fields) -> Cluster:
    cluster = a_sleepy_cluster(**fields)
    cluster.run_until(serves(cluster))
    cluster.run_until(at_zero(cluster))
    return cluster


def test_a_new_service_starts_once_and_goes_to_zero_when_nobody_asks():
    cluster = a_sleepy_cluster()
    assert rule(cluster.tick()) == "first_start"
    cluster.run_until(serves(cluster))
    ready_at = cluster.now
    cluster.run_until(lambda: cluster.status("chat").replicas.desired == 0)
    assert AFTER <= cluster.now - ready_at <= AFTER + 15
    cluster.run_until(at_zero(cluster))
    assert cluster.event_reasons("chat").count("ScaledDown") == 1
    zero = cluster.status("chat").scaled_to_zero
    cluster.run(24 * 3600, tick_seconds=60)
    assert at_zero(cluster)()
    assert cluster.status("chat").scaled_to_zero == zero


def test_the_clock_begins_with_ready_however_long_the_pod_waited_for_its_node():
    cluster = a_sleepy_cluster()
    for name in list(cluster.nodes):
        cluster.nodes[name] = replace(cluster.nodes[name], gpus={"nvidia.com/gpu": 0})
    cluster.run(3 * AFTER)
    assert cluster.status("chat").replicas.desired == 1
    for name in list(cluster.nodes):
        cluster.nodes[name] = replace(cluster.nodes[name], gpus={"nvidia.com/gpu": 8})
    cluster.run_until(serves(cluster))
    cluster.run(AFTER - 30)
    assert serves(cluster)()
    cluster.run_until(at_zero(cluster), within_seconds=120)


def test_load_goes_down_to_one_by_its_rules_and_to_zero_by_the_clock():
    cluster = a_sleepy_cluster(requests=300)
    cluster.run_until(lambda: len(cluster.serving("chat")) == 4)
    cluster.demand["chat"] = Demand(requests=0)
    counts: list[int] = []

    def watch() -> None:
        desired_count = cluster.status("chat").replicas.desired
        if not counts or counts[-1] != desired_count:
            counts.append(desired_count)

    cluster.run(2 * 3600, watch=watch)
    assert counts == [4, 3, 2, 1, 0]


def test_work_that_is_counted_brings_it_down_and_its_absence_to_zero_and_a_call_back():
    """With a known replica capacity, no arrivals need no replica, and the smallest rate keeps the last one."""
    cluster = a_sleepy_cluster(replica_capacity=a_replica_capacity())
    cluster.demand["chat"] = Demand(requests=20, arrivals=100)
    cluster.run_until(lambda: len(cluster.serving("chat")) == 3)
    cluster.demand["chat"] = Demand(arrivals=0.01)
    cluster.run(3600)
    assert serves(cluster)()
    cluster.demand["chat"] = Demand(arrivals=0)
    quiet_at = cluster.now
    cluster.run_until(lambda: cluster.status("chat").replicas.desired == 0)
    assert AFTER <= cluster.now - quiet_at <= AFTER + 15
    cluster.run_until(at_zero(cluster))
    wakes(cluster)
    cluster.run_until(serves(cluster))
    cluster.run_until(at_zero(cluster))


def test_missing_metrics_never_lead_to_zero():
    cluster = a_sleepy_cluster()
    cluster.run_until(serves(cluster))
    cluster.silent = {"chat"}
    cluster.run(24 * 3600, tick_seconds=20)
    assert serves(cluster)()


def test_every_request_sets_the_clock_back():
    cluster = a_sleepy_cluster()
    cluster.run_until(serves(cluster))
    for _ in range(4):
        cluster.run(AFTER - 60)
        cluster.demand["chat"] = Demand(requests=1)
        cluster.run(5)
        cluster.demand["chat"] = Demand(requests=0)
    assert serves(cluster)()
    cluster.run(AFTER - 60)
    assert serves(cluster)()
    cluster.run_until(at_zero(cluster), within_seconds=180)


def test_an_operator_that_restarts_begins_to_count_anew_and_wakes_nobody():
    cluster = a_sleepy_cluster()
    cluster.run_until(serves(cluster))
    cluster.run(AFTER - 60)
    cluster.restart_operator()
    cluster.run(AFTER - 60)
    assert serves(cluster)()
    cluster.run_until(at_zero(cluster), within_seconds=180)
    cluster.restart_operator()
    cluster.run(3600)
    assert at_zero(cluster)()


def test_a_wake_request_keeps_a_replica_for_scale_to_zero_after_from_ready():
    cluster = a_sleeping_cluster()
    cluster.run(3600)
    wakes(cluster)
    assert rule(cluster.tick()) == "woken"
    assert len(cluster.holding_places("chat")) == 1
    assert cluster.status("chat").scaled_to_zero is None
    cluster.restart_operator()
    cluster.run_until(serves(cluster))
    cluster.run(AFTER - 30)
    assert serves(cluster)()
    cluster.run_until(at_zero(cluster), within_seconds=120)
    cluster.run(3600)
    cluster.restart_operator()
    cluster.run(3600)
    assert at_zero(cluster)(), "the same call again wakes nothing"
    wakes(cluster)
    cluster.run_until(serves(cluster))


def test_a_schedule_wakes_it_before_its_start_and_it_sleeps_again_afterwards():
    cluster = a_sleeping_cluster(schedules=(a_schedule("0 16 * * *", "UTC", duration="30m", replicas=2),))
    four = unix_seconds("2025-06-15T16:00:00Z")
    assert four is not None
    assert cluster.now < four - 600
    cluster.run_until(lambda: len(cluster.serving("chat")) == 2)
    assert cluster.now < four
    cluster.run(four + 1800 - cluster.now - 10)
    assert len(cluster.serving("chat")) == 2, "asked or not"
    cluster.run_until(at_zero(cluster))
    assert cluster.condition("chat", "Ready") == ("True", "ScaledToZero")


def test_a_wake_request_during_the_last_drain_cancels_it():
    cluster = a_sleepy_cluster()
    cluster.settings = Settings(drain_grace_seconds=60)
    cluster.run_until(serves(cluster))
    cluster.run_until(lambda: cluster.status("chat").replicas.draining > 0)
    wakes(cluster)
    cluster.run(10)
    assert serves(cluster)()
    assert "DrainCancelled" in cluster.event_reasons("chat")


def test_a_new_spec_at_zero_is_what_wakes():
    cluster = a_sleeping_cluster()
    cluster.edit("chat", wanted=a_revision("9d1e"))
    cluster.run(60)
    assert at_zero(cluster)()
    assert cluster.condition("chat", "UpToDate") == ("True", "UpToDate")
    wakes(cluster)
    cluster.run_until(serves(cluster))
    assert {pod.revision for pod in cluster.pods_of("chat")} == {"9d1e"}


def test_a_halted_rollout_keeps_the_replica_that_is_known_to_serve():
    cluster = a_sleepy_cluster()
    cluster.run_until(serves(cluster))
    before = cluster.serving("chat")
    cluster.crashing = {"bad0"}
    cluster.edit("chat", wanted=a_revision("bad0"))
    cluster.run(4 * AFTER)
    assert cluster.serving("chat") == before


def test_a_refused_last_drain_keeps_the_replica_in_service():
    cluster = a_sleepy_cluster()
    cluster.settings = Settings(max_drains_per_10_minutes=0)
    cluster.run_until(serves(cluster))
    cluster.run_until(lambda: cluster.status("chat").replicas.desired == 0)
    assert serves(cluster)()
    cluster.demand["chat"] = Demand(requests=2)
    cluster.run(10)
    assert cluster.status("chat").replicas.desired == 1


def test_at_zero_every_condition_is_good_and_says_what_wakes_it():
    done, _ = plan(a_world(a_service(**SLEEPY, status=ASLEEP)), State.empty(NOW - 3600), NOW)
    assert (desired(done), rule(done), creates(done)) == (0, "scaled_to_zero", [])
    assert [(c.type, c.status, c.reason) for c in only(done).status.conditions] == [
        ("Ready", "True", "ScaledToZero"),
        ("Planned", "True", "Planned"),
        ("MetricsFresh", "True", "ScaledToZero"),
        ("Warm", "True", "NotAsked"),
        ("UpToDate", "True", "UpToDate"),
    ]
    for part in ("scaleToZeroAfter (900 s)", "`forebay wake chat -n default`"):
        assert part in message(done, "Ready")
    assert only(done).status.scaled_to_zero == ASLEEP.scaled_to_zero


def test_a_minimum_raised_at_zero_starts_replicas():
    service = a_service(min_replicas=2, max_replicas=4, status=ASLEEP)
    done, _ = plan(a_world(service), State.empty(NOW - 3600), NOW)
    assert (desired(done), len(creates(done))) == (2, 2)
    assert only(done).status.scaled_to_zero is None


@pytest.mark.parametrize(
    ("asked", "floor"),
    [
        pytest.param("", False, id="nobody asks"),
        pytest.param(rfc3339(NOW), True, id="now"),
        pytest.param(rfc3339(NOW + 299), True, id="by a clock that is ahead"),
        pytest.param(rfc3339(NOW - 3600 - 299), True, id="by a clock that is behind, just after it went to zero"),
        pytest.param(rfc3339(NOW - 3600 - 301), False, id="before it went to zero"),
        pytest.param("2025-06-15T12:00:00Z", False, id="answered before"),
        pytest.param(rfc3339(NOW + 301), False, id="in the future"),
        pytest.param("9999-12-31T23:59:59+00:00", False, id="at the end of time"),
        pytest.param("0000-01-01T00:00:00Z", False, id="in no year"),
        pytest.param("now", False, id="no time"),
        pytest.param("2025-06-15 15:06:40", False, id="no zone"),
        pytest.param("2025-06-15T15:06:40Z" * 1000, False, id="far too long"),
    ],
)
def test_which_wake_requests_wake(asked: str, floor: bool):
    call = wake_request_of(a_service(wake_requested_at=asked, **SLEEPY), ASLEEP, LIMITS, (), NOW)
    assert (call.floor is not None and call.floor.replicas == 1) == floor


@pytest.mark.parametrize("asked", ["now", "9999-12-31T23:59:59+00:00", "x" * 100_000])
def test_an_invalid_wake_request_is_reported_and_changes_nothing(asked: str):
    done, _ = plan(a_world(a_service(**SLEEPY, status=ASLEEP, wake_requested_at=asked)), State.empty(NOW - 3600), NOW)
    assert desired(done) == 0
    assert condition(done, "Planned") == ("True", "WakeRequestInvalid")
    assert len(message(done, "Planned")) < 400


def a_serving_replica(ready_since: float) -> Replica:
    pod = a_pod(a_service(), created_at=NOW - 9999, ready_since=ready_since)
    return Replica("7f3c", 0, (pod,), ReplicaState.SERVING)


@pytest.mark.parametrize(
    ("asked_ago", "ready_ago", "until"),
    [
        pytest.param(600, 500, NOW + 400, id="from Ready"),
        pytest.param(100, 500, NOW + 800, id="from the call, when it serves already"),
        pytest.param(5000, 900, None, id="it is over"),
    ],
)
def test_how_long_a_wake_request_holds(asked_ago: float, ready_ago: float, until: float | None):
    service = a_service(wake_requested_at=rfc3339(NOW - asked_ago), **SLEEPY)
    call = wake_request_of(service, AWAKE, LIMITS, (a_serving_replica(NOW - ready_ago),), NOW)
    assert call.until == until
    assert (call.floor is None) == (until is None)


def test_a_service_that_never_goes_to_zero_has_no_wake_requests():
    service = a_service(wake_requested_at="nonsense", min_replicas=1)
    assert wake_request_of(service, AWAKE, Limits.of(a_spec(min_replicas=1)), (), NOW) == NO_REQUEST


def test_only_a_new_service_is_started_without_a_request():
    assert first_start(LIMITS, InferenceServiceStatus()) is not None
    assert first_start(LIMITS, ASLEEP) is None
    assert first_start(Limits.of(a_spec(min_replicas=1)), InferenceServiceStatus()) is None


def test_the_planner_wakes_when_the_clock_ends():
    cluster = a_sleepy_cluster()
    cluster.run_until(serves(cluster))
    cluster.run(AFTER - 30)
    clock = cluster.state.services[cluster.services["chat"].uid].scaling.idleness
    assert clock.since is not None
    assert cluster.tick().wake_in_seconds == pytest.approx(clock.since + AFTER - cluster.now)


def test_times_are_read_as_they_are_written():
    assert unix_seconds(rfc3339(NOW)) == NOW
    assert unix_seconds("2025-06-15T17:06:40.5+02:00") == NOW + 0.5
    assert unix_seconds("2025-06-15T15:06:40z") == NOW
