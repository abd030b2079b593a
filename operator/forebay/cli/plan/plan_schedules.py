"""What the schedules of a manifest ask for: replicas, times, and whether the service's bounds allow them.

Windows and replica counts come from the code that the operator runs, so the plan shows what the operator will do. What
only a running service can measure is assumed, and the remarks say so: the lead time is that of a start on a ready node.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from forebay.api.instants import rfc3339
from forebay.api.spec.schedule_spec import ScheduleFloor
from forebay.capacity.plan.service_plan import ServiceCapacityPlan
from forebay.cli.plan.plan_format import UNKNOWN, count
from forebay.scaling.decision import number
from forebay.scaling.learning.lead_time import Prospect
from forebay.scaling.limits import Limits
from forebay.schedules.schedule_floors import PlannedCapacity, StartPace, WindowFloor, local_time, schedule_floor_of
from forebay.schedules.timetable import timetable

COLUMNS = ("SCHEDULE", "FLOOR", "REPLICAS", "GPUS", "OPENS", "WARMING FROM", "MAXREPLICAS")
NO_WINDOW = "no upcoming window"


@dataclass(frozen=True, slots=True)
class PlannedSchedule:
    """One schedule with its next or open window."""

    namespace: str
    service: str
    window_floor: WindowFloor
    floor: ScheduleFloor
    max_replicas: int
    warm_replicas: int
    gpus_per_replica: int | None
    """None while the service cannot be sized."""
    planned_gpus: int | None
    """GPUs that the plan needs for the service's peak; None without traffic."""

    @property
    def name(self) -> str:
        return self.window_floor.schedule.name

    @property
    def replicas(self) -> int | None:
        return None if self.window_floor.fault else self.window_floor.replicas

    @property
    def gpus(self) -> int | None:
        """GPUs that the floor needs, without warm replicas."""
        if self.replicas is None or self.gpus_per_replica is None:
            return None
        return self.replicas * self.gpus_per_replica

    @property
    def enough(self) -> bool | None:
        """Whether scaling.maxReplicas allows the floor; None while its number of replicas is unknown."""
        return None if self.replicas is None else self.replicas <= self.max_replicas

    @property
    def message(self) -> str:
        """A sentence on whether the service's bounds allow the floor."""
        if self.replicas is None:
            return f"{self.window_floor.fault}."
        if self.replicas > self.max_replicas:
            cut = self.replicas - self.max_replicas
            return f"scaling.maxReplicas {self.max_replicas} cuts the floor by {cut}; raise it or lower the floor."
        text = f"scaling.maxReplicas {self.max_replicas} is enough"
        left = self.max_replicas - self.replicas
        if left < self.warm_replicas:
            text += f", which leaves {left} for {count(self.warm_replicas, 'warm replica')}"
        if self.gpus is not None and self.planned_gpus is not None and self.gpus > self.planned_gpus:
            more = count(self.gpus - self.planned_gpus, "GPU")
            text += f"; the floor needs {more} more than the {self.planned_gpus} planned for the traffic"
        return f"{text}."


Schedules = Mapping[tuple[str, str], Sequence[PlannedSchedule]]
"""By namespace and name of the service."""


def planned_schedules(plans: Iterable[ServiceCapacityPlan], now: float) -> Schedules:
    """The schedules of every service at `now`, in unix seconds."""
    return {(plan.namespace, plan.name): tuple(_of(plan, now)) for plan in plans}


def _of(plan: ServiceCapacityPlan, now: float) -> Iterator[PlannedSchedule]:
    limits = Limits.of(plan.spec)
    pace = StartPace(Prospect(free_places=plan.spec.scaling.max_replicas).lead_seconds_for)
    sized = plan.plan
    for schedule in plan.spec.schedules:
        windows = timetable(schedule, None, now, since=now)
        yield PlannedSchedule(
            namespace=plan.namespace,
            service=plan.name,
            window_floor=schedule_floor_of(windows, _planned_capacity(plan), pace, limits, now),
            floor=schedule.floor,
            max_replicas=limits.max_replicas,
            warm_replicas=limits.warm_replicas,
            gpus_per_replica=sized.replica.sizes.gpus if sized else None,
            planned_gpus=sized.fleet.gpus if sized and sized.fleet else None,
        )


def _planned_capacity(plan: ServiceCapacityPlan) -> PlannedCapacity | None:
    throughput = plan.plan.throughput if plan.plan else None
    traffic = plan.spec.traffic
    if throughput is None or traffic is None:
        return None
    return PlannedCapacity(
        float(round(throughput.tokens_per_minute)), float(traffic.prompt_tokens + traffic.output_tokens)
    )


def row(planned: PlannedSchedule) -> tuple[str, ...]:
    """The row of one schedule; an unknown value is shown as `?`."""
    window_floor, zone = planned.window_floor, planned.window_floor.schedule.time_zone
    window = window_floor.window
    opens, warming = (UNKNOWN, UNKNOWN) if window_floor.fault else (NO_WINDOW, "-")
    if window is not None:
        opens = local_time(window.start, zone)
        warming = "open now" if window_floor.opened else local_time(window_floor.warm_from, zone)
    return (
        f"{planned.namespace}/{planned.service} {planned.name}",
        floor_text(planned.floor),
        UNKNOWN if planned.replicas is None else f"{planned.replicas:,}",
        UNKNOWN if planned.gpus is None else f"{planned.gpus:,}",
        opens,
        warming,
        f"{planned.max_replicas:,}" + ("" if planned.enough is None else ": enough" if planned.enough else ": too low"),
    )


def floor_text(floor: ScheduleFloor) -> str:
    """The floor in the unit of the manifest."""
    if floor.requests_per_second is not None:
        return f"{number(floor.requests_per_second)} requests/s"
    if floor.tokens_per_minute is not None:
        return f"{floor.tokens_per_minute:,} TPM"
    return count(floor.replicas or 0, "replica")


def remarks(schedules: Sequence[PlannedSchedule]) -> Iterator[str]:
    """What the table cannot show: bounds that are too low or only just enough, and the assumed lead time."""
    for schedule in schedules:
        if schedule.message != f"scaling.maxReplicas {schedule.max_replicas} is enough.":
            yield f"{schedule.namespace}/{schedule.service} {schedule.name}: {schedule.message}"
    leads = sorted(
        {round(schedule.window_floor.lead_seconds) for schedule in schedules if not schedule.window_floor.fault}
    )
    if leads:
        yield (
            f"Warming begins {leads[0]} s + 30 s before a window opens: the lead time assumed until the service's own "
            "starts have been measured."
        )


def document(planned: PlannedSchedule) -> dict[str, object]:
    """One schedule as JSON. An open window has a `start` in the past."""
    window_floor, window = planned.window_floor, planned.window_floor.window
    return {
        "name": planned.name,
        "floor": planned.floor.wire(),
        "replicas": planned.replicas,
        "gpus": planned.gpus,
        "start": None if window is None else rfc3339(window.start),
        "end": None if window is None else rfc3339(window.end),
        "warmFrom": None if window is None or window_floor.opened is not None else rfc3339(window_floor.warm_from),
        "leadSeconds": None if window_floor.fault else window_floor.lead_seconds,
        "maxReplicas": planned.max_replicas,
        "enough": planned.enough,
        "message": planned.message,
    }
