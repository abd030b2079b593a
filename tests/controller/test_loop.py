import asyncio
import logging
from dataclasses import replace

import pytest

from forebay.cluster.client.kube_api import ApiError
from forebay.world.plan import Plan
from tests.controller.tick_steps import EPOCH, LoopUnderTest, a_service_plan
from tests.controller.virtual_time import in_virtual_time, now

REFUSED = ApiError(0, "NoAnswer", "connection refused")


@in_virtual_time
async def test_it_ticks_every_five_seconds_when_nothing_happens():
    tested = LoopUnderTest()
    await tested.runs_for(16.0)
    assert tested.acted_at == [0.0, 5.0, 10.0, 15.0]


@in_virtual_time
async def test_a_change_causes_a_tick_one_debounce_later():
    tested = LoopUnderTest()
    asyncio.get_running_loop().call_later(2.0, tested.wake.wake, "pod")
    await tested.runs_for(9.0)
    assert tested.acted_at == [0.0, 3.0, 8.0]


@in_virtual_time
async def test_wake_in_seconds_causes_an_earlier_tick():
    tested = LoopUnderTest()
    tested.due_in(1.5)
    await tested.runs_for(4.0)
    assert tested.acted_at == [0.0, 1.5, 3.0]


@in_virtual_time
async def test_wake_in_seconds_never_delays_the_regular_tick():
    tested = LoopUnderTest()
    tested.due_in(600.0)
    await tested.runs_for(6.0)
    assert tested.acted_at == [0.0, 5.0]


@in_virtual_time
async def test_ticks_never_overlap():
    tested = LoopUnderTest(act_seconds=12.0)
    for second in range(1, 12):
        asyncio.get_running_loop().call_later(second, tested.wake.wake, "pod")
    await tested.runs_for(20.0)
    assert tested.observed_at == [0.0, 13.0]
    assert tested.acted_at == [12.0, 25.0]


@in_virtual_time
async def test_a_stop_waits_for_the_writes_of_the_running_tick():
    tested = LoopUnderTest(act_seconds=4.0)
    await tested.runs_for(1.0)
    assert tested.acted_at == [4.0]
    assert now() == 4.0


@in_virtual_time
async def test_a_standby_observes_and_neither_plans_nor_writes():
    tested = LoopUnderTest()
    tested.leading = False
    await tested.runs_for(11.0)
    assert tested.observed_at == [0.0, 5.0, 10.0]
    assert tested.planned_at == tested.acted_at == []
    assert tested.health.is_ready(now())


@in_virtual_time
async def test_leadership_lost_during_planning_prevents_writes():
    tested = LoopUnderTest()
    tested.before_act = lambda: setattr(tested, "leading", False)
    await tested.runs_for(1.0)
    assert tested.planned_at == [0.0]
    assert tested.acted_at == []


@in_virtual_time
async def test_a_new_term_starts_with_an_empty_state():
    tested = LoopUnderTest()
    loop = asyncio.get_running_loop()
    loop.call_later(7.0, setattr, tested, "leading", False)
    loop.call_later(12.0, setattr, tested, "leading", True)
    await tested.runs_for(21.0)
    assert tested.states == [0, 1, 0, 1]


@in_virtual_time
async def test_a_held_plan_writes_nothing_and_says_why_once(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.WARNING)
    tested = LoopUnderTest(next_plan=Plan(services=(), held="no nodes where there were 12"))
    await tested.runs_for(11.0)
    assert tested.acted_at == []
    assert tested.sample("forebay_held") == 1.0
    (record,) = caplog.records
    assert "no nodes where there were 12" in record.message


@in_virtual_time
async def test_an_outage_is_retried_with_doubling_waits():
    tested = LoopUnderTest(observe_error=REFUSED)
    asyncio.get_running_loop().call_later(20.0, setattr, tested, "observe_error", None)
    await tested.runs_for(35.0)
    assert tested.observed_at == [0.0, 1.0, 3.0, 7.0, 15.0, 31.0]
    assert tested.acted_at == [31.0]


@in_virtual_time
async def test_waits_double_up_to_thirty_seconds():
    tested = LoopUnderTest(observe_error=REFUSED)
    await tested.runs_for(100.0)
    assert tested.observed_at == [0.0, 1.0, 3.0, 7.0, 15.0, 31.0, 61.0, 91.0]


@in_virtual_time
async def test_changes_do_not_shorten_the_backoff():
    tested = LoopUnderTest(observe_error=REFUSED)
    for tenth in range(200):
        asyncio.get_running_loop().call_later(tenth / 10, tested.wake.wake, "pod")
    await tested.runs_for(20.0)
    assert tested.observed_at == [0.0, 1.0, 3.0, 7.0, 15.0]


@in_virtual_time
async def test_a_long_outage_leaves_the_process_alive():
    tested = LoopUnderTest(observe_error=REFUSED)
    await tested.runs_for(600.0)
    assert tested.health.is_alive(now())
    assert not tested.health.is_ready(now())
    assert "the cluster cannot be read" in tested.health.describe(now())


