"""Status, conditions and events: their content, and when a status is written."""

import re
from dataclasses import replace
from math import inf, nan

import pytest

from forebay.api.inference_service import (
    Condition,
    DecisionStatus,
    InferenceServiceStatus,
    LoadStatus,
    ReplicaStatus,
)
from forebay.api.reasons import Reason
from forebay.planner.memory import State
from forebay.planner.planner import plan
from forebay.planner.report.service_status import should_write, telemetry_seconds
from forebay.scaling.load.signals import PodSignals
from forebay.workloads.objects.disruption_budget import min_available
from forebay.world.plan import ApplyChildren
from forebay.world.world import ChildView, ServiceView, SpecProblem
from tests.builders.plans import actions, condition, creates, events, message, only
from tests.builders.world import (
    NOW,
    a_pod,
    a_sample,
    a_service,
    a_shape,
    a_spec,
    a_world,
    pods_of,
    signals_of,
)

WATCHED = State.empty(NOW - 3600)


def a_status(**fields) -> InferenceServiceStatus:
    ready = Condition(type="Ready", status="True", reason="Serving", message="1", last_transition_time="t")
    return InferenceServiceStatus(
        **{
            "observed_generation": 1,
            "conditions": (ready,),
            "replicas": ReplicaStatus(desired=1),
            "load": LoadStatus(queue=3, kv_percent=40),
            "decision": DecisionStatus(rule="queue_depth", because="3 wait", desired=1),
            **fields,
        }
    )


READY = a_status().conditions[0]


@pytest.mark.parametrize(
    ("wanted", "written_ago", "expected"),
    [
        pytest.param(a_status(), 9999, False, id="the same is never written"),
        pytest.param(a_status(load=LoadStatus(queue=4)), 29, False, id="telemetry, too soon"),
        pytest.param(a_status(load=LoadStatus(queue=4)), 30, True, id="telemetry, every 30 s"),
        pytest.param(a_status(load=LoadStatus(queue=4)), inf, True, id="telemetry, never written before"),
        pytest.param(a_status(load=LoadStatus()), 1, True, id="that there is telemetry, or none any more, at once"),
        pytest.param(a_status(replicas=ReplicaStatus(desired=2)), 1, True, id="replicas, at once"),
        pytest.param(
            a_status(conditions=(READY.model_copy(update={"status": "False"}),)), 1, True, id="a condition, at once"
        ),
        pytest.param(
            a_status(conditions=(READY.model_copy(update={"reason": "Loading"}),)), 1, True, id="its reason, at once"
        ),
        pytest.param(
            a_status(conditions=(READY.model_copy(update={"message": "2"}),)), 1, False, id="its wording can wait"
        ),
        pytest.param(
            a_status(decision=DecisionStatus(rule="kv_cache", because="full", desired=1)),
            1,
            True,
            id="the rule, at once",
        ),
        pytest.param(
            a_status(decision=DecisionStatus(rule="queue_depth", because="4 wait", desired=1)),
            1,
            False,
            id="its numbers",
        ),
        pytest.param(a_status(observed_generation=2), 1, True, id="a new generation, at once"),
    ],
)
def test_when_a_status_is_written(wanted, written_ago, expected):
    assert should_write(a_status(), wanted, written_ago, telemetry_seconds(300)) is expected


def test_the_telemetry_of_a_large_fleet_is_written_less_often():
    wanted = a_status(load=LoadStatus(queue=4))
    assert not should_write(a_status(), wanted, 99, telemetry_seconds(1000))
    assert should_write(a_status(), wanted, 100, telemetry_seconds(1000))


def test_status_of_a_service_under_load():
    service = a_service(min_replicas=2)
    pods = pods_of(service, 2)
    done, _ = plan(a_world(service, pods=pods, signals=signals_of(pods, running=4, waiting=3, kv=0.414)), WATCHED, NOW)
    status = only(done).status
    assert status.url == "http://chat.default.svc:80/v1"
    assert status.observed_generation == 1
    assert status.load == LoadStatus(queue=6, kv_percent=41)
    assert status.replicas == ReplicaStatus(desired=2, ready=2)
    assert [c.type for c in status.conditions] == ["Ready", "Planned", "MetricsFresh", "Warm", "UpToDate"]
    assert {c.observed_generation for c in status.conditions} == {1}


def test_a_decision_is_added_to_the_past_decisions_of_the_status():
    done, _ = plan(a_world(a_service(min_replicas=2), revisions={}), State.empty(NOW), NOW)
    (past,) = only(done).status.decisions
    assert (past.rule, past.desired, past.replicas, past.ready) == ("min_replicas", 2, 2, 0)


