"""Schedule floors: replicas that are there from the first minute of a window, whatever the load was before.

A floor counts from `warm_from`, which is so long before the start that the replicas it needs are ready by then, until
the window ends. It needs no load and no headroom: what is promised for a window is what the window gets.
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
"""Between deciding on a replica and its creation: a tick, the call, and what either may be late."""
CREATE_WINDOW_SECONDS: Final = 60.0
_WEEKDAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")

LeadTimes = Callable[[int], float]
"""Seconds within which all of so many new replicas serve, 19 times out of 20: for each of k replicas that is the
0.95^(1/k) quantile of its time from creation to ready."""


@dataclass(frozen=True, slots=True)
class PlannedCapacity:
    """What one replica carries within the promises, by the capacity plan: 60·(I + O)·u/s tokens per minute."""

    tokens_per_minute: float
    tokens_per_request: float
    """I + O of the mix that it was planned for."""
    weights: ReplicaWeights = EVEN
    """Of the replicas there are and that would be created, against the one that was planned."""


@dataclass(frozen=True, slots=True)
class Window:
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class StartPace:
    """How fast replicas come to serve."""

    lead_times: LeadTimes
    creates_per_minute: int = 1_000_000
    """Pods that the operator creates at most."""
    pods_per_replica: int = 1

    def warming_seconds(self, replicas: int) -> float:
        """How long before a start so many replicas have to be ordered."""
        rounds = max(0, replicas * self.pods_per_replica - 1) // max(1, self.creates_per_minute)
        return self.lead_times(replicas) + MARGIN_SECONDS + rounds * CREATE_WINDOW_SECONDS


@dataclass(frozen=True, slots=True)
class WindowFloor:
    """What one schedule asks for, as seen from one moment."""

    schedule: WindowSpec
    since: float
    """From when on the schedule has been known."""
    asked: str = ""
    """What is asked for, in words: `6 replicas`, or `6 replicas (50 requests per second)`."""
    fault: str = ""
    """Why it cannot be followed; empty when it can."""
    replicas: int = 0
    """What the floor comes to; 0 with a fault. Places, where the schedule is that of a WarmPool."""
    lead_seconds: float = 0.0
    """How long all of those take that may have to be created for it."""
    opened: Window | None = None
    coming: Window | None = None
    warm_from: float = inf
    """From when on the floor counts for the window that comes."""
    released_at: float | None = None
    """End of the last window, when it is over."""

    @property
    def window(self) -> Window | None:
        """The one that is open, else the next."""
        return self.opened or self.coming

    def counts(self, now: float) -> bool:
        return not self.fault and (self.opened is not None or now >= self.warm_from)


def schedule_floor_of(
    timetable: Timetable[ScheduleSpec],
    one: PlannedCapacity | None,
    pace: StartPace,
    limits: Limits,
    now: float,
    warmed_from: float = inf,
) -> WindowFloor:
    """Of a service. `warmed_from` is when warming for the next start began, if it has: a lead time that is learned to
    be shorter meanwhile does not undo it."""
    schedule = timetable.schedule
    replicas = replicas_for(schedule.floor, one)
    if timetable.fault or replicas is None:
        return WindowFloor(schedule, timetable.since, fault=timetable.fault or capacity_unknown(schedule.floor))
    created = min(replicas, limits.max_replicas) - limits.min_replicas
    return floor_of_window(timetable, replicas, asked_for(schedule.floor, replicas), created, pace, now, warmed_from)


def floor_of_window(
    timetable: Timetable[S], floor: int, asked: str, created: int, pace: StartPace, now: float, warmed_from: float = inf
) -> WindowFloor:
    """A floor that is known, and `created` of it that may have to be created first. There must be no fault."""
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


def replicas_for(floor: ScheduleFloor, one: PlannedCapacity | None) -> int | None:
    """⌈F·s/u⌉, without headroom; None for a rate while it is not known what a replica carries."""
    if floor.replicas is not None:
        return floor.replicas
    if one is None or one.tokens_per_minute <= 0:
        return None
    asked = float(floor.tokens_per_minute or 0.0)
    if floor.tokens_per_minute is None:
        asked = (floor.requests_per_second or 0.0) * 60 * one.tokens_per_request
    return max(1, one.weights.replicas_for(asked / one.tokens_per_minute))


def capacity_unknown(floor: ScheduleFloor) -> str:
    """Why a rate is not followed: what is missing, as a clause."""
    return _CAPACITY_UNKNOWN.format(_unit(floor))


def schedule_floor(found: WindowFloor, now: float) -> Proposal | None:
    """The floor of a window that is open, or that opens before its replicas could be ready if they were not ordered."""
    window = found.window
    if window is None or not found.counts(now):
        return None
    name, zone = found.schedule.name, found.schedule.time_zone
    asked = found.asked
    if found.opened is not None:
        because = f'schedule "{name}" keeps {asked} until {local_time(window.end, zone)}'
    else:
        because = (
            f'schedule "{name}" asks for {asked} by {local_time(window.start, zone)}, and new ones take up to '
            f"{seconds(found.lead_seconds)} to serve"
        )
    return Proposal(found.replicas, schedule_floor.__name__, because)


def asked_for(floor: ScheduleFloor, replicas: int) -> str:
    """`6 replicas`, or `6 replicas (50 requests per second)`."""
    text = count(replicas, "replica")
    if floor.requests_per_second is not None:
        return f"{text} ({number(floor.requests_per_second)} requests per second)"
    return f"{text} ({floor.tokens_per_minute:,} tokens per minute)" if floor.tokens_per_minute is not None else text


def local_time(at: float, zone: str) -> str:
    """With the offset, which tells the two occurrences of a repeated hour apart."""
    local = datetime.fromtimestamp(int(at), ZoneInfo(zone))
    offset = local.strftime("%z")
    clock = local.strftime("%Y-%m-%d %H:%M" if local.second == 0 else "%Y-%m-%d %H:%M:%S")
    return f"{_WEEKDAYS[local.weekday()]} {clock} {zone} (UTC{offset[:3]}:{offset[3:5]})"


def _window(start: float | None, schedule: WindowSpec) -> Window | None:
    return None if start is None else Window(start, start + schedule.duration.seconds)


def _unit(floor: ScheduleFloor) -> str:
    return "requestsPerSecond" if floor.requests_per_second is not None else "tokensPerMinute"


_CAPACITY_UNKNOWN: Final = (
    "floor.{} cannot be turned into replicas, since it is not known what one of them carries; give spec.traffic and "
    "what the capacity plan needs (gpu.product, and model.architecture for a model that is not in the catalogue), or "
    "ask for floor.replicas"
)
