"""Load window: the highest load in every part of the last scaleDownCooldown.

Scaling down requires that fewer replicas would have been enough at *every* moment of the window, so the load must have
been known throughout. The window is stored as a fixed number of parts, each with its maxima.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from forebay.scaling.decision import Proposal
from forebay.scaling.limits import Limits
from forebay.scaling.load.service_load import ServiceLoad

PARTS: Final = 20
LONG_SECONDS: Final = 1800.0
"""The replica count that the work asked for is also kept for this longer time, for which a smaller margin is enough."""
SHORTEST_PART_SECONDS: Final = 1.0
OVERLOAD_COOLDOWNS: Final = 6
"""A load that made requests late is remembered for this many cooldowns: 30 minutes at the default of 300 s."""
MOST_OVERLOADS: Final = 12
LONGEST_GAP_SECONDS: Final = 60.0
"""A longer time without an observation is a gap, such as an API server outage or a spec that could not be read."""


@dataclass(frozen=True, slots=True)
class WindowPart:
    """The highest values in one part of the window, over all replicas together."""

    since: float
    waiting_requests: float
    running_requests: float
    kv_total: float
    """KV use, in full KV caches of one replica."""
    late: str = ""
    """The latency that was above its limit, or within the headroom below it."""
    replicas: float | None = None
    """Replicas that the work asked for, before rounding; None while that is unknown."""


@dataclass(frozen=True, slots=True)
class Overload:
    """A load at which a latency exceeded its limit."""

    at: float
    running_per_replica: float
    """Running requests per replica of the service's own shape."""
    rule: str


@dataclass(frozen=True, slots=True)
class LoadWindow:
    since: float | None = None
    """Time since which the load of every serving replica is known without a gap; None while one is unknown."""
    updated_at: float = 0.0
    parts: tuple[WindowPart, ...] = ()
    overloads: tuple[Overload, ...] = ()
    work_since: float | None = None
    """Time since which the number of replicas that the work asks for is known without a gap."""
    long: tuple[tuple[float, float], ...] = ()
    """(start, most replicas that the work asked for) of each part of the last half hour, oldest first."""

    def most_replicas(self, window_seconds: float, now: float) -> float | None:
        """Most replicas that the work asked for in the window (scaleDownCooldown); None when not always known."""
        if not self.work_known_for(window_seconds, now):
            return None
        return max((part.replicas for part in self.parts if part.replicas is not None), default=None)

    def most_replicas_long(self, now: float) -> float | None:
        """Most replicas that the work asked for in the last half hour; None when it was not always known."""
        if not self.work_known_for(LONG_SECONDS, now):
            return None
        return max((replicas for _, replicas in self.long), default=None)

    def work_known_for(self, window_seconds: float, now: float) -> bool:
        return self.work_since is not None and now - self.work_since >= window_seconds

    def covers(self, window_seconds: float, now: float) -> bool:
        return self.since is not None and now - self.since >= window_seconds

    @property
    def waiting_requests(self) -> float:
        return max((part.waiting_requests for part in self.parts), default=0.0)

    @property
    def running_requests(self) -> float:
        return max((part.running_requests for part in self.parts), default=0.0)

    @property
    def in_flight(self) -> float:
        return max((part.waiting_requests + part.running_requests for part in self.parts), default=0.0)

    @property
    def kv_total(self) -> float:
        return max((part.kv_total for part in self.parts), default=0.0)


LatencyCheck = Callable[[ServiceLoad, Limits], Proposal | None]
"""Returns the latency that exceeds its limit, if any: `guards.late`."""


def update_load_window(
    load_window: LoadWindow,
    load: ServiceLoad,
    limits: Limits,
    now: float,
    late: LatencyCheck,
    replicas: float | None = None,
) -> LoadWindow:
    """The window with one more observation of the load.

    A replica without fresh metrics clears the window. While only new replicas give no metrics yet, the window stays.
    `replicas` is the count that the work asks for, before rounding; None while it is unknown.
    """
    if load.replicas == 0 or any(not silent.new for silent in load.silent):
        return LoadWindow(overloads=load_window.overloads)
    window_seconds = limits.scale_down_cooldown_seconds
    if not load.known:
        return load_window
    gap = now - load_window.updated_at > LONGEST_GAP_SECONDS
    near = late(load, _with_headroom(limits))
    known_before = None if gap else load_window.work_since
    return LoadWindow(
        since=now if load_window.since is None or gap else load_window.since,
        updated_at=now,
        parts=_with_part(load_window.parts, _part(load, near, replicas, now), window_seconds, now),
        overloads=_overloads(load_window.overloads, load, limits, late(load, limits) if near else None, now),
        work_since=None if replicas is None else now if known_before is None else known_before,
        long=_long(load_window.long, replicas, now),
    )


def _long(
    spans: tuple[tuple[float, float], ...], replicas: float | None, now: float
) -> tuple[tuple[float, float], ...]:
    width = LONG_SECONDS / PARTS
    kept = tuple(span for span in spans if span[0] + width >= now - LONG_SECONDS)
    if replicas is None:
        return kept
    if not kept or now - kept[-1][0] >= width:
        return (*kept, (now, replicas))
    return (*kept[:-1], (kept[-1][0], max(kept[-1][1], replicas)))


def _part(load: ServiceLoad, late: Proposal | None, replicas: float | None, now: float) -> WindowPart:
    return WindowPart(
        since=now,
        waiting_requests=load.waiting_requests,
        running_requests=load.running_requests + load.draining_requests,
        kv_total=load.kv_total,
        late=late.because if late else "",
        replicas=replicas,
    )


def _with_part(
    parts: tuple[WindowPart, ...], new: WindowPart, window_seconds: float, now: float
) -> tuple[WindowPart, ...]:
    """The parts with a new observation. A part is dropped once its newest observation has left the window."""
    width = max(SHORTEST_PART_SECONDS, window_seconds / PARTS)
    kept = tuple(part for part in parts if part.since + width >= now - window_seconds)
    if not kept or now - kept[-1].since >= width:
        return (*kept, new)
    last = kept[-1]
    joined = WindowPart(
        since=last.since,
        waiting_requests=max(last.waiting_requests, new.waiting_requests),
        running_requests=max(last.running_requests, new.running_requests),
        kv_total=max(last.kv_total, new.kv_total),
        late=new.late or last.late,
        replicas=max((r for r in (last.replicas, new.replicas) if r is not None), default=None),
    )
    return (*kept[:-1], joined)


def _overloads(
    overloads: tuple[Overload, ...], load: ServiceLoad, limits: Limits, late: Proposal | None, now: float
) -> tuple[Overload, ...]:
    """The overloads with a new one, if a latency is late. Each scaleUpCooldown keeps only its lowest load."""
    kept = tuple(s for s in overloads if now - s.at < OVERLOAD_COOLDOWNS * limits.scale_down_cooldown_seconds)
    if late is None:
        return kept
    new = Overload(now, load.running_requests / load.known_capacity, late.rule)
    if kept and now - kept[-1].at < limits.scale_up_cooldown_seconds:
        if new.running_per_replica >= kept[-1].running_per_replica:
            return kept
        return (*kept[:-1], replace(new, at=kept[-1].at))
    return (*kept, new)[-MOST_OVERLOADS:]


def _with_headroom(limits: Limits) -> Limits:
    """Limits lowered so that latencies count as late while they are still within the headroom below them."""
    return replace(limits, latency_share=1 / (1 + limits.headroom))
