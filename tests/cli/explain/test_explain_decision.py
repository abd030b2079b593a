"""`forebay explain` shows only what the decision record holds, and a changed record changes the text."""

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import forebay
from forebay.api.inference_service import InferenceServiceStatus
from forebay.api.status import MOST_PAST_DECISIONS
from forebay.cli.explain.explain_decision import TimeFormatError, time_of
from forebay.cli.explain.explain_service import explanation, explanation_at
from forebay.cli.main import app
from forebay.cli.service_reading import ServiceReading
from forebay.planner.memory import State
from forebay.planner.planner import plan
from forebay.scaling.load.signals import HistogramSample
from tests.builders.cluster import Cluster
from tests.builders.engines import Demand
from tests.builders.plans import only
from tests.builders.world import NOW, a_histogram, a_service, a_world, pods_of, signals_of
from tests.cli.explain.scenarios import busy, reading_of


def waits(short: float = 0.0, middling: float = 0.0, long: float = 0.0) -> HistogramSample:
    """Numbers of requests that waited for 100, 400 and 900 ms."""
    return a_histogram({0.1: short, 0.4: middling, 0.9: long})


BEFORE: Mapping[str, Any] = {
    "running": 8.0,
    "waiting": 1.0,
    "kv": 0.2,
    "preemptions": 0.0,
    "rejected": 0.0,
    "finished": 0.0,
    "generation_tokens": 0.0,
    "time_to_first_token": waits(),
    "queue_time": waits(),
    "inter_token_latency": waits(),
}
QUIET = {**BEFORE, "generation_tokens": 1000.0, "time_to_first_token": waits(100), "queue_time": waits(100)}


def explained(silent: int = 0, **signals: Any) -> str:
    """The text for three replicas of 2 to 8 after 50 s with these signals; the last `silent` replicas give none."""
    service = a_service(min_replicas=2, max_replicas=8)
    pods = pods_of(service, 3)
    state = State.empty(NOW - 3600)
    _, state = plan(a_world(service, pods=pods, signals=signals_of(pods, at=NOW - 50, **BEFORE)), state, NOW - 50)
    answering = pods[: len(pods) - silent]
    world = a_world(service, pods=pods, signals=signals_of(answering, at=NOW, **{**QUIET, **signals}))
    done, _ = plan(world, state, NOW)
    return "\n".join(explanation(ServiceReading("default", "chat", 1, service.spec, only(done).status), NOW))


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        pytest.param({"running": 30.0}, "90 requests", id="running"),
        pytest.param({"waiting": 5.0}, "15 requests, target 20 per replica", id="waiting"),
        pytest.param({"waiting": 25.0}, "75 requests wait on 3 replicas", id="waiting, past the target"),
        pytest.param({"kv": 0.31}, "(31 % now): kv_cache", id="KV cache"),
        pytest.param({"kv": 0.95}, "KV cache of 3 replicas is 95 % full", id="KV cache, past the target"),
        pytest.param({"preemptions": 30.0}, "90 requests preempted", id="preemptions"),
        pytest.param({"rejected": 30.0}, "90 requests rejected", id="rejections"),
        pytest.param({"queue_time": waits(0, 100)}, "(397 ms now): queue_wait", id="queue wait"),
        pytest.param(
            {"time_to_first_token": waits(0, 0, 100)}, "time to first token (p95) was", id="time to first token"
        ),
        pytest.param({"inter_token_latency": waits(500)}, "100 ms, limit 40 ms", id="inter-token latency"),
    ],
)
def test_a_changed_signal_changes_the_text(changed: dict[str, Any], words: str):
    assert words not in explained()
    assert words in " ".join(explained(**changed).split())


def test_each_silent_replica_changes_the_text():
    assert re.search(r"all 3 serving replicas .* within the last 30 s", explained())
    for silent in (1, 2, 3):
        text = " ".join(explained(silent=silent).split())
        assert re.search(rf"Signals: Stale; {3 - silent} of 3 replicas .* within the last 30 s, .* 50 s\.", text)


def days_of_change() -> Cluster:
    """A load that rises and falls for hours."""
    cluster = busy(2, 120)
    for _ in range(12):
        for requests in (290.0, 40.0):
            cluster.demand["chat"] = Demand(requests=requests)
            cluster.run(900, tick_seconds=10)
    return cluster


