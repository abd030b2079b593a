"""The watch: what the load came to in every part of the last scaleDownCooldown.

Scaling down asks whether fewer replicas would have done at *every* moment of that window, so the window has to have
been watched in full. It is kept in a fixed number of parts, each with its maxima.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from forebay.scaling.decision import Proposal
from forebay.scaling.limits import Limits
from forebay.scaling.load.service_load import ServiceLoad

PARTS: Final = 20
LONG_SECONDS: Final = 1800.0
"""What the work asked for is kept for so long besides: over a longer watch a smaller margin is proof enough."""
SHORTEST_PART_SECONDS: Final = 1.0
STRAIN_COOLDOWNS: Final = 6
"""A load that made requests late is remembered for so many cooldowns: 30 minutes at the default of 300 s."""
MOST_STRAINS: Final = 12
LONGEST_BLINK_SECONDS: Final = 60.0
"""Nobody looked for longer than that (an API server that was away, a spec that could not be read): that is a gap."""


@dataclass(frozen=True, slots=True)
class WindowPart:
    """The highest values of one part of the window, over all replicas together."""

    since: float
    waiting_requests: float
    running_requests: float
    kv_total: float
    """In full replicas."""
    late: str = ""
    """What was late, or within the headroom of being late."""
    replicas: float | None = None
    """That the work asked for, before rounding; None while that is not known."""


@dataclass(frozen=True, slots=True)
class Strain:
    """So many running requests per replica of the service's own shape were more than the promised latencies allow."""

    at: float
    running_per_replica: float
    rule: str


@dataclass(frozen=True, slots=True)
class LoadWindow:
    since: float | None = None
    """From when on every serving replica has been known without a gap; None while one is not."""
    looked_at: float = 0.0
    parts: tuple[WindowPart, ...] = ()
    strains: tuple[Strain, ...] = ()
    work_since: float | None = None
    """From when on it has been known without a gap how many replicas the work asks for."""
    long: tuple[tuple[float, float], ...] = ()
    """(since, most replicas that the work asked for) of spans of the last half hour, oldest first."""

    def most_replicas(self, window_seconds: float, now: float) -> float | None:
        """That the work asked for at any time of the window (scaleDownCooldown); None when it was not always known."""
        if not self.knew_work_for(window_seconds, now):
            return None
        return max((part.replicas for part in self.parts if part.replicas is not None), default=None)

    def most_replicas_long(self, now: float) -> float | None:
        """The same of the last half hour."""
        if not self.knew_work_for(LONG_SECONDS, now):
            return None
        return max((replicas for _, replicas in self.long), default=None)

    def knew_work_for(self, window_seconds: float, now: float) -> bool:
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
"""Tells which latency is past its limit, if any: `guards.late`."""


def extended(
    load_window: LoadWindow,
    load: ServiceLoad,
    limits: Limits,
    now: float,
    late: LatencyCheck,
    replicas: float | None = None,
) -> LoadWindow:
    """The window with one more look at the load. A silent replica ends the window; a new replica is waited for.

    `replicas` is what the work asks for, before rounding; None while it is not known.
    """
    if load.replicas == 0 or any(not silent.new for silent in load.silent):
        return LoadWindow(strains=load_window.strains)
    window_seconds = limits.scale_down_cooldown_seconds
    if not load.known:
        return load_window
    gap = now - load_window.looked_at > LONGEST_BLINK_SECONDS
    near = late(load, _with_headroom(limits))
    known_before = None if gap else load_window.work_since
    return LoadWindow(
        since=now if load_window.since is None or gap else load_window.since,
        looked_at=now,
        parts=_with(load_window.parts, _part(load, near, replicas, now), window_seconds, now),
        strains=_strains(load_window.strains, load, limits, late(load, limits) if near else None, now),
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


def _with(parts: tuple[WindowPart, ...], new: WindowPart, window_seconds: float, now: float) -> tuple[WindowPart, ...]:
    """A part is dropped only once its youngest look has left the window."""
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


def _strains(
    strains: tuple[Strain, ...], load: ServiceLoad, limits: Limits, late: Proposal | None, now: float
) -> tuple[Strain, ...]:
    """One per scaleUpCooldown at most, the lowest load of each; the rest is forgotten in time."""
    kept = tuple(s for s in strains if now - s.at < STRAIN_COOLDOWNS * limits.scale_down_cooldown_seconds)
    if late is None:
        return kept
    new = Strain(now, load.running_requests / load.known_carry, late.rule)
    if kept and now - kept[-1].at < limits.scale_up_cooldown_seconds:
        if new.running_per_replica >= kept[-1].running_per_replica:
            return kept
        return (*kept[:-1], replace(new, at=kept[-1].at))
    return (*kept, new)[-MOST_STRAINS:]


def _with_headroom(limits: Limits) -> Limits:
    """Limits that are reached while they are still `headroom` away."""
    return replace(limits, latency_share=1 / (1 + limits.headroom))
