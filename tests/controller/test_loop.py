import asyncio
import logging
from dataclasses import replace

import pytest

from forebay.cluster.client.kube_api import ApiError
from forebay.world.plan import Plan
from tests.controller.tick_steps import Story, a_service_plan
from tests.controller.virtual_time import in_virtual_time, now

REFUSED = ApiError(0, "NoAnswer", "connection refused")


@in_virtual_time
async def test_it_ticks_every_five_seconds_when_nothing_happens():
    story = Story()
    await story.runs_for(16.0)
    assert story.acted_at == [0.0, 5.0, 10.0, 15.0]


@in_virtual_time
async def test_a_change_causes_a_tick_one_debounce_later():
    story = Story()
    asyncio.get_running_loop().call_later(2.0, story.wake.wake, "pod")
    await story.runs_for(9.0)
    assert story.acted_at == [0.0, 3.0, 8.0]


@in_virtual_time
async def test_what_the_plan_waits_for_comes_before_the_next_regular_tick():
    story = Story()
    story.due_in(1.5)
    await story.runs_for(4.0)
    assert story.acted_at == [0.0, 1.5, 3.0]


@in_virtual_time
async def test_what_the_plan_waits_for_never_delays_the_regular_tick():
    story = Story()
    story.due_in(600.0)
    await story.runs_for(6.0)
    assert story.acted_at == [0.0, 5.0]


@in_virtual_time
async def test_one_tick_at_a_time_however_long_it_takes():
    story = Story(act_seconds=12.0)
    for second in range(1, 12):
        asyncio.get_running_loop().call_later(second, story.wake.wake, "pod")
    await story.runs_for(20.0)
    assert story.observed_at == [0.0, 13.0]
    assert story.acted_at == [12.0, 25.0]


@in_virtual_time
async def test_a_stop_waits_for_the_writes_of_the_tick_that_runs():
    story = Story(act_seconds=4.0)
    await story.runs_for(1.0)
    assert story.acted_at == [4.0]
    assert now() == 4.0


@in_virtual_time
async def test_a_standby_observes_and_neither_plans_nor_writes():
    story = Story()
    story.leading = False
    await story.runs_for(11.0)
    assert story.observed_at == [0.0, 5.0, 10.0]
    assert story.planned_at == story.acted_at == []
    assert story.health.is_ready(now())


@in_virtual_time
async def test_leadership_lost_while_planning_writes_nothing():
    story = Story()
    story.before_act = lambda: setattr(story, "leading", False)
    await story.runs_for(1.0)
    assert story.planned_at == [0.0]
    assert story.acted_at == []


@in_virtual_time
async def test_a_new_term_starts_without_the_memory_of_the_last():
    story = Story()
    loop = asyncio.get_running_loop()
    loop.call_later(7.0, setattr, story, "leading", False)
    loop.call_later(12.0, setattr, story, "leading", True)
    await story.runs_for(21.0)
    assert story.states == [0, 1, 0, 1]


@in_virtual_time
async def test_a_held_plan_writes_nothing_and_says_why_once(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.WARNING)
    story = Story(next_plan=Plan(services=(), held="no nodes where there were 12"))
    await story.runs_for(11.0)
    assert story.acted_at == []
    assert story.sample("forebay_held") == 1.0
    assert [record.message for record in caplog.records] == ["nothing is done: no nodes where there were 12"]


@in_virtual_time
async def test_an_outage_is_met_with_doubling_waits_and_ends_with_a_fresh_reading():
    story = Story(observe_error=REFUSED)
    asyncio.get_running_loop().call_later(20.0, setattr, story, "observe_error", None)
    await story.runs_for(35.0)
    assert story.observed_at == [0.0, 1.0, 3.0, 7.0, 15.0, 31.0]
    assert story.acted_at == [31.0]


@in_virtual_time
async def test_waits_double_up_to_thirty_seconds():
    story = Story(observe_error=REFUSED)
    await story.runs_for(100.0)
    assert story.observed_at == [0.0, 1.0, 3.0, 7.0, 15.0, 31.0, 61.0, 91.0]