def test_past_decisions_are_bounded_and_keep_the_changes_of_the_number_longest():
    cluster = days_of_change()
    past = cluster.status("chat").decisions
    assert len(past) == MOST_PAST_DECISIONS
    assert [decision.at for decision in past] == sorted(decision.at for decision in past)
    assert all(decision.replicas != decision.before for decision in past[:-8])
    for earlier, later in pairwise(past[-8:]):
        assert later.before == earlier.replicas


def test_a_status_of_nothing_new_is_the_same_status():
    cluster = busy(2, 60)
    before = cluster.status("chat")
    cluster.run(1200)
    assert cluster.status("chat") == before


def test_past_decisions_outlive_the_operator():
    cluster = busy(2, 120)
    cluster.demand["chat"] = Demand(requests=290)
    cluster.run(60)
    before = cluster.status("chat").decisions
    cluster.restart_operator()
    cluster.run(60)
    assert len(before) == 3
    assert cluster.status("chat").decisions[: len(before)] == before


def a_past() -> ServiceReading:
    cluster = busy(2, 120)
    cluster.demand["chat"] = Demand(requests=290)
    cluster.run_until(lambda: len(cluster.serving("chat")) == 3)
    return reading_of(cluster)


def test_an_earlier_decision_is_shown_with_those_after_it():
    reading = a_past()
    assert reading.status is not None
    raised = next(d for d in reading.status.decisions if d.rule == "queue_depth")
    at = time_of(raised.at, 0.0)
    lines = list(explanation_at(reading, at + 2, at + 600))
    assert lines[:2] == ["default/chat", "At 2025-06-15T15:17:52Z (10 min ago)"]
    for part in ("3 replicas", "queue_depth since 2025-06-15T15:17:50Z", "2 ready"):
        assert part in lines[2]
    assert re.match(r"  90 requests .*2 replicas, .*20", lines[3])
    assert lines[4:6] == ["", "Afterwards"]
    assert lines[6].startswith("  15:17:55Z (10 min ago)  3  recently_raised: ")
    assert "scaleDownCooldown (300 s)" in " ".join(lines[6:])


def test_a_decision_before_the_oldest_one_kept_is_unknown():
    lines = list(explanation_at(a_past(), NOW - 5, NOW + 600))
    (unknown,) = lines[1:]
    assert re.fullmatch(r"The decision at 2025-06-15T15:06:35Z .*known: .* 2025-06-15T15:06:40Z\.", unknown)
    (none,) = list(explanation_at(ServiceReading("a", "b", 1, None, None), NOW, NOW))[1:]
    assert re.fullmatch(r"The decision at 2025-06-15T15:06:40Z .*known: no decision .*", none)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param("90s", NOW - 90, id="seconds"),
        pytest.param("10m", NOW - 600, id="minutes"),
        pytest.param("2h", NOW - 7200, id="hours"),
        pytest.param("1d", NOW - 86400, id="days"),
        pytest.param("2025-06-15T15:06:40Z", NOW, id="a time"),
        pytest.param("2025-06-15T17:06:40+02:00", NOW, id="a time of another zone"),
    ],
)
def test_times_and_ages_are_parsed(given: str, expected: float):
    assert time_of(given, NOW) == expected


@pytest.mark.parametrize("given", ["", "10", "10 m", "-10m", "yesterday", "2025-06-15T15:06:40", "2025-06-15"])
def test_other_texts_are_refused_with_an_example(given: str):
    with pytest.raises(TimeFormatError, match="such as 2026-03-01T12:00:00Z, nor an age such as 10m"):
        time_of(given, NOW)
    answer = CliRunner().invoke(app, ["explain", "chat", f"--at={given}"])
    assert answer.exit_code == 2


def test_a_record_of_an_older_operator_is_shown_as_far_as_it_goes():
    status = InferenceServiceStatus.model_validate(
        {"decision": {"rule": "queue_depth", "because": "95 requests wait", "desired": 4}}
    )
    text = "\n".join(explanation(ServiceReading("team-a", "chat", 0, None, status), NOW))
    assert "Why 4: queue_depth\n  95 requests wait." in text
    assert "Signals" not in text
    assert "What each rule" not in text


def test_kubectl_finds_the_plugin_and_it_runs():
    """kubectl runs any program on PATH whose name begins with `kubectl-`."""
    program = Path(sys.executable).with_name("kubectl-forebay")
    environment = {**os.environ, "PYTHONPATH": str(Path(forebay.__file__).parents[1])}
    answer = subprocess.run([program, "explain", "--help"], capture_output=True, text=True, check=True, env=environment)
    assert "Usage: kubectl forebay explain" in answer.stdout
    assert "--at" in answer.stdout
