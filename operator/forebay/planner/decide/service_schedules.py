"""What the schedules of one service ask for. The status tells what a previous operator had already begun."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from math import inf

from forebay.api.inference_service import ScheduleSpec
from forebay.api.instants import rfc3339
from forebay.api.status import WindowStatus
from forebay.planner.observe.service_context import ServiceContext
from forebay.scaling.decision import Proposal
from forebay.scaling.replica_weights import ReplicaWeights
from forebay.schedules.schedule_floors import PlannedCapacity, StartPace, WindowFloor, schedule_floor, schedule_floor_of
from forebay.schedules.timetable import S, Timetable, timetable
from forebay.world.world import Revision, ServiceView


@dataclass(frozen=True, slots=True)
class ServiceSchedules:
    """What the schedules ask for, and the timetables to remember."""

    floors: tuple[Proposal, ...]
    """Floors of windows that are open or near."""
    window_floors: tuple[WindowFloor, ...]
    timetables: Mapping[str, Timetable[ScheduleSpec]]
    """By name of the schedule."""


def service_schedules_of(context: ServiceContext, target: Revision) -> ServiceSchedules:
    """`target` is the revision of the next replica."""
    service, memory, now = context.service, context.memory, context.now
    capacity = planned_capacity(service, context.replica_weights)
    creates, prospect = context.settings.max_creates_per_minute, context.prospect_above_min
    pace = StartPace(prospect.lead_seconds_for, creates, target.shape.pods)
    before = {schedule_status.name: schedule_status for schedule_status in (memory.status or service.status).schedules}
    timetables = timetables_of(context.spec.schedules, memory.timetables, before, now)
    window_floors = tuple(
        schedule_floor_of(current, capacity, pace, context.limits, now, warmed_from(current, before.get(name), now))
        for name, current in timetables.items()
    )
    return ServiceSchedules(_floors(window_floors, now), window_floors, timetables)


def _floors(window_floors: Iterable[WindowFloor], now: float) -> tuple[Proposal, ...]:
    return tuple(floor for window_floor in window_floors if (floor := schedule_floor(window_floor, now)))


def timetables_of(
    schedules: Iterable[S], known: Mapping[str, Timetable[S]], before: Mapping[str, WindowStatus], now: float
) -> dict[str, Timetable[S]]:
    """The timetables by name. A schedule that the status already reports was known before this operator started."""
    return {
        schedule.name: timetable(
            schedule, known.get(schedule.name), now, since=-inf if not known and schedule.name in before else now
        )
        for schedule in schedules
    }


def planned_capacity(service: ServiceView, replica_weights: ReplicaWeights) -> PlannedCapacity | None:
    """Capacity of one replica for the declared mix, according to the capacity plan."""
    carried, traffic = service.capacity_status, service.spec.traffic if service.spec else None
    if carried is None or traffic is None:
        return None
    return PlannedCapacity(
        float(carried.per_replica), float(traffic.prompt_tokens + traffic.output_tokens), replica_weights
    )


def warmed_from(current: Timetable[S], before: WindowStatus | None, now: float) -> float:
    """When warming for the next window began, according to the status, where it survives a restart."""
    if before is None or before.warm_from is None or current.next_start is None:
        return inf
    if before.start != rfc3339(current.next_start):
        return inf
    began = datetime.fromisoformat(before.warm_from).timestamp()
    return began if began <= now else inf
