"""Schedules of a WarmPool: more places for windows of time, held by the start, or said before it why not.

The same windows as those of a service. What differs is what is warmed: a placeholder is there when its node is and the
engine's image has been pulled, and it is there to be used up, so one that a replica has displaced has not failed.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Final

from forebay.api.instants import rfc3339
from forebay.api.spec.schedule_spec import ScheduleState
from forebay.api.warm_pool import PoolSchedule, PoolScheduleStatus
from forebay.planner.decide.service_schedules import timetables_of, warmed_from
from forebay.planner.memory import PoolMemory
from forebay.planner.observe.fleet_context import FleetContext
from forebay.planner.observe.free_gpus import looks_ahead
from forebay.planner.observe.placement import free_gpus, gpus_by_node, replicas_within
from forebay.planner.reconcile.placeholders import ENDED, PlaceholderShare, WantedPlaceholders, placeholder_counts_of
from forebay.scaling.decision import count
from forebay.scaling.learning.lead_time import LeadTimes, Prospect, Start, WarmState, learn
from forebay.schedules.schedule_floors import StartPace, WindowFloor, floor_of_window
from forebay.schedules.timetable import Timetable
from forebay.schedules.window_state import NODE_SHARE, Coming, WindowCase, not_in_time, window_status_of
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


@dataclass(frozen=True, slots=True)
class PoolCase(WindowCase):
    """One schedule of a pool with a window that is open or ahead."""

    waiting: tuple[PodView, ...]
    """Placeholders that do not hold a place yet."""
    free: int
    """Places that the ready nodes have room for, beside all that runs and all that is held."""
    under_ceiling: int | None
    """Placeholders that the operator's ceiling of GPUs leaves this pool; None without one."""
    settings: Settings
    held: str
    """Why placeholders are not created just now, as a clause."""
    near: bool
    """Whether the window is so near that its places on the nodes are looked for."""

    @property
    def to_place(self) -> int:
        """Placeholders that still have to find a node."""
        placed = sum(pod.node is not None for pod in self.waiting)
        return max(0, self.missing - placed)


Check = Callable[[PoolCase], str | None]


def placeholder_stuck(case: PoolCase) -> str | None:
    """One that has waited for a node for half of the lead time, or whose image cannot be pulled."""
    if not case.counts or not case.missing:
        return None
    patience = case.window_floor.lead_seconds * NODE_SHARE
    for pod in case.waiting:
        detail = f": {pod.blocked_message.rstrip('.')}" if pod.blocked_message else ""
        if pod.node is None and case.now - pod.created_at >= patience:
            return f"{pod.name} finds no node since {rfc3339(pod.created_at)}{detail}"
        if pod.node is not None and pod.blocked:
            return f"{pod.name} does not start ({pod.blocked}){detail}"
    return None


def held_back(case: PoolCase) -> str | None:
    return case.held or None if case.counts and case.missing else None


def ceiling_too_low(case: PoolCase) -> str | None:
    if not case.near or case.under_ceiling is None or case.window_floor.replicas <= case.under_ceiling:
        return None
    return (
        f"the operator's ceiling of {case.settings.max_gpus} GPUs leaves {case.under_ceiling} of "
        f"{count(case.window_floor.replicas, 'placeholder')}"
    )


def nodes_too_full(case: PoolCase) -> str | None:
    if not case.near or case.to_place <= case.free:
        return None
    return (
        f"{count(case.to_place, 'placeholder')} {'has' if case.to_place == 1 else 'have'} still to be placed, and the "
        f"nodes that match have room for {case.free} (Forebay's own pods are counted, neither those of others nor "
        "nodes that an autoscaler may add)"
    )


HINDRANCES: Final[tuple[Check, ...]] = (
    placeholder_stuck,
    held_back,
    ceiling_too_low,
    nodes_too_full,
    not_in_time,
)


def pool_schedule_statuses(
    calendar: PoolSchedules,
    pool: WarmPoolView,
    hold: WantedPlaceholders,
    share: PlaceholderShare,
    under_ceiling: int | None,
    fleet: FleetContext,
) -> tuple[PoolScheduleStatus, ...]:
    known = {seen.name: seen for seen in pool.status.schedules}
    found = placeholder_counts_of(hold)
    ready = tuple(sorted(pod.ready_since or pod.created_at for pod in found.holding))

    def told(window_floor: WindowFloor) -> PoolScheduleStatus:
        name, window = window_floor.schedule.name, window_floor.window
        if window_floor.fault:
            return PoolScheduleStatus(name=name, state=ScheduleState.AT_RISK, message=f"{window_floor.fault}.")
        if window is None:
            ended = "No window is ahead."
            return PoolScheduleStatus(
                name=name, state=ScheduleState.IDLE, message=ended, placeholders=window_floor.replicas
            )
        start, before = rfc3339(window.start), known.get(name)
        same = before is not None and before.start == start and before.placeholders == window_floor.replicas
        case = PoolCase(
            window_floor=window_floor,
            window=window,
            now=fleet.now,
            before=before if same else None,
            ready_times=ready,
            coming=tuple(Coming(pod.name, pod.created_at) for pod in found.waiting),
            verb="hold a place",
            given_away=True,
            waiting=found.waiting,
            free=calendar.free,
            under_ceiling=under_ceiling,
            settings=fleet.world.settings,
            held=share.held,
            near=looks_ahead(window_floor, fleet.now),
        )
        why = next((said for check in HINDRANCES if (said := check(case))), "")
        return PoolScheduleStatus(**dict(window_status_of(case, why)), placeholders=window_floor.replicas)

    return tuple(told(window_floor) for window_floor in calendar.window_floors)
