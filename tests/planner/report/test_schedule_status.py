"""The status and Events of a schedule: its replicas are ready by the start, or the reason why not is given before."""

import re
from collections.abc import Iterable
from dataclasses import replace

import pytest

from forebay.api.inference_service import ScalingMode, ScheduleState, ScheduleStatus, TrafficSpec
from forebay.api.instants import rfc3339
from forebay.api.status import CapacityStatus
from forebay.planner.memory import State
from forebay.planner.planner import plan
from forebay.world.plan import Plan
from forebay.world.settings import Settings
from forebay.world.world import NodeView, PodView, ServiceView, World
from tests.builders.plans import creates, desired, events, only, rule
from tests.builders.schedules import a_schedule
from tests.builders.world import a_node, a_pod, a_service, a_world, pods_of, signals_of
from tests.schedules.test_timetable import unix

EIGHT = unix("2026-03-30T08:00", "Europe/Berlin")
WARM = EIGHT - 330
"""The start minus the assumed lead time of 300 s and the margin."""
END = EIGHT + 4 * 3600


def a_morning(**fields) -> ServiceView:
    return a_service(**{"schedules": (a_schedule(),), "max_replicas": 4, **fields})


def world_at(service: ServiceView, pods: Iterable[PodView], at: float, **world) -> World:
    pods = tuple(pods)
    return a_world(service, pods=pods, signals=signals_of(pods, at=at), **world)


def after(service: ServiceView, *ticks: tuple[float, Iterable[PodView]], **world) -> tuple[Plan, State]:
    """The plan of the last tick, after the earlier ones."""
    state = State.empty(ticks[0][0] - 3600)
    for at, pods in ticks:
        made, state = plan(world_at(service, pods, at, **world), state, at)
        assert only(made).error is None
    return made, state


def status(made: Plan) -> ScheduleStatus:
    (schedule,) = only(made).status.schedules
    return schedule


def ready(service: ServiceView, count: int, since: float = EIGHT - 3600) -> tuple[PodView, ...]:
    return pods_of(service, count, created_at=since - 300, ready_since=since)


def test_a_window_that_is_far_away_only_says_when():
    service = a_morning()
    made, _ = after(service, (WARM - 1, ready(service, 1)))
    assert (status(made).state, creates(made), events(made)) == (ScheduleState.IDLE, [], [])
    assert status(made).message.startswith("3 replicas from Mon 2026-03-30 08:00 Europe/Berlin (UTC+02:00); ")
    assert "Mon 2026-03-30 07:54:30 Europe/Berlin (UTC+02:00)" in status(made).message
    assert made.wake_in_seconds == 1


def test_replicas_are_ordered_a_lead_time_ahead():
    service = a_morning()
    made, _ = after(service, (WARM, ready(service, 1)))
    assert (desired(made), rule(made), len(creates(made))) == (3, "schedule_floor", 2)
    assert (status(made).state, status(made).warm_from, status(made).start, status(made).end) == (
        ScheduleState.WARMING,
        rfc3339(WARM),
        rfc3339(EIGHT),
        rfc3339(END),
    )


def test_met_when_all_were_ready_at_the_start_however_late_the_tick():
    service = a_morning()
    made, state = after(service, (EIGHT - 1, ready(service, 3, EIGHT)), (EIGHT + 20, ready(service, 3, EIGHT)))
    assert (status(made).state, status(made).ready_at) == (ScheduleState.MET, rfc3339(EIGHT))
    assert "ScheduleMet" in events(made)
    one_lost, _ = plan(world_at(service, ready(service, 2), EIGHT + 60), state, EIGHT + 60)
    assert (status(one_lost).state, status(one_lost).ready_at) == (ScheduleState.MET, rfc3339(EIGHT))
    assert "ScheduleMissed" not in events(one_lost)