def test_a_condition_keeps_its_time_as_long_as_its_status():
    service = a_service(min_replicas=2)
    pods = pods_of(service, 2)
    world = a_world(service, pods=pods, signals=signals_of(pods))
    _, state = plan(world, WATCHED, NOW)
    again, state = plan(replace(world, signals=signals_of(pods, at=NOW + 100)), state, NOW + 100)
    assert [c.last_transition_time for c in only(again).status.conditions] == ["2025-06-15T15:06:40Z"] * 5
    edited = replace(world, services=(replace(service, generation=2),), signals=signals_of(pods, at=NOW + 150))
    other, state = plan(edited, state, NOW + 150)
    assert {(c.last_transition_time, c.observed_generation) for c in only(other).status.conditions} == {
        ("2025-06-15T15:06:40Z", 2)
    }
    down = replace(world, pods=(replace(pods[0], ready=False, ready_since=None), pods[1]))
    last, _ = plan(down, state, NOW + 200)
    assert {c.type: c.last_transition_time for c in only(last).status.conditions if c.type == "Ready"} == {
        "Ready": "2025-06-15T15:10:00Z"
    }


def test_unknown_load_is_absent_from_the_status():
    service = a_service()
    done, _ = plan(a_world(service, pods=pods_of(service, 1)), WATCHED, NOW)
    assert only(done).status.load == LoadStatus()


@pytest.mark.parametrize(
    ("signals", "expected", "words"),
    [
        pytest.param(PodSignals(a_sample()), ("True", "Fresh"), "All 1 serving replicas", id="fresh"),
        pytest.param(
            PodSignals(a_sample(at=NOW - 31), "no answer within 4 s"),
            ("False", "MetricsStale"),
            "no usable metrics since 2025-06-15T15:06:09Z: no answer within 4 s.",
            id="stale",
        ),
        pytest.param(PodSignals(a_sample(at=NOW - 301)), ("False", "MetricsLost"), "15:01:39Z.", id="lost"),
        pytest.param(None, ("False", "MetricsLost"), "no usable metrics since", id="never seen"),
        pytest.param(PodSignals(a_sample(running=nan)), ("False", "MetricsLost"), "no usable metrics since", id="NaN"),
        pytest.param(
            PodSignals(a_sample(missing=("vllm:num_preemptions",))),
            ("False", "SeriesMissing"),
            "does not export vllm:num_preemptions",
            id="a series is missing",
        ),
    ],
)
def test_metrics(signals, expected, words):
    service = a_service()
    pod = a_pod(service)
    done, _ = plan(a_world(service, pods=(pod,), signals={pod.uid: signals} if signals else {}), WATCHED, NOW)
    assert condition(done, "MetricsFresh") == expected
    assert words in message(done, "MetricsFresh")


def test_a_service_without_any_metrics_is_not_ready():
    service = a_service()
    done, _ = plan(a_world(service, pods=pods_of(service, 1)), WATCHED, NOW)
    assert condition(done, "Ready") == ("False", "MetricsLost")


@pytest.mark.parametrize(
    ("fields", "serving", "running", "expected", "words"),
    [
        pytest.param({}, 1, 0, ("True", "NotAsked"), "warmPool.replicas is 0", id="none requested"),
        pytest.param({"warm_replicas": 1}, 2, 0, ("True", "Warm"), "1 of 1 warm replica is spare.", id="there"),
        pytest.param({"warm_replicas": 1}, 1, 0, ("False", "Loading"), "0 of 1 warm replica", id="on its way"),
        pytest.param(
            {"warm_replicas": 1}, 2, 300, ("False", "InUse"), "the load uses the others", id="used by the load"
        ),
        pytest.param(
            {"warm_replicas": 2, "max_replicas": 2},
            2,
            0,
            ("False", "MaxReplicas"),
            "1 of 2 warm replicas is spare; maxReplicas (2) ",
            id="cut by maxReplicas",
        ),
    ],
)
def test_warm(fields, serving, running, expected, words):
    service = a_service(**fields)
    pods = pods_of(service, serving)
    done, _ = plan(
        a_world(service, pods=pods, signals=signals_of(pods, running=running, kv=running / 500)), WATCHED, NOW
    )
    assert condition(done, "Warm") == expected
    assert words in message(done, "Warm")


@pytest.mark.parametrize(
    ("pod", "expected", "words"),
    [
        pytest.param(
            {"ready": False, "created_at": NOW - 9}, "Loading", "0 of 1 replica serve; 1 loading.", id="loading"
        ),
        pytest.param(
            {"node": None, "created_at": NOW - 400, "blocked": "Unschedulable", "blocked_message": "0/2 nodes."},
            "Unschedulable",
            "since 2025-06-15T15:00:00Z: 0/2 nodes.",
            id="unschedulable",
        ),
        pytest.param({"blocked": "CrashLoop"}, "CrashLoop", "has crashed 3 times", id="crash loop"),
    ],
)
def test_why_a_service_is_not_ready(pod, expected, words):
    service = a_service()
    done, _ = plan(a_world(service, pods=(a_pod(service, **pod),)), WATCHED, NOW)
    assert condition(done, "Ready") == ("False", expected)
    assert words in message(done, "Ready")


