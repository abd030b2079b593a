"""Schedules of a WarmPool: more placeholders during time windows, ready when the window opens.

The windows are the same as those of a service. Only what is warmed differs: a placeholder is ready when it has a node
and the engine's image is pulled. It exists to be preempted, so a preempted one has not failed.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from forebay.api.warm_pool import PoolSchedule, PoolStarts, PoolStatus
from forebay.planner.decide.service_schedules import timetables_of, warmed_from
from forebay.planner.memory import PoolMemory
from forebay.planner.observe.fleet_context import FleetContext
from forebay.planner.observe.placement import free_gpus, gpus_by_node, replicas_within
from forebay.planner.reconcile.placeholders import ENDED
from forebay.scaling.decision import count
from forebay.scaling.learning.lead_time import LeadTimes, Prospect, Start, WarmState, learn
from forebay.schedules.schedule_floors import StartPace, WindowFloor, floor_of_window
from forebay.schedules.timetable import Timetable
from forebay.world.settings import Settings
from forebay.world.world import PodView, WarmPoolView


@dataclass(frozen=True, slots=True)
class PoolSchedules:
    """What the schedules of one pool ask for."""

    window_floors: tuple[WindowFloor, ...] = ()
    free: int = 0
    """Places for which the ready nodes have free GPUs, besides all running pods and held places."""

    def wanted(self, at_all_times: int, now: float) -> int:
        """The number of wanted placeholders: the largest of the pool's constant number and of its counting windows."""
        return max((at_all_times, *(floor.replicas for floor in self.window_floors if floor.counts(now))))


def pool_schedules_of(pool: WarmPoolView, fleet: FleetContext, memory: PoolMemory) -> tuple[PoolSchedules, PoolMemory]:
    """The pool's schedules, and its memory after this tick's starts. `pool.shape` must not be None."""
    pods = [pod for pod in fleet.placeholders.get(pool.uid, ()) if not pod.deleting and pod.phase not in ENDED]
    memory = _with_starts(memory, pods, fleet)
    if not pool.schedules:
        return PoolSchedules(), replace(memory, timetables={})
    before = {status.name: status for status in pool.status.schedules}
    timetables = timetables_of(pool.schedules, memory.timetables, before, fleet.now)
    free = _free(pool, fleet)
    pace = _pace(pool, pods, free, memory.lead_times, fleet.world.settings)
    window_floors = tuple(
        _window_floor(
            timetable, pool.placeholders, pace, fleet.now, warmed_from(timetable, before.get(name), fleet.now)
        )
        for name, timetable in timetables.items()
    )
    return PoolSchedules(window_floors, free), replace(memory, timetables=timetables)


def _window_floor(
    timetable: Timetable[PoolSchedule], at_all_times: int, pace: StartPace, now: float, warming_since: float
) -> WindowFloor:
    if timetable.fault:
        return WindowFloor(timetable.schedule, timetable.since, fault=timetable.fault)
    floor = timetable.schedule.placeholders
    return floor_of_window(
        timetable, floor, count(floor, "placeholder"), floor - at_all_times, pace, now, warming_since
    )


def _pace(
    pool: WarmPoolView, pods: Iterable[PodView], free: int, lead_times: LeadTimes, settings: Settings
) -> StartPace:
    """How fast placeholders start. Lead times are never below the priors, because a start on a node that already had
    the image tells nothing about a node that has to pull it.

    Placeholders that a schedule has already had created have taken their places; those places still count as free.
    """
    existing = tuple(pods)
    unplaced = [pod for pod in existing if pod.node is None]
    room = 0 if any(pod.blocked for pod in unplaced) else max(0, free - len(unplaced))
    places = room + max(0, len(existing) - len(unplaced) - pool.placeholders)
    priors, measured = Prospect(free_places=places), Prospect(lead_times, free_places=places)
    return StartPace(
        lambda number: max(priors.lead_seconds_for(number), measured.lead_seconds_for(number)),
        settings.max_creates_per_minute - settings.max_creates_per_minute // 2,
    )


def recalled_lead_times(status: PoolStatus) -> LeadTimes:
    """The lead times that the previous operator measured."""
    starts = status.starts or PoolStarts()
    times = {WarmState.READY_NODE: starts.ready_node, WarmState.NEW_NODE: starts.new_node}
    return LeadTimes({state: seconds for state, seconds in times.items() if seconds})


def stored_lead_times(lead_times: LeadTimes) -> PoolStarts | None:
    """The lead times as the status holds them; None before the first start."""
    if not lead_times.starts:
        return None
    return PoolStarts(ready_node=lead_times.of(WarmState.READY_NODE), new_node=lead_times.of(WarmState.NEW_NODE))


def _with_starts(memory: PoolMemory, pods: Iterable[PodView], fleet: FleetContext) -> PoolMemory:
    """The memory with the starts that have ended. A placeholder created before this operator led may have been ready
    before, so its start is not counted."""
    starts = {
        pod.uid: start for pod in pods if pod.created_at >= fleet.watching_since and (start := _start(pod, fleet))
    }
    return replace(
        memory,
        lead_times=learn(memory.lead_times, (start for uid, start in starts.items() if uid not in memory.counted)),
        counted=frozenset(starts),
    )


def _start(pod: PodView, fleet: FleetContext) -> Start | None:
    node = None if pod.node is None else fleet.nodes.get(pod.node)
    if node is None or pod.ready_since is None or pod.restarts or pod.ready_since < pod.created_at:
        return None
    state = WarmState.NEW_NODE if node.created_at > pod.created_at else WarmState.READY_NODE
    return Start(pod.created_at, pod.scheduled_at, pod.ready_since, state)


def _free(pool: WarmPoolView, fleet: FleetContext) -> int:
    assert pool.shape is not None
    staying = (
        pod for pod in fleet.world.pods if not pod.deleting and pod.drain_started_at is None and pod.phase not in ENDED
    )
    nodes = (node for node in fleet.world.nodes if node.name not in fleet.lost_nodes)
    return replicas_within(pool.shape, free_gpus(pool.shape, nodes, gpus_by_node(staying)))