def test_missed_stays_and_says_how_late():
    service = a_morning()
    late = (*ready(service, 2), a_pod(service, 2, created_at=EIGHT - 300, ready_since=EIGHT + 90))
    loading = (*ready(service, 2), a_pod(service, 2, ready=False, created_at=EIGHT - 300))
    before, state = after(service, (EIGHT - 320, ready(service, 2)), (EIGHT, loading))
    assert (status(before).state, "ScheduleMissed" in events(before)) == (ScheduleState.MISSED, True)
    made, _ = plan(world_at(service, late, EIGHT + 95), state, EIGHT + 95)
    assert (status(made).state, status(made).ready_at) == (ScheduleState.MISSED, rfc3339(EIGHT + 90))
    assert "all since Mon 2026-03-30 08:01:30 Europe/Berlin (UTC+02:00), 90 s after the start" in status(made).message
    assert "ScheduleReadyLate" in events(made)


def test_the_end_releases_the_floor_and_then_drains_as_always():
    service = a_morning()
    pods = ready(service, 3)
    made, state = after(service, (END - 600, pods), (END - 1, pods))
    assert (desired(made), status(made).floor_released_at) == (3, None)
    made, _ = plan(world_at(service, pods, END), state, END)
    schedule = status(made)
    assert (schedule.state, schedule.start) == (ScheduleState.IDLE, rfc3339(EIGHT + 86400))
    assert schedule.floor_released_at == rfc3339(END)
    assert schedule.drains_until == rfc3339(END + 300 + 2 * 300)
    assert rule(made) != "schedule_floor"
    assert desired(made) >= 2


def test_overlapping_windows_take_the_largest_floor():
    schedules = (a_schedule(replicas=2), a_schedule("0 9 * * *", name="peak", replicas=4, duration="1h"))
    service = a_morning(schedules=schedules)
    pods = ready(service, 4)
    made, _ = after(service, (EIGHT + 3600 + 60, pods))
    assert desired(made) == 4
    assert [schedule.name for schedule in only(made).status.schedules] == ["morning", "peak"]


def test_a_floor_holds_where_load_only_advises():
    service = a_morning(mode=ScalingMode.RECOMMEND)
    made, _ = after(service, (WARM, ready(service, 1)))
    assert (desired(made), len(creates(made))) == (3, 2)


CARRIES = CapacityStatus(tokens_per_minute=1_000_000, per_replica=1_000_000, basis="profile")
MIX = TrafficSpec(requests_per_month=1000, prompt_tokens=600, output_tokens=400)
RATE = (a_schedule(tokens_per_minute=5_500_000),)


@pytest.mark.parametrize(
    ("fields", "at", "pods", "world", "says"),
    [
        pytest.param(
            {"schedules": RATE},
            EIGHT - 86400 / 2,
            1,
            {},
            "floor.tokensPerMinute",
            id="the capacity of a replica is unknown",
        ),
        pytest.param(
            {"schedules": RATE, "traffic": MIX, "capacity_status": CARRIES},
            EIGHT - 86400 / 2,
            1,
            {},
            "scaling.maxReplicas is 4; raise it, or lower the floor",
            id="maxReplicas, as soon as it is next",
        ),
        pytest.param(
            {"schedules": (a_schedule(zone="Europe/Berlitz"),)}, EIGHT, 1, {}, "Europe/Berlitz", id="no such zone"
        ),
        pytest.param({"mode": ScalingMode.PAUSED}, WARM, 1, {}, "scaling.mode is Paused", id="nothing is created"),
        pytest.param(
            {},
            WARM - 3600,
            1,
            {"nodes": (a_node(gpus=2),)},
            r"2 replicas of 1 pod with 1 × nvidia.com/gpu .*nodes.* \(1\) have 1 GPU free, enough for 1",
            id="too few GPUs, an hour before anything is ordered",
        ),
        pytest.param(
            {},
            WARM - 3600,
            1,
            {"nodes": (a_node(gpus=2), a_node("node-1", cordoned=True), a_node("node-2", ready=False))},
            r"nodes.* \(1\) have 1 GPU free",
            id="cordoned and broken nodes have no room",
        ),
        pytest.param(
            {},
            WARM - 3600,
            1,
            {"settings": Settings(max_gpus=2)},
            r"ceiling of 2 GPUs .* 1 of the 2 ",
            id="the operator's ceiling, as early",
        ),
    ],
)
def test_at_risk_before_the_peak(fields, at, pods, world, says):
    service = a_morning(**fields)
    made, state = after(service, (at, ready(service, pods, at - 600)), **world)
    assert status(made).state is ScheduleState.AT_RISK
    assert re.search(says, status(made).message)
    assert events(made).count("ScheduleAtRisk") == 1
    again, _ = plan(world_at(service, ready(service, pods, at - 600), at + 5, **world), state, at + 5)
    assert "ScheduleAtRisk" not in events(again)