@in_virtual_time
@pytest.mark.parametrize("stage", ["observe", "plan", "apply"])
async def test_a_lasting_error_keeps_the_loop_running_and_fails_healthz(stage: str, caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.ERROR)
    fault = ValueError("a bug")
    attribute = {"observe": "observe_error", "plan": "plan_error", "apply": "act_error"}[stage]
    tested = LoopUnderTest()
    setattr(tested, attribute, fault)
    await tested.runs_for(59.0)
    assert tested.health.is_alive(now())
    await asyncio.sleep(2.0)
    assert not tested.health.is_alive(now())
    assert tested.sample("forebay_reconcile_errors_total", stage=stage) == len(tested.observed_at) == 6
    assert caplog.records[0].exc_info is not None
    assert "ValueError: a bug" in tested.health.describe(now())


@in_virtual_time
async def test_one_successful_tick_restores_health():
    tested = LoopUnderTest(plan_error=ValueError("a bug"))
    asyncio.get_running_loop().call_later(100.0, setattr, tested, "plan_error", None)
    await tested.runs_for(122.0)
    assert tested.health.is_alive(now())
    assert tested.health.error is None


@in_virtual_time
async def test_failed_actions_are_counted_without_a_backoff():
    tested = LoopUnderTest(failed_actions=3)
    await tested.runs_for(6.0)
    assert tested.acted_at == [0.0, 5.0]
    assert tested.sample("forebay_reconcile_errors_total", stage="action") == 6.0


@in_virtual_time
async def test_a_decision_is_logged_only_when_it_changes(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO)
    tested = LoopUnderTest(next_plan=Plan(services=(a_service_plan(desired=2),)))
    later = Plan(services=(a_service_plan(desired=4, rule="queue_depth"),))
    asyncio.get_running_loop().call_later(12.0, setattr, tested, "next_plan", later)
    await tested.runs_for(30.0)
    records = [record for record in caplog.records if "wants" in record.message]
    assert [record.message for record in records] == [
        "team-a/chat wants 2 replicas: 2 replicas are enough",
        "team-a/chat wants 4 replicas: 4 replicas are enough",
    ]
    assert (records[1].service, records[1].rule) == ("team-a/chat", "queue_depth")  # type: ignore[attr-defined]
    assert tested.sample("forebay_decisions_total", rule="queue_depth") == 1.0


@in_virtual_time
async def test_a_planning_failure_is_logged_once_and_counted_each_time(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.ERROR)
    broken = replace(a_service_plan(), error="Traceback: ZeroDivisionError")
    tested = LoopUnderTest(next_plan=Plan(services=(broken,)))
    await tested.runs_for(11.0)
    (record,) = caplog.records
    assert "team-a/chat" in record.message
    assert record.message.endswith("Traceback: ZeroDivisionError")
    assert tested.sample("forebay_reconcile_errors_total", stage="service") == 3.0
    assert tested.acted_at == [0.0, 5.0, 10.0]


@in_virtual_time
async def test_each_stage_is_timed():
    tested = LoopUnderTest(act_seconds=3.0)
    await tested.runs_for(1.0)
    assert tested.sample("forebay_tick_duration_seconds_sum") == 3.0
    assert tested.sample("forebay_stage_duration_seconds_sum", stage="apply") == 3.0
    assert tested.sample("forebay_stage_duration_seconds_count", stage="plan") == 1.0
    cpu_seconds = tested.sample("forebay_stage_cpu_seconds_total", stage="apply")
    assert cpu_seconds is not None
    assert 0.0 < cpu_seconds < 3.0, "time that passes while a stage waits is not CPU time"


@in_virtual_time
@pytest.mark.parametrize("server_ahead", [3600.0, -3600.0])
async def test_the_first_plan_already_follows_the_servers_clock(server_ahead: float):
    tested = LoopUnderTest(server_ahead=server_ahead)
    await tested.runs_for(6.0)
    assert tested.planned_for == [EPOCH + server_ahead + 0.5, EPOCH + server_ahead + 5.5]


@in_virtual_time
@pytest.mark.parametrize("ahead", [3600.0, -3600.0])
async def test_a_set_server_clock_is_doubted_without_a_plan_and_then_begins_an_empty_memory(ahead: float):
    tested = LoopUnderTest(server_ahead=0.0)
    asyncio.get_running_loop().call_later(7.0, setattr, tested, "server_ahead", ahead)
    await tested.runs_for(26.0)
    assert tested.planned_at == [0.0, 5.0, 20.0, 25.0]
    assert tested.states == [0, 1, 0, 1]
    assert tested.forgotten_at == [20.0]
    assert tested.observed_at == [0.0, 5.0, 10.0, 15.0, 20.0, 20.0, 25.0]
    assert tested.planned_for[2:] == pytest.approx([EPOCH + ahead + 20.0, EPOCH + ahead + 25.0], abs=1.0)
    assert tested.health.is_ready(now())