def test_all_problems_are_listed_and_serving_replicas_are_kept():
    problems = (SpecProblem(Reason.SPEC_INVALID, "spec.a: is odd."), SpecProblem(Reason.NAME_TAKEN, "spec.b: is even."))
    service = a_service(problems=problems)
    pods = pods_of(service, 2)
    done, state = plan(a_world(service, pods=pods, signals=signals_of(pods)), WATCHED, NOW)
    assert actions(done) == ()
    assert (condition(done, "Planned"), message(done, "Planned")) == (
        ("False", "SpecInvalid"),
        "spec.a: is odd. spec.b: is even.",
    )
    assert condition(done, "Ready") == ("True", "Serving")
    assert only(done).status.replicas.ready == 2
    assert events(done) == ["SpecInvalid"]
    again, _ = plan(a_world(service, pods=pods, signals=signals_of(pods)), state, NOW + 5)
    assert events(again) == []


def test_events_of_a_service_are_sent_once_and_not_again_after_a_restart():
    service = a_service(min_replicas=1)
    stuck = a_pod(service, 0, blocked="CrashLoop")
    world = a_world(service, pods=(stuck,))
    first, state = plan(world, WATCHED, NOW)
    again, _ = plan(world, state, NOW + 5)
    assert events(first) == ["ScaledUp", "ReplicaCrashLoop"] or events(first) == ["ReplicaCrashLoop"]
    assert events(again) == []
    restarted = replace(world, services=(replace(service, status=only(first).status),))
    after, _ = plan(restarted, State.empty(NOW + 10), NOW + 10)
    assert "ScaledUp" not in events(after)


CHILDREN = (
    ChildView("PodDisruptionBudget", "default", "chat", None, "budget"),
    ChildView("Service", "default", "chat", None, "service"),
)


def owned(service: ServiceView, *children: ChildView) -> tuple[ChildView, ...]:
    return tuple(replace(child, owner_uid=service.uid) for child in children)


def test_missing_or_edited_children_are_written_again():
    service = a_service(max_replicas=3, max_surge=2, children=CHILDREN)
    for live, kinds in (
        ((), ("PodDisruptionBudget", "Service")),
        (owned(service, CHILDREN[0]), ("Service",)),
        (owned(service, replace(CHILDREN[0], fingerprint="other"), CHILDREN[1]), ("PodDisruptionBudget",)),
        (owned(service, *CHILDREN), None),
    ):
        done, _ = plan(a_world(service, children=live), WATCHED, NOW)
        found = [action for action in actions(done) if isinstance(action, ApplyChildren)]
        assert found == ([] if kinds is None else [ApplyChildren(kinds)])


def test_the_budget_counts_pods():
    assert min_available(a_spec(max_replicas=3, max_surge=2), a_shape(pods=4)) == 20


def test_objects_of_other_owners_are_not_taken_over():
    service = a_service(children=CHILDREN)
    foreign = (replace(CHILDREN[1], owner_uid="somebody"), *owned(service, CHILDREN[0]))
    done, _ = plan(a_world(service, children=foreign), WATCHED, NOW)
    assert creates(done) == []
    assert condition(done, "Planned") == ("False", "NameTaken")
    assert message(done, "Planned").startswith('metadata.name: the Service "chat" exists')


def test_a_warning_stops_nothing_and_is_reported_once():
    warning = SpecProblem(Reason.ENGINE_VERSION_UNKNOWN, "spec.engine.version: 0.99.0 is newer than what is known.")
    service = a_service(warnings=(warning,))
    pods = pods_of(service, 2)
    world = a_world(service, pods=pods, signals=signals_of(pods))
    done, state = plan(world, WATCHED, NOW)
    assert condition(done, "Planned") == ("True", "EngineVersionUnknown")
    assert message(done, "Planned").endswith(warning.message)
    assert (condition(done, "Ready"), events(done).count("EngineVersionUnknown")) == (("True", "Serving"), 1)
    again, _ = plan(world, state, NOW + 5)
    assert events(again) == []


def test_another_rule_with_the_same_count_is_reported_once():
    service = a_service(min_replicas=1, max_replicas=4)
    pods = pods_of(service, 2)
    state, said = WATCHED, []
    for second in range(0, 800, 10):
        busy = 200 <= second < 400
        signals = signals_of(pods, at=NOW + second, kv=0.7, waiting=18 if busy else 0)
        done, state = plan(a_world(service, pods=pods, signals=signals), state, NOW + second)
        said += [event.message for event in only(done).events if event.reason == "RuleChanged"]
    assert [re.findall(r"\w+_\w+|\d+ replicas", text.partition(":")[0]) for text in said] == [
        ["queue_would_grow", "not_watched_in_full", "2 replicas"],
        ["kv_cache_would_fill", "queue_would_grow", "2 replicas"],
    ]