@in_virtual_time
async def test_changes_do_not_hurry_a_loop_that_backs_off():
    story = Story(observe_error=REFUSED)
    for tenth in range(200):
        asyncio.get_running_loop().call_later(tenth / 10, story.wake.wake, "pod")
    await story.runs_for(20.0)
    assert story.observed_at == [0.0, 1.0, 3.0, 7.0, 15.0]


@in_virtual_time
async def test_a_long_outage_leaves_the_process_alive():
    story = Story(observe_error=REFUSED)
    await story.runs_for(600.0)
    assert story.health.is_alive(now())
    assert not story.health.is_ready(now())
    assert "no view of the cluster" in story.health.describe(now())


@in_virtual_time
@pytest.mark.parametrize("stage", ["observe", "plan", "apply"])
async def test_a_lasting_fault_never_ends_the_loop_but_turns_it_red(stage: str, caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.ERROR)
    fault = ValueError("a bug")
    attribute = {"observe": "observe_error", "plan": "plan_error", "apply": "act_error"}[stage]
    story = Story()
    setattr(story, attribute, fault)
    await story.runs_for(59.0)
    assert story.health.is_alive(now())
    await asyncio.sleep(2.0)
    assert not story.health.is_alive(now())
    assert story.sample("forebay_reconcile_errors_total", stage=stage) == len(story.observed_at) == 6
    assert caplog.records[0].exc_info is not None
    assert "ValueError: a bug" in story.health.describe(now())


@in_virtual_time
async def test_one_good_tick_makes_a_failing_loop_well_again():
    story = Story(plan_error=ValueError("a bug"))
    asyncio.get_running_loop().call_later(100.0, setattr, story, "plan_error", None)
    await story.runs_for(122.0)
    assert story.health.is_alive(now())
    assert story.health.error is None


@in_virtual_time
async def test_single_actions_that_fail_are_counted_and_do_not_slow_the_loop():
    story = Story(failed_actions=3)
    await story.runs_for(6.0)
    assert story.acted_at == [0.0, 5.0]
    assert story.sample("forebay_reconcile_errors_total", stage="action") == 6.0


@in_virtual_time
async def test_a_decision_is_said_when_it_changes_and_not_again(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO)
    story = Story(next_plan=Plan(services=(a_service_plan(desired=2),)))
    later = Plan(services=(a_service_plan(desired=4, rule="queue_depth"),))
    asyncio.get_running_loop().call_later(12.0, setattr, story, "next_plan", later)
    await story.runs_for(30.0)
    said = [record for record in caplog.records if "wants" in record.message]
    assert [record.message for record in said] == [
        "team-a/chat wants 2 replicas: 2 replicas are enough",
        "team-a/chat wants 4 replicas: 4 replicas are enough",
    ]
    assert (said[1].service, said[1].rule) == ("team-a/chat", "queue_depth")  # type: ignore[attr-defined]
    assert story.sample("forebay_decisions_total", rule="queue_depth") == 1.0


@in_virtual_time
async def test_a_service_whose_planning_failed_is_said_once_and_counted_each_time(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.ERROR)
    broken = replace(a_service_plan(), error="Traceback: ZeroDivisionError")
    story = Story(next_plan=Plan(services=(broken,)))
    await story.runs_for(11.0)
    assert [record.message for record in caplog.records] == [
        "planning of team-a/chat failed; it is left as it is: Traceback: ZeroDivisionError"
    ]
    assert story.sample("forebay_reconcile_errors_total", stage="service") == 3.0
    assert story.acted_at == [0.0, 5.0, 10.0]


@in_virtual_time
async def test_each_stage_is_timed():
    story = Story(act_seconds=3.0)
    await story.runs_for(1.0)
    assert story.sample("forebay_tick_duration_seconds_sum") == 3.0
    assert story.sample("forebay_stage_duration_seconds_sum", stage="apply") == 3.0
    assert story.sample("forebay_stage_duration_seconds_count", stage="plan") == 1.0
