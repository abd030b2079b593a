"""What the schedules of a manifest ask for: how many replicas, from when on, and whether the service's bounds let it.

The same windows and the same replica count as the operator's, so what is shown is what will be done. What only a
running service can tell is assumed and said so: the lead time is the one of a ready node until starts have been seen.
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
NEVER = "no window ahead"


@dataclass(frozen=True, slots=True)
class PlannedSchedule:
    """One schedule, as seen from one moment."""

    namespace: str
    service: str
    window_floor: WindowFloor
    floor: ScheduleFloor
    max_replicas: int
    warm_replicas: int
    gpus_per_replica: int | None
    """None while the service cannot be sized."""
    planned_gpus: int | None
    """Of the plan for its peak; None without traffic."""

    @property
    def name(self) -> str:
        return self.window_floor.schedule.name

    @property
    def replicas(self) -> int | None:
        return None if self.window_floor.fault else self.window_floor.replicas

    @property
    def gpus(self) -> int | None:
        """What the floor takes, warm replicas apart."""
        if self.replicas is None or self.gpus_per_replica is None:
            return None
        return self.replicas * self.gpus_per_replica

    @property
    def enough(self) -> bool | None:
        """Whether scaling.maxReplicas lets the floor; None while it is not known how many replicas it is."""
        return None if self.replicas is None else self.replicas <= self.max_replicas

    @property
    def says(self) -> str:
        """About its bounds, in a sentence."""
        if self.replicas is None:
            return f"{self.window_floor.fault}."
        if self.replicas > self.max_replicas:
            return (
                f"scaling.maxReplicas {self.max_replicas} cuts it, {self.replicas - self.max_replicas} short; raise it "
                "or lower the floor."
            )
        said = f"scaling.maxReplicas {self.max_replicas} is enough"
        left = self.max_replicas - self.replicas
        if left < self.warm_replicas:
            said += f", with room for {left} of {count(self.warm_replicas, 'warm replica')}"
        if self.gpus is not None and self.planned_gpus is not None and self.gpus > self.planned_gpus:
            more = count(self.gpus - self.planned_gpus, "GPU")
            said += f"; it takes {more} more than the {self.planned_gpus} that are planned for the traffic"
        return f"{said}."


Schedules = Mapping[tuple[str, str], Sequence[PlannedSchedule]]
"""By namespace and name of the service."""


def planned_schedules(plans: Iterable[ServiceCapacityPlan], now: float) -> Schedules:
    return {(plan.namespace, plan.name): tuple(_of(plan, now)) for plan in plans}


def _of(plan: ServiceCapacityPlan, now: float) -> Iterator[PlannedSchedule]:
    limits, pace = (
        Limits.of(plan.spec),
        StartPace(Prospect(free_places=plan.spec.scaling.max_replicas).lead_seconds_for),
    )
    sized = plan.plan
    for schedule in plan.spec.schedules:
        found = timetable(schedule, None, now, since=now)
        yield PlannedSchedule(
            namespace=plan.namespace,
            service=plan.name,
            window_floor=schedule_floor_of(found, _one(plan), pace, limits, now),
            floor=schedule.floor,
            max_replicas=limits.max_replicas,
            warm_replicas=limits.warm_replicas,
            gpus_per_replica=sized.replica.sizes.gpus if sized else None,
            planned_gpus=sized.fleet.gpus if sized and sized.fleet else None,
        )


def _one(plan: ServiceCapacityPlan) -> PlannedCapacity | None:
    throughput = plan.plan.throughput if plan.plan else None
    traffic = plan.spec.traffic
    if throughput is None or traffic is None:
        return None
    return PlannedCapacity(
        float(round(throughput.tokens_per_minute)), float(traffic.prompt_tokens + traffic.output_tokens)
    )


def row(found: PlannedSchedule) -> tuple[str, ...]:
    """Of the table of all schedules; unknown is shown as `?`."""
    window_floor, zone = found.window_floor, found.window_floor.schedule.time_zone
    window = window_floor.window
    opens, warming = (UNKNOWN, UNKNOWN) if window_floor.fault else (NEVER, "-")
    if window is not None:
        opens = local_time(window.start, zone)
        warming = "open now" if window_floor.opened else local_time(window_floor.warm_from, zone)
    return (
        f"{found.namespace}/{found.service} {found.name}",
        asked(found.floor),
        UNKNOWN if found.replicas is None else f"{found.replicas:,}",
        UNKNOWN if found.gpus is None else f"{found.gpus:,}",
        opens,
        warming,
        f"{found.max_replicas:,}" + ("" if found.enough is None else ": enough" if found.enough else ": too low"),
    )


def asked(floor: ScheduleFloor) -> str:
    """The floor in the unit in which it was given."""
    if floor.requests_per_second is not None:
        return f"{number(floor.requests_per_second)} requests/s"
    if floor.tokens_per_minute is not None:
        return f"{floor.tokens_per_minute:,} TPM"
    return count(floor.replicas or 0, "replica")


def remarks(found: Sequence[PlannedSchedule]) -> Iterator[str]:
    """What the table does not say: every bound that is not simply enough, and what the times rest on."""
    for one in found:
        if one.says != f"scaling.maxReplicas {one.max_replicas} is enough.":
            yield f"{one.namespace}/{one.service} {one.name}: {one.says}"
    leads = sorted({round(one.window_floor.lead_seconds) for one in found if not one.window_floor.fault})
    if leads:
        yield (
            f"Warming begins {leads[0]} s + 30 s before a start: the lead time that is assumed until the service's own "
            "starts have been seen."
        )


def document(found: PlannedSchedule) -> dict[str, object]:
    """As JSON. Of a window that is open, `start` is in the past."""
    window_floor, window = found.window_floor, found.window_floor.window
    return {
        "name": found.name,
        "floor": found.floor.wire(),
        "replicas": found.replicas,
        "gpus": found.gpus,
        "start": None if window is None else rfc3339(window.start),
        "end": None if window is None else rfc3339(window.end),
        "warmFrom": None if window is None or window_floor.opened is not None else rfc3339(window_floor.warm_from),
        "leadSeconds": None if window_floor.fault else window_floor.lead_seconds,
        "maxReplicas": found.max_replicas,
        "enough": found.enough,
        "message": found.says,
    }
