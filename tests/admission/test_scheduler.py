"""The scheduler, call by call."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forebay.admission.pool_gate import GateLimits, PoolPhase
from forebay.admission.request import RefusalReason
from forebay.admission.scheduler import ClassLimits, SchedulerLimits, TenantRules
from tests.builders.admission import (
    JITTER,
    Clients,
    a_pool,
    a_request,
    a_scheduler,
    fields_of,
    nothing_yet,
    queue_many,
    short_waits,
    some_limits,
    started_in_order,
)
from tests.builders.tenants import a_tenant

A, B = a_tenant("a"), a_tenant("b")
SMALL = a_pool(6_000)
"""100 tokens a second."""


def test_a_request_starts_at_once_when_there_is_capacity():
    scheduler = a_scheduler(A)
    scheduler.see(a_pool(), 1.0)
    assert scheduler.arrive(a_request("one"), 2.0, JITTER) is None
    started, refused = scheduler.dispatch(2.0, JITTER)
    assert ([each.request.id for each in started], refused, scheduler.waiting) == (["one"], [], 0)


@pytest.mark.parametrize(
    ("pool", "starts"),
    [
        pytest.param(a_pool(), True, id="open"),
        pytest.param(a_pool(kv_fraction=0.89, queue_depth=19.0, in_flight_tokens=0.0), True, id="below every bound"),
        pytest.param(a_pool(kv_fraction=0.9), False, id="KV cache full"),
        pytest.param(a_pool(queue_depth=20.0), False, id="the engines queue"),
        pytest.param(a_pool(in_flight_tokens=1_000_000.0), False, id="a minute of capacity under way"),
        pytest.param(a_pool(0.0), False, id="no capacity"),
        pytest.param(a_pool(phase=PoolPhase.STARTING), False, id="starting"),
    ],
)
def test_the_gate(pool, starts):
    scheduler = a_scheduler(A, pool=pool)
    queue_many(scheduler, "a", 1)
    assert (started_in_order(scheduler, 1.0) == ["a"]) is starts


def test_what_the_scheduler_has_under_way_closes_the_gate_before_any_reading_shows_it():
    limits = replace(short_waits(1000), gate=GateLimits(probe_margin=0.0, in_flight_seconds=10.0))
    scheduler = a_scheduler(A, pool=SMALL, limits=limits)
    queue_many(scheduler, "a", 4)
    assert started_in_order(scheduler, *range(60)) == ["a", "a"]
    scheduler.settle("a-0.0-0", 500.0, 60.0)
    assert started_in_order(scheduler, 60.0) == ["a"]


@pytest.mark.parametrize(("margin", "expected"), [(0.0, 60), (0.1, 66)])
def test_the_probe_margin_lets_the_pool_take_more_than_its_capacity(margin, expected):
    limits = replace(short_waits(600), gate=GateLimits(probe_margin=margin, in_flight_seconds=1e9))
    scheduler = a_scheduler(A, pool=SMALL, limits=limits)
    queue_many(scheduler, "a", 200, cost=100)
    assert len(started_in_order(scheduler, *(step / 10 for step in range(601)))) == pytest.approx(expected, abs=1)


def test_each_tenant_is_first_in_first_out():
    scheduler = a_scheduler(A)
    queue_many(scheduler, "a", 5)
    started, _ = scheduler.dispatch(1.0, JITTER)
    assert [each.request.id for each in started] == [f"a-0.0-{number}" for number in range(5)]


def test_a_tenant_that_was_idle_has_saved_up_no_turns():
    scheduler = a_scheduler(A, B, pool=SMALL, limits=short_waits(1000))
    queue_many(scheduler, "a", 60, cost=100)
    started_in_order(scheduler, *range(1, 31))
    queue_many(scheduler, "b", 30, now=30.0, cost=100)
    order = started_in_order(scheduler, *range(31, 51))
    assert abs(order.count("a") - order.count("b")) <= 1


def test_a_tenant_held_up_by_its_own_limit_has_saved_up_no_turns():
    scheduler = a_scheduler(A, TenantRules(B, concurrency=1), pool=SMALL, limits=short_waits(1000))
    queue_many(scheduler, "a", 60, cost=100)
    queue_many(scheduler, "b", 30, cost=100)
    started_in_order(scheduler, *range(1, 31))
    scheduler.settle("b-0.0-0", 100.0, 30.0)
    order = []
    for second in range(31, 51):
        for each in scheduler.dispatch(float(second), JITTER)[0]:
            order.append(each.request.tenant)
            scheduler.settle(each.request.id, 100.0, float(second))
    assert abs(order.count("a") - order.count("b")) <= 1


def test_concurrency_and_requests_per_minute_hold_requests_back():
    one_at_a_time = a_scheduler(TenantRules(A, concurrency=1))
    queue_many(one_at_a_time, "a", 3)
    assert started_in_order(one_at_a_time, 1.0) == ["a"]
    assert started_in_order(one_at_a_time, 2.0) == []
    one_at_a_time.settle("a-0.0-0", 500.0, 2.5)
    assert started_in_order(one_at_a_time, 2.6) == ["a"]

    paced = a_scheduler(TenantRules(A, requests_per_minute=60), limits=some_limits(burst_seconds=1.0))
    queue_many(paced, "a", 3)
    assert [len(started_in_order(paced, at)) for at in (0.5, 1.0, 1.5, 2.6)] == [1, 0, 1, 1]


@pytest.mark.parametrize(
    ("limits", "rules", "queued", "reason"),
    [
        pytest.param(some_limits(queued_per_tenant=2), TenantRules(A), 2, RefusalReason.QUEUE_FULL, id="own queue"),
        pytest.param(some_limits(queued=2), TenantRules(A), 2, RefusalReason.QUEUE_FULL, id="all queues"),
        pytest.param(
            some_limits(),
            TenantRules(a_tenant("a", limit=6_000)),
            2,
            RefusalReason.TENANT_LIMIT,
            id="its limit in tokens would make it wait for 5 s",
        ),
        pytest.param(
            some_limits(),
            TenantRules(A, requests_per_minute=12),
            1,
            RefusalReason.TENANT_LIMIT,
            id="its limit in requests would make it wait for 5 s",
        ),
    ],
)
def test_refusals_at_the_door(limits, rules, queued, reason):
    scheduler = a_scheduler(rules, limits=limits)
    queue_many(scheduler, "a", queued)
    assert fields_of(scheduler.arrive(a_request("more"), 0.0, JITTER), "reason", "status") == (reason, 429)


def test_503_only_if_nothing_serves_and_nothing_is_starting():
    absent = a_scheduler(A, pool=a_pool(0.0, phase=PoolPhase.ABSENT))
    assert fields_of(absent.arrive(a_request("one"), 0.0, JITTER), "status") == (503,)
    starting = a_scheduler(A, pool=nothing_yet())
    assert starting.arrive(a_request("one"), 0.0, JITTER) is None


def test_a_wait_for_the_first_replica_is_no_wait_for_a_turn():
    limits = some_limits(interactive=ClassLimits(wait_seconds=3.0, cold_start_seconds=600.0))
    scheduler = a_scheduler(A, pool=nothing_yet(), limits=limits)
    queue_many(scheduler, "a", 2)
    assert scheduler.dispatch(400.0, JITTER) == ([], [])
    scheduler.see(a_pool(1.0), 400.0)
    assert scheduler.dispatch(402.9, JITTER)[1] == []
    refused = scheduler.dispatch(403.0, JITTER)[1]
    assert {each.reason for each in refused} == {RefusalReason.WAITED_TOO_LONG}


@pytest.mark.parametrize(
    ("ready_in", "refused"), [pytest.param(None, False), pytest.param(599.0, False), pytest.param(601.0, True)]
)
def test_a_first_replica_that_comes_too_late_is_not_waited_for(ready_in, refused):
    scheduler = a_scheduler(A, pool=nothing_yet(ready_in_seconds=ready_in))
    refusal = scheduler.arrive(a_request("one"), 0.0, JITTER)
    assert (refusal is not None and refusal.reason is RefusalReason.COLD_START) is refused


def test_a_cold_start_that_takes_too_long_ends_the_wait():
    scheduler = a_scheduler(A, pool=nothing_yet())
    queue_many(scheduler, "a", 1)
    assert scheduler.dispatch(599.0, JITTER)[1] == []
    assert fields_of(scheduler.dispatch(600.0, JITTER)[1][0], "reason", "status") == (RefusalReason.COLD_START, 429)


def test_batch_with_a_deadline_waits_until_then_and_no_longer():
    scheduler = a_scheduler(a_tenant("a"), a_tenant("c", batch=True), pool=SMALL)
    queue_many(scheduler, "a", 2)
    assert scheduler.arrive(a_request("night", "c", wait_seconds=7200.0), 0.0, JITTER) is None
    scheduler.see(a_pool(0.0), 1.0)
    assert [each.request.tenant for each in scheduler.dispatch(7199.0, JITTER)[1]] == ["a", "a"]
    assert [each.request.id for each in scheduler.dispatch(7200.0, JITTER)[1]] == ["night"]


def test_refusals_by_prediction_end_only_when_the_wait_is_well_below_the_bound():
    clients = Clients(a_scheduler(A, pool=a_pool(60_000), limits=short_waits(10.0)), {"a": 120_000}).play(60)
    turns = [refusal.reason for _, refusal in clients.refusals("a", since=30.0)]
    assert turns
    assert set(turns) == {RefusalReason.PREDICTED_WAIT}
    waits = [each.waited_seconds for at, each in clients.started if at > 40]
    assert 7.0 < min(waits) < 8.5 < max(waits) <= 10.0


@pytest.mark.parametrize(("jitter", "expected"), [(0.0, 3.0), (1.0, 4.5)])
def test_retry_after_has_jitter(jitter, expected):
    scheduler = a_scheduler(A, limits=some_limits(queued_per_tenant=0))
    assert fields_of(scheduler.arrive(a_request("one"), 0.0, jitter), "retry_after_seconds") == (expected,)


def test_a_reservation_without_a_record_stays_charged_and_is_no_longer_under_way():
    limits = some_limits(reservation_seconds=100.0)
    scheduler = a_scheduler(TenantRules(A, concurrency=1), limits=limits)
    queue_many(scheduler, "a", 1)
    scheduler.dispatch(1.0, JITTER)
    assert scheduler.in_flight == 1
    queue_many(scheduler, "a", 1, now=101.0)
    assert started_in_order(scheduler, 101.0) == ["a"]
    assert not scheduler.settle("a-0.0-0", 1.0, 102.0)


def test_a_request_that_its_client_gave_up_leaves_its_queue():
    scheduler = a_scheduler(A, pool=nothing_yet())
    queue_many(scheduler, "a", 2)
    assert scheduler.cancel("a-0.0-0", "a", 1.0)
    assert not scheduler.cancel("a-0.0-0", "a", 1.0)
    assert scheduler.waiting == 1
    assert not scheduler.cancel("one", "nobody", 1.0)


def test_a_tenant_that_nobody_knows_is_refused():
    assert fields_of(a_scheduler(A).arrive(a_request("one", "z"), 0.0, JITTER), "status") == (403,)


def test_a_group_queues_its_own_requests_beside_its_tenants():
    scheduler = a_scheduler(a_tenant("org"), a_tenant("a", parent="org"), pool=SMALL, limits=short_waits(1000))
    queue_many(scheduler, "org", 10, cost=100)
    queue_many(scheduler, "a", 10, cost=100)
    order = started_in_order(scheduler, *range(1, 11))
    assert abs(order.count("a") - order.count("org")) <= 1


@given(
    st.lists(st.floats(1, 1000), min_size=30, max_size=30),
    st.lists(st.floats(1, 1000), min_size=30, max_size=30),
    st.sampled_from([0.5, 1, 3]),
)
def test_the_gap_between_two_tenants_that_wait_is_bounded_whatever_the_time(one, two, weight):
    """The largest request by weight (the bound of the virtual token counter)."""
    limits = SchedulerLimits(interactive=ClassLimits(1e9, 1e9), gate=GateLimits(0.0, in_flight_seconds=1e9))
    scheduler = a_scheduler(A, a_tenant("b", weight=weight), pool=SMALL, limits=limits)
    for number, (cost_a, cost_b) in enumerate(zip(one, two, strict=True)):
        scheduler.arrive(a_request(f"a-{number}", "a", cost_a), 0.0, JITTER)
        scheduler.arrive(a_request(f"b-{number}", "b", cost_b), 0.0, JITTER)
    bound = max(max(one), max(two) / weight)
    left, service = {"a": 30, "b": 30}, {"a": 0.0, "b": 0.0}
    now = 0.0
    while all(left.values()):
        now += 1.0
        for each in scheduler.dispatch(now, JITTER)[0]:
            if all(left.values()):
                left[each.request.tenant] -= 1
                service[each.request.tenant] += each.request.cost / (weight if each.request.tenant == "b" else 1)
                assert abs(service["a"] - service["b"]) <= bound + 1e-6


TENANTS = (
    TenantRules(a_tenant("org", guaranteed=200, limit=3000)),
    TenantRules(a_tenant("a", parent="org", guaranteed=1000, weight=2), concurrency=3),
    TenantRules(a_tenant("b", parent="org", batch=True)),
    TenantRules(a_tenant("c", limit=2000), requests_per_minute=30),
    TenantRules(a_tenant("d", batch=True, guaranteed=500)),
)
STEPS = st.tuples(
    st.sampled_from(["arrive", "arrive", "arrive", "dispatch", "settle", "cancel", "see"]),
    st.sampled_from(["org", "a", "b", "c", "d"]),
    st.floats(1, 300),
    st.floats(0, 5),
)


@given(st.lists(STEPS, max_size=120), st.sampled_from([None, 2.0]))
@settings(max_examples=60)
def test_every_request_that_arrives_is_started_or_refused_or_waits_exactly_once(steps, wait_seconds):
    limits = some_limits(queued_per_tenant=4, queued=12, reservation_seconds=20.0)
    scheduler = a_scheduler(*TENANTS, pool=SMALL, limits=limits)
    now, arrived = 0.0, 0
    started: list[str] = []
    ended: list[str] = []
    for number, (step, tenant, size, passed) in enumerate(steps):
        now += passed
        if step == "arrive":
            arrived += 1
            refusal = scheduler.arrive(a_request(f"{number}", tenant, size, wait_seconds), now, JITTER)
            ended += [refusal.request.id] if refusal else []
        elif step == "dispatch":
            dispatched, refused = scheduler.dispatch(now, JITTER)
            started += [each.request.id for each in dispatched]
            ended += [each.request.id for each in refused]
        elif step == "settle" and started:
            scheduler.settle(started[int(size) % len(started)], size, now)
        elif step == "cancel":
            ended += [f"{number - 1}"] if scheduler.cancel(f"{number - 1}", tenant, now) else []
        elif step == "see":
            scheduler.see([SMALL, nothing_yet(), a_pool(0.0, phase=PoolPhase.ABSENT), a_pool()][int(size) % 4], now)
        assert len({*started, *ended}) == len(started) + len(ended)
        assert arrived == len(started) + len(ended) + scheduler.waiting
        assert scheduler.waiting <= 12
    scheduler.see(a_pool(), now)
    _, refused = scheduler.dispatch(now + 1e5, JITTER)
    for second in range(200):
        scheduler.dispatch(now + 1e5 + second, JITTER)
    assert scheduler.waiting == 0