def test_earlier_than_that_nodes_are_not_asked():
    service = a_morning()
    made, _ = after(service, (WARM - 7200, ready(service, 1)), nodes=(a_node(gpus=1),))
    assert status(made).state is ScheduleState.IDLE


def test_a_node_that_does_not_match_has_no_room():
    labelled = NodeView("node-1", True, False, {"nvidia.com/gpu": 8}, {"nvidia.com/gpu.product": "L4"})
    service = a_morning()
    assert service.wanted is not None
    shape = replace(service.wanted.shape, node_selector=(("nvidia.com/gpu.product", "H100"),))
    service = replace(service, wanted=replace(service.wanted, shape=shape))
    stored = {service.uid: (replace(service.wanted, number=1, name="stored"),)} if service.wanted else {}
    made, _ = after(service, (WARM - 60, ready(service, 1)), nodes=(a_node(), labelled), revisions=stored)
    assert re.search(r"nodes.* \(0\) have 0 GPUs free", status(made).message)


def test_a_schedule_that_comes_too_late_says_when_it_will_be_ready():
    service = a_morning()
    made, _ = after(service, (EIGHT - 120, ready(service, 1)))
    assert (status(made).state, len(creates(made))) == (ScheduleState.AT_RISK, 2)
    assert status(made).message.endswith(
        "all will be ready at about Mon 2026-03-30 08:03 Europe/Berlin (UTC+02:00), 180 s after the start."
    )


def test_a_replica_without_a_node_is_reported_within_half_a_lead_time():
    service = a_morning()
    waiting = a_pod(service, 2, node=None, created_at=WARM)
    pods = (*ready(service, 2), waiting)
    made, _ = after(service, (WARM, ready(service, 2)), (WARM + 149, pods))
    assert status(made).state is ScheduleState.WARMING
    made, _ = after(service, (WARM, ready(service, 2)), (WARM + 150, pods))
    assert status(made).state is ScheduleState.AT_RISK
    assert re.search(rf"{waiting.name} .*no node since", status(made).message)


def test_a_replica_that_is_later_than_expected_is_reported_before_the_start():
    service = a_morning()
    slow = a_pod(service, 2, ready=False, created_at=WARM + 5)
    made, _ = after(service, (WARM, ready(service, 2)), (WARM + 306, (*ready(service, 2), slow)))
    assert status(made).state is ScheduleState.AT_RISK
    assert re.search(rf"{slow.name} .*300 s", status(made).message)


def test_a_window_that_was_asked_for_after_its_start_is_no_miss():
    service = a_morning()
    made, state = after(service, (EIGHT + 600, ready(service, 1)))
    assert status(made).state is ScheduleState.AT_RISK
    assert "after its start" in status(made).message
    made, _ = plan(world_at(service, ready(service, 3, EIGHT + 900), EIGHT + 901), state, EIGHT + 901)
    assert status(made).state is ScheduleState.MET


@pytest.mark.parametrize("reported", [ScheduleState.MET, ScheduleState.MISSED])
def test_the_verdict_on_a_start_survives_a_restart(reported):
    service = a_morning()
    made, _ = after(service, (EIGHT, ready(service, 3 if reported is ScheduleState.MET else 2)))
    stored = only(made).status.model_copy(update={"schedules": (status(made).model_copy(update={"state": reported}),)})
    service = replace(service, status=stored)
    made, _ = after(service, (EIGHT + 300, ready(service, 3)))
    assert status(made).state is reported
    assert {"ScheduleMet", "ScheduleMissed"}.isdisjoint(events(made))


def test_the_loop_wakes_for_every_edge():
    service = a_morning()
    pods = ready(service, 2, EIGHT - 7200)
    for at, edge in ((WARM - 3700, WARM - 3600), (WARM - 100, WARM), (EIGHT - 100, EIGHT), (END - 100, END)):
        made, _ = after(service, (at, pods))
        assert made.wake_in_seconds is not None
        assert at + made.wake_in_seconds <= edge
