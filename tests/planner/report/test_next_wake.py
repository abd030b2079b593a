"""When the planner asks to run again although no event will occur by then."""

from dataclasses import replace
from typing import Any

import pytest

from forebay.planner.memory import Learned, ServiceMemory, State
from forebay.planner.planner import plan
from forebay.scaling.load.arrivals import RequestLengths
from tests.builders.world import NOW, a_node, a_pod, a_service, a_world, pods_of, signals_of


@pytest.mark.parametrize(
    ("pod", "due"),
    [
        pytest.param({"drain_started_at": NOW - 2}, 3, id="the grace of a drain"),
        pytest.param({"drain_started_at": NOW - 290}, 10, id="drainTimeout"),
        pytest.param({"node": None, "created_at": NOW - 280}, 20, id="the time to find a node"),
        pytest.param({"ready": False, "created_at": NOW - 1195}, 5, id="startupTimeout"),
        pytest.param({"drain_started_at": NOW - 4.9}, 0.5, id="not sooner than half a second"),
    ],
)
def test_what_is_due_next(pod: dict[str, Any], due: float):
    service = a_service()
    pods = (a_pod(service, 0), a_pod(service, 1, **pod))
    done, _ = plan(a_world(service, pods=pods, signals=signals_of(pods, running=1)), State.empty(NOW - 3600), NOW)
    assert done.wake_in_seconds == pytest.approx(due)


@pytest.mark.parametrize(
    ("output_tokens", "ends_in", "due"),
    [
        pytest.param(None, 90, 30, id="the drain, a minute before the end: nobody knows how long requests take"),
        pytest.param(300, 90, 54, id="the drain: 3 × 300 tokens at 40 ms take 36 s"),
        pytest.param(5, 90, 75, id="the drain: short requests, and proxies that have to notice"),
        pytest.param(5000, 90, 30, id="the drain: long requests get a minute"),
        pytest.param(None, 45, 45, id="the end of the node"),
    ],
)
def test_a_notice_is_due(output_tokens, ends_in, due):
    service = a_service()
    pods = pods_of(service, 1, created_at=NOW - 99999)
    world = a_world(service, pods=pods, signals=signals_of(pods, running=1), nodes=(a_node(notice=True),))
    lengths = None if output_tokens is None else RequestLengths(500, output_tokens, requests=100)
    memory = ServiceMemory(learned=Learned(lengths=lengths))
    state = replace(State.empty(NOW - 3600), notices={"node-0": NOW + ends_in}, services={service.uid: memory})
    assert plan(world, state, NOW)[0].wake_in_seconds == pytest.approx(due)


def test_nothing_is_due_for_a_service_at_rest():
    service = a_service()
    pods = pods_of(service, 1, created_at=NOW - 99999)
    done, _ = plan(a_world(service, pods=pods, signals=signals_of(pods)), State.empty(NOW - 3600), NOW)
    assert done.wake_in_seconds is None
