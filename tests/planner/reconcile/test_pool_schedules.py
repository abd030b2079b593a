"""Schedules of a WarmPool: more places by the start of a window, removed at its end, or a reason why not before."""

import re
from collections.abc import Iterable
from dataclasses import replace

import pytest

from forebay.api.instants import rfc3339
from forebay.api.spec.schedule_spec import ScheduleState
from forebay.api.warm_pool import PoolScheduleStatus, PoolStatus
from forebay.planner.memory import State
from forebay.planner.planner import plan
from forebay.scaling.learning.lead_time import WarmState
from forebay.world.plan import CreatePlaceholder, DeletePlaceholder, Plan
from forebay.world.settings import Settings
from forebay.world.world import NodeView, PodView, WarmPoolView
from tests.builders.pools import a_peak, a_pool, holding
from tests.builders.world import a_node, a_pod, a_service, a_world, signals_of
from tests.schedules.test_timetable import unix

EIGHT = unix("2026-03-30T08:00", "Europe/Berlin")
WARM = EIGHT - 330
"""The start minus 300 s, for places on existing nodes, and the margin."""
NOON = EIGHT + 4 * 3600
SERVICE = a_service()


def after(
    pool: WarmPoolView,
    *ticks: tuple[float, Iterable[PodView]],
    nodes: tuple[NodeView, ...] = (a_node(),),
    settings: Settings | None = None,
    state: State | None = None,
) -> tuple[Plan, State]:
    """The plan of the last tick, after the earlier ones, with a service of one replica beside the pool."""
    state = state or State.empty(ticks[0][0] - 3600)
    for at, pods in ticks:
        serving = a_pod(SERVICE)
        world = a_world(
            SERVICE, pods=(serving, *pods), signals=signals_of((serving,), at=at), nodes=nodes, settings=settings
        )
        made, state = plan(replace(world, warm_pools=(pool,)), state, at)
    return made, state


def status(made: Plan) -> PoolScheduleStatus:
    (schedule,) = made.warm_pools[0].status.schedules
    return schedule


def wanted(made: Plan) -> int:
    return made.warm_pools[0].status.wanted


def created(made: Plan) -> int:
    return sum(isinstance(action, CreatePlaceholder) for action in made.warm_pools[0].actions)


def removed(made: Plan) -> list[str]:
    return [action.reason for action in made.warm_pools[0].actions if isinstance(action, DeletePlaceholder)]


def held_since(pool: WarmPoolView, count: int, at: float, first: int = 0) -> tuple[PodView, ...]:
    return holding(pool, count, first, created_at=at - 60, ready_since=at)


PEAK = a_pool(schedules=(a_peak(4),))
BASE = held_since(PEAK, 2, EIGHT - 7200)


def test_far_from_a_window_the_constant_number_holds_and_the_next_window_is_named():
    made, _ = after(PEAK, (WARM - 1, BASE))
    assert (wanted(made), created(made), status(made).state) == (2, 0, ScheduleState.IDLE)
    assert (status(made).warm_from, status(made).start, status(made).end) == (
        rfc3339(WARM),
        rfc3339(EIGHT),
        rfc3339(NOON),
    )
    assert status(made).message.startswith("4 placeholders from Mon 2026-03-30 08:00 Europe/Berlin (UTC+02:00); ")
    assert "Mon 2026-03-30 07:54:30 Europe/Berlin (UTC+02:00)" in status(made).message
    assert made.wake_in_seconds == 1


def test_a_lead_time_before_the_start_the_places_are_ordered():
    made, _ = after(PEAK, (WARM, BASE))
    assert (wanted(made), created(made), status(made).state) == (4, 2, ScheduleState.WARMING)


def test_where_a_node_has_to_come_first_they_are_ordered_earlier():
    """The lead time is 420 s when the existing nodes are full."""
    full = (a_node(gpus=3),)
    made, _ = after(PEAK, (EIGHT - 450, BASE), nodes=full)
    assert (wanted(made), status(made).warm_from) == (4, rfc3339(EIGHT - 450))


