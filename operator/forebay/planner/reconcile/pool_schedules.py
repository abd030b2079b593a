"""Schedules of a WarmPool: more places for windows of time, held by the start, or said before it why not.

The same windows as those of a service. What differs is what is warmed: a placeholder is there when its node is and the
engine's image has been pulled, and it is there to be used up, so one that a replica has displaced has not failed.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from forebay.api.warm_pool import PoolSchedule
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
    """Places that the ready nodes have room for, beside all that runs and all that is held."""

    def wanted(self, at_all_times: int, now: float) -> int:
        """The largest number counts."""
        return max((at_all_times, *(found.replicas for found in self.window_floors if found.counts(now))))


def pool_schedules_of(pool: WarmPoolView, fleet: FleetContext, memory: PoolMemory) -> tuple[PoolSchedules, PoolMemory]:
    """`pool.shape` must not be None."""
    pods = [pod for pod in fleet.placeholders.get(pool.uid, ()) if not pod.deleting and pod.phase not in ENDED]
    memory = _seen(memory, pods, fleet)
    if not pool.schedules:
        return PoolSchedules(), replace(memory, timetables={})
    before = {seen.name: seen for seen in pool.status.schedules}
    timetables = timetables_of(pool.schedules, memory.timetables, before, fleet.now)
    free = _free(pool, fleet)
    pace = _pace(pool, pods, free, memory.lead_times, fleet.world.settings)
    window_floors = tuple(
        _booking(found, pool.placeholders, pace, fleet.now, warmed_from(found, before.get(name), fleet.now))
        for name, found in timetables.items()
    )
    return PoolSchedules(window_floors, free), replace(memory, timetables=timetables)


def _booking(
    found: Timetable[PoolSchedule], at_all_times: int, pace: StartPace, now: float, warming_since: float
) -> WindowFloor:
    if found.fault:
        return WindowFloor(found.schedule, found.since, fault=found.fault)
    floor = found.schedule.placeholders
    return floor_of_window(found, floor, count(floor, "placeholder"), floor - at_all_times, pace, now, warming_since)


def _pace(
    pool: WarmPoolView, pods: Iterable[PodView], free: int, lead_times: LeadTimes, settings: Settings
) -> StartPace:
    """Never below the priors: a placeholder that found the image there says nothing of a node that has yet to pull it.

    Those that a schedule has had created already have taken their places, and count as places that there were.
    """
    there = tuple(pods)
    unplaced = [pod for pod in there if pod.node is None]
    room = 0 if any(pod.blocked for pod in unplaced) else max(0, free - len(unplaced))
    places = room + max(0, len(there) - len(unplaced) - pool.placeholders)
    priors, seen = Prospect(free_places=places), Prospect(lead_times, free_places=places)
    return StartPace(
        lambda number: max(priors.lead_seconds_for(number), seen.lead_seconds_for(number)),
        settings.max_creates_per_minute - settings.max_creates_per_minute // 2,
    )


def _seen(memory: PoolMemory, pods: Iterable[PodView], fleet: FleetContext) -> PoolMemory:
    """With the starts that are over. One that began before we watched may have been ready before, so it tells none."""
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
