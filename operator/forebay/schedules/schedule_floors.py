"""Schedule floors: replicas that serve from the first minute of a window, whatever the load was before.

A floor counts from `warm_from` until the window ends. `warm_from` is early enough for new replicas to be ready at the
start of the window. The floor does not depend on load and gets no headroom: a window gets exactly what it asks for.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from math import inf
from typing import Final
from zoneinfo import ZoneInfo

from forebay.api.spec.schedule_spec import ScheduleFloor, ScheduleSpec, WindowSpec
from forebay.scaling.decision import Proposal, count, number, seconds
from forebay.scaling.limits import Limits
from forebay.scaling.replica_weights import EVEN, ReplicaWeights
from forebay.schedules.timetable import S, Timetable

MARGIN_SECONDS: Final = 30.0
"""Time between the decision for a replica and its creation: a tick, the API call, and possible delays of both."""
CREATE_WINDOW_SECONDS: Final = 60.0
"""Interval of the limit on created pods."""
_WEEKDAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")

LeadTimes = Callable[[int], float]
"""Seconds within which all of k new replicas serve with a probability of 95 %: the 0.95^(1/k) quantile of the time from
creation to ready of one replica."""


@dataclass(frozen=True, slots=True)
class PlannedCapacity:
    """Capacity of one replica within the SLO, by the capacity plan: 60·(I + O)·u/s tokens per minute.

    I and O are the prompt and output tokens of a request, s its work in GPU-seconds, and u the GPU-seconds of work per
    second that one replica can serve.
    """

    tokens_per_minute: float
    tokens_per_request: float
    """I + O of the planned mix."""
    weights: ReplicaWeights = EVEN
    """Capacities of existing and new replicas, in replicas of the planned shape."""


@dataclass(frozen=True, slots=True)
class Window:
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class StartPace:
    """How fast new replicas can be created and become ready."""

    lead_times: LeadTimes
    creates_per_minute: int = 1_000_000
    """Limit on the pods that the operator creates per minute."""
    pods_per_replica: int = 1

    def warming_seconds(self, replicas: int) -> float:
        """Time before the start of a window at which so many replicas have to be created."""
        rounds = max(0, replicas * self.pods_per_replica - 1) // max(1, self.creates_per_minute)
        return self.lead_times(replicas) + MARGIN_SECONDS + rounds * CREATE_WINDOW_SECONDS


@dataclass(frozen=True, slots=True)
class WindowFloor:
    """The floor of one schedule and its windows at one moment."""

    schedule: WindowSpec
    since: float
    """Time since which this version of the schedule is known."""
    asked: str = ""
    """The floor in words: `6 replicas`, or `6 replicas (50 requests per second)`."""
    fault: str = ""
    """Why the schedule cannot be followed; empty when it can."""
    replicas: int = 0
    """The floor in replicas, or in placeholders for a schedule of a WarmPool; 0 with a fault."""
    lead_seconds: float = 0.0
    """Lead time of all replicas that may have to be created for the floor."""
    opened: Window | None = None
    """The window that is open now."""
    coming: Window | None = None
    """The next window."""
    warm_from: float = inf
    """Time from which the floor counts for the next window."""
    released_at: float | None = None
    """End of the last window; None while a window is open."""

    @property
    def window(self) -> Window | None:
        """The open window, or the next one when none is open."""
        return self.opened or self.coming

    def counts(self, now: float) -> bool:
        return not self.fault and (self.opened is not None or now >= self.warm_from)


def schedule_floor_of(
    timetable: Timetable[ScheduleSpec],
    capacity: PlannedCapacity | None,
    pace: StartPace,
    limits: Limits,
    now: float,
    warmed_from: float = inf,
) -> WindowFloor:
    """The floor of one schedule of a service.

    `warmed_from` is when warming for the next window began, if it has begun. It does not stop again when a shorter lead
    time is learned meanwhile.
    """
    schedule = timetable.schedule
    replicas = replicas_for(schedule.floor, capacity)
    if timetable.fault or replicas is None:
        return WindowFloor(schedule, timetable.since, fault=timetable.fault or capacity_unknown(schedule.floor))
    created = min(replicas, limits.max_replicas) - limits.min_replicas
    return floor_of_window(timetable, replicas, asked_for(schedule.floor, replicas), created, pace, now, warmed_from)


def floor_of_window(
    timetable: Timetable[S], floor: int, asked: str, created: int, pace: StartPace, now: float, warmed_from: float = inf
) -> WindowFloor:
    """The floor of a schedule without a fault. `created` is the number of replicas that may have to be created."""
    schedule = timetable.schedule
    last, coming = (_window(start, schedule) for start in (timetable.last_start, timetable.next_start))
    new = max(1, created)
    warm_from = coming.start - pace.warming_seconds(new) if coming else inf
    is_open = last is not None and now < last.end
    return WindowFloor(
        schedule=schedule,
        since=timetable.since,
        asked=asked,
        replicas=floor,
        lead_seconds=pace.lead_times(new),
        opened=last if is_open else None,
        coming=coming,
        warm_from=min(warm_from, warmed_from),
        released_at=last.end if last is not None and not is_open else None,
    )


def replicas_for(floor: ScheduleFloor, capacity: PlannedCapacity | None) -> int | None:
    """⌈F·s/u⌉ replicas for F requests per second, without headroom.

    None for a rate while the capacity of a replica is unknown.
    """
    if floor.replicas is not None:
        return floor.replicas
    if capacity is None or capacity.tokens_per_minute <= 0:
        return None
    tokens_per_minute = float(floor.tokens_per_minute or 0.0)
    if floor.tokens_per_minute is None:
        tokens_per_minute = (floor.requests_per_second or 0.0) * 60 * capacity.tokens_per_request
    return max(1, capacity.weights.replicas_for(tokens_per_minute / capacity.tokens_per_minute))


def capacity_unknown(floor: ScheduleFloor) -> str:
    """Why a floor that is given as a rate cannot be followed, and what is missing, as a clause."""
    return _CAPACITY_UNKNOWN.format(_unit(floor))


def schedule_floor(window_floor: WindowFloor, now: float) -> Proposal | None:
    """The floor as a proposal, if its window is open or its replicas have to be created now to be ready in time."""
    window = window_floor.window
    if window is None or not window_floor.counts(now):
        return None
    name, zone = window_floor.schedule.name, window_floor.schedule.time_zone
    asked = window_floor.asked
    if window_floor.opened is not None:
        because = f'schedule "{name}" keeps {asked} until {local_time(window.end, zone)}'
    else:
        because = (
            f'schedule "{name}" asks for {asked} by {local_time(window.start, zone)}, and new ones take up to '
            f"{seconds(window_floor.lead_seconds)} to serve"
        )
    return Proposal(window_floor.replicas, schedule_floor.__name__, because)


def asked_for(floor: ScheduleFloor, replicas: int) -> str:
    """`6 replicas`, or `6 replicas (50 requests per second)`."""
    text = count(replicas, "replica")
    if floor.requests_per_second is not None:
        return f"{text} ({number(floor.requests_per_second)} requests per second)"
    return f"{text} ({floor.tokens_per_minute:,} tokens per minute)" if floor.tokens_per_minute is not None else text


def local_time(at: float, zone: str) -> str:
    """Local time with its UTC offset, which distinguishes the two occurrences of a repeated hour."""
    local = datetime.fromtimestamp(int(at), ZoneInfo(zone))
    offset = local.strftime("%z")
    clock = local.strftime("%Y-%m-%d %H:%M" if local.second == 0 else "%Y-%m-%d %H:%M:%S")
    return f"{_WEEKDAYS[local.weekday()]} {clock} {zone} (UTC{offset[:3]}:{offset[3:5]})"


def _window(start: float | None, schedule: WindowSpec) -> Window | None:
    return None if start is None else Window(start, start + schedule.duration.seconds)


def _unit(floor: ScheduleFloor) -> str:
    return "requestsPerSecond" if floor.requests_per_second is not None else "tokensPerMinute"


_CAPACITY_UNKNOWN: Final = (
    "floor.{} cannot be converted to replicas, because the capacity of a replica is unknown; set spec.traffic and what "
    "the capacity plan needs (gpu.product, and model.architecture for a model that is not in the catalogue), or use "
    "floor.replicas"
)