def test_met_when_all_were_held_at_the_start_however_late_the_tick():
    made, _ = after(PEAK, (EIGHT - 1, BASE), (EIGHT + 20, (*BASE, *held_since(PEAK, 2, EIGHT, 2))))
    assert (status(made).state, status(made).ready_at) == (ScheduleState.MET, rfc3339(EIGHT))
    assert re.fullmatch(
        r"4 placeholders until Mon 2026-03-30 12:00 Europe/Berlin \(UTC\+02:00\); 4 [\w ]+\.", status(made).message
    )


def test_missed_when_one_came_after_the_start_and_it_stays_so():
    late = (*BASE, *held_since(PEAK, 2, EIGHT + 10, 2))
    made, _ = after(PEAK, (EIGHT - 1, BASE), (EIGHT + 20, late), (EIGHT + 600, late))
    assert status(made).state is ScheduleState.MISSED
    assert "10 s after the start" in status(made).message


def test_a_place_that_was_taken_just_before_the_start_was_there():
    """A replica preempted one placeholder, and the one that replaces it is pending."""
    all_held = (*BASE, *held_since(PEAK, 2, EIGHT - 100, 2))
    waits = holding(PEAK, 1, 3, node=None, created_at=EIGHT - 5, blocked="Unschedulable")
    made, state = after(PEAK, (EIGHT - 90, all_held), (EIGHT - 4, (*all_held[:3], *waits)))
    assert status(made).state is ScheduleState.WARMING
    assert re.search(r"; 3 \w.* at Mon 2026-03-30 07:58:20 Europe/Berlin \(UTC\+02:00\)\.$", status(made).message)
    made, _ = after(PEAK, (EIGHT + 1, (*all_held[:3], *waits)), state=state)
    assert status(made).state is ScheduleState.MET


def test_at_the_end_the_places_are_given_back_at_once():
    held = (*BASE, *held_since(PEAK, 2, EIGHT - 100, 2))
    made, state = after(PEAK, (NOON - 1, held))
    assert (wanted(made), removed(made)) == (4, [])
    made, _ = after(PEAK, (NOON, held), state=state)
    assert (wanted(made), removed(made)) == (2, ["it is surplus"] * 2)


def test_windows_that_overlap_and_the_number_of_all_times_do_not_add_up():
    pool = a_pool(wanted=3, schedules=(a_peak(2, name="small"), a_peak(5), a_peak(4, name="less")))
    made, _ = after(pool, (EIGHT + 60, held_since(pool, 3, EIGHT - 7200)))
    assert wanted(made) == 5


def test_an_operator_that_begins_inside_a_window_holds_its_places():
    """An empty memory errs towards keeping placeholders."""
    held = (*BASE, *held_since(PEAK, 2, EIGHT - 100, 2))
    made, _ = after(PEAK, (EIGHT + 3600, held), state=State.empty(EIGHT + 3600))
    assert (wanted(made), removed(made)) == (4, [])


def test_warming_that_has_begun_goes_on_under_another_operator():
    """The status tells when warming began, because the learned lead time may be lost."""
    before = PoolScheduleStatus(
        name="peak",
        state=ScheduleState.WARMING,
        start=rfc3339(EIGHT),
        warm_from=rfc3339(EIGHT - 900),
        placeholders=4,
    )
    pool = replace(PEAK, status=PoolStatus(schedules=(before,)))
    made, _ = after(pool, (EIGHT - 800, BASE), state=State.empty(EIGHT - 800))
    assert (wanted(made), status(made).warm_from) == (4, rfc3339(EIGHT - 900))


def test_asked_for_after_the_start_it_is_at_risk_until_all_are_held():
    made, state = after(PEAK, (EIGHT + 60, BASE), state=State.empty(EIGHT - 7200))
    assert status(made).state is ScheduleState.AT_RISK
    assert "after its start" in status(made).message
    made, _ = after(PEAK, (EIGHT + 120, (*BASE, *held_since(PEAK, 2, EIGHT + 100, 2))), state=state)
    assert status(made).state is ScheduleState.MET


