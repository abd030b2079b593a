"""The idle clock: what starts it, what resets it, and that it never runs while metrics are missing."""

from math import inf
from typing import Any

import pytest

from forebay.scaling.load.freshness import Ages, Freshness
from forebay.scaling.load.gateway_demand import GatewayDemand
from forebay.scaling.load.idleness import Idleness, update_idleness
from forebay.scaling.load.pod_history import remember
from forebay.scaling.load.service_load import ReplicaReading, ServiceLoad, SilentReplica, load_of
from tests.builders.loads import a_history, a_load
from tests.builders.world import NOW, a_sample

IDLE_FOR_LONG = Idleness(since=NOW - 900, updated_at=NOW - 5)
SILENT = SilentReplica("chat-0", Freshness.STALE, NOW - 40, "no answer within 4 s")


def idle_load(**fields: Any) -> ServiceLoad:
    return a_load(1, **{"active_at": NOW - 1000, **fields})


def looked(
    load: ServiceLoad, before: Idleness = IDLE_FOR_LONG, demand: GatewayDemand | None = None, draining: int = 0
) -> Idleness:
    return update_idleness(before, load, demand or GatewayDemand(), draining, NOW)


@pytest.mark.parametrize(
    ("load", "because"),
    [
        pytest.param(a_load(0), "no replica", id="no replica serves"),
        pytest.param(idle_load(silent=(SILENT,)), "chat-0", id="missing metrics are not idleness"),
        pytest.param(idle_load(active_at=None), "an engine does not count", id="requests may be missed"),
        pytest.param(idle_load(running=1), "1 request in flight", id="one runs"),
        pytest.param(idle_load(waiting=2), "2 requests in flight", id="two wait"),
        pytest.param(idle_load(deferred=1), "1 request in flight", id="one waits for an adapter"),
    ],
)
def test_requests_and_missing_metrics_stop_the_idle_clock(load: ServiceLoad, because: str):
    idleness = looked(load)
    assert idleness.since is None
    assert because in idleness.because


def test_requests_at_the_gateway_stop_the_idle_clock():
    assert looked(idle_load(), demand=GatewayDemand(held_requests=3)).since is None
    assert looked(idle_load(), demand=GatewayDemand(held_work_seconds=0.1)).since is None
    asked = looked(idle_load(), demand=GatewayDemand(received_requests=7))
    assert asked.since is None
    assert update_idleness(asked, idle_load(), GatewayDemand(received_requests=7), 0, NOW + 5).since == NOW + 5


def test_a_draining_replica_stops_the_idle_clock():
    assert looked(idle_load(), draining=1).since is None


@pytest.mark.parametrize(
    ("before", "load", "since"),
    [
        pytest.param(IDLE_FOR_LONG, idle_load(), NOW - 900, id="the clock keeps running"),
        pytest.param(Idleness(), idle_load(), NOW, id="an operator that has just started"),
        pytest.param(Idleness(updated_at=NOW - 5), idle_load(), NOW, id="it begins when the last request has ended"),
        pytest.param(Idleness(NOW - 900, updated_at=NOW - 61), idle_load(), NOW, id="a gap in observation"),
        pytest.param(IDLE_FOR_LONG, idle_load(active_at=NOW - 3), NOW - 3, id="a request arrived between two samples"),
        pytest.param(IDLE_FOR_LONG, idle_load(ready_since=NOW - 60), NOW - 60, id="it counts from Ready"),
    ],
)
def test_start_of_the_idle_clock(before: Idleness, load: ServiceLoad, since: float):
    assert looked(load, before).since == since


@pytest.mark.parametrize(
    ("samples", "active_at"),
    [
        pytest.param([{"finished": 4}], NOW, id="nothing is known of the time before the first sample"),
        pytest.param([{"finished": 4}, {"finished": 4}, {"finished": 4}], NOW - 10, id="counters stand still"),
        pytest.param(
            [{"finished": 4}, {"finished": 5}, {"finished": 5}], NOW - 5, id="one request arrived and finished"
        ),
        pytest.param([{"finished": 4}, {"finished": 4, "running": 1}], NOW, id="one runs"),
        pytest.param([{"finished": 4}, {"finished": 4, "deferred": 1}], NOW, id="one is deferred"),
        pytest.param([{"finished": 4}, {"finished": 0}], NOW, id="the engine restarted"),
        pytest.param([{"finished": 4}, {"finished": 4, "generation_tokens": 9}], NOW, id="a counter appeared"),
    ],
)
def test_time_of_the_last_request_of_a_pod(samples: list[dict[str, float]], active_at: float):
    assert a_history(*samples).active_at == active_at


def test_the_last_request_of_a_service_is_unknown_when_one_engine_does_not_count():
    quiet, asked = a_history({"finished": 1}, {"finished": 1}), a_history({"finished": 1}, {"finished": 2})
    uncounted = remember(None, a_sample())
    ages = Ages()

    def load(*histories: Any) -> ServiceLoad:
        return load_of([ReplicaReading(f"chat-{n}", h, NOW - 60) for n, h in enumerate(histories)], [], NOW, ages)

    assert load(quiet).active_at == NOW - 5
    assert load(quiet, asked).active_at == NOW
    assert load(quiet, uncounted).active_at is None
    assert load(quiet).ready_since == NOW - 60
    assert load().ready_since == -inf