@pytest.mark.parametrize(
    ("at", "pods", "world", "says"),
    [
        pytest.param(
            EIGHT - 500,
            BASE,
            {"nodes": (a_node(gpus=4),)},
            r"2 placeholders .* room for 1 ",
            id="the nodes are full, said before warming begins",
        ),
        pytest.param(
            WARM - 60,
            BASE,
            {"settings": Settings(max_gpus=4)},
            r"ceiling of 4 GPUs .* 3 of 4 placeholders",
            id="the ceiling is too low",
        ),
        pytest.param(
            EIGHT - 100,
            (*BASE, *holding(PEAK, 2, 2, node=None, created_at=EIGHT - 320, blocked="Unschedulable")),
            {},
            r"placeholder-\d .*no node since 2026-03-30T05:54:40Z",
            id="no node for half of the lead time",
        ),
        pytest.param(
            EIGHT - 100,
            (
                *BASE,
                *holding(PEAK, 2, 2, created_at=EIGHT - 150, blocked="ImagePull", blocked_message="No such image."),
            ),
            {},
            r"\(ImagePull\): No such image",
            id="the image cannot be pulled",
        ),
        pytest.param(EIGHT - 30, BASE, {}, "all will be ready at about", id="asked for too late"),
    ],
)
def test_a_window_at_risk_names_the_obstacle(at, pods, world, says):
    made, _ = after(PEAK, (at, pods), **world)
    assert status(made).state is ScheduleState.AT_RISK
    assert re.search(says, status(made).message)


def test_the_condition_names_a_future_risk_while_all_wanted_placeholders_are_ready():
    made, _ = after(PEAK, (EIGHT - 500, BASE), nodes=(a_node(gpus=4),))
    (warm,) = made.warm_pools[0].status.conditions
    assert (warm.status, warm.reason) == ("True", "ScheduleAtRisk")
    assert re.match(r'2 of 2 placeholders .*\. Schedule "peak": 4 placeholders from', warm.message)


def test_a_zone_that_nobody_knows_is_a_fault_of_its_own():
    pool = a_pool(schedules=(a_peak(4, time_zone="Europe/Atlantis"), a_peak(3, name="other")))
    made, _ = after(pool, (EIGHT, BASE))
    wrong, right = made.warm_pools[0].status.schedules
    assert (wrong.state, right.placeholders, wanted(made)) == (ScheduleState.AT_RISK, 3, 3)
    assert wrong.message.startswith('timeZone: "Europe/Atlantis"')


def test_starts_that_take_longer_than_assumed_are_learned_and_shorter_ones_are_not():
    """A start on a node that already has the image tells nothing about a node that has to pull it."""
    slow = holding(PEAK, 2, 2, created_at=EIGHT - 86000, scheduled_at=EIGHT - 86000, ready_since=EIGHT - 85500)
    state = State.empty(EIGHT - 90000)
    _, state = after(PEAK, (EIGHT - 80000, slow), state=state)
    assert state.pools[PEAK.uid].lead_times.of(WarmState.READY_NODE) == (500, 500)
    made, state = after(PEAK, (EIGHT - 70000, slow), state=state)
    assert status(made).warm_from == rfc3339(EIGHT - 530)
    next_leader, _ = after(
        replace(PEAK, status=made.warm_pools[0].status), (EIGHT - 69000, slow), state=State.empty(EIGHT - 69000)
    )
    assert status(next_leader).warm_from == rfc3339(EIGHT - 530), "the status tells another operator"
    quick = holding(PEAK, 32, 10, created_at=EIGHT - 60100, scheduled_at=EIGHT - 60100, ready_since=EIGHT - 60098)
    made, _ = after(PEAK, (EIGHT - 60000, (*slow, *quick)), (EIGHT - 50000, slow), state=state)
    assert status(made).warm_from == rfc3339(WARM)


def test_with_few_creations_a_minute_warming_begins_earlier():
    """6 more at 2 a minute, because half of 4 stay reserved for replicas: two more minutes."""
    pool = a_pool(schedules=(a_peak(8),))
    made, _ = after(pool, (EIGHT - 3600, BASE), settings=Settings(max_creates_per_minute=4), nodes=(a_node(gpus=16),))
    assert status(made).warm_from == rfc3339(WARM - 120)
