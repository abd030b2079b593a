"""Stabilizer: the only rule that lowers the count, down to the last replica, which only the idle clock removes.

Scaling up is immediate. Scaling down requires that fewer replicas could have served the load of a whole window. A step
removes one replica, or a tenth of a large fleet; one that removes a third or more waits for a whole window after the
step before it. Every check returns the sentence that explains why the count stays, or nothing; the first check that
returns a sentence names the decision.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import sqrt
from typing import Final

from forebay.scaling.decision import Proposal, count, number, percent, seconds
from forebay.scaling.limits import Limits
from forebay.scaling.load.freshness import Freshness
from forebay.scaling.load.load_window import LONG_SECONDS, LoadWindow
from forebay.scaling.load.service_load import ServiceLoad
from forebay.scaling.replica_weights import EVEN, ReplicaWeights
from forebay.scaling.rules.situation import Situation

MARGIN: Final = 1.2
"""The replicas left after a step down must serve this multiple of the most work in scaleDownCooldown."""
LONG_MARGIN: Final = 1.1
"""The multiple for the most work in the last half hour. Either margin is enough."""
LARGEST_BATCH: Final = 10
"""One step removes at most one in this many replicas."""
LARGE_STEP: Final = 3
"""A step that removes one in this many replicas, or more, is large: it leaves the others at least half as much load
again."""
UNKNOWN_WORK_SECONDS: Final = 60.0
"""Time to wait for arrivals to become known, where they can be known at all."""


@dataclass(frozen=True, slots=True)
class ScaleDownInput:
    """A situation, and the size of the step down that is considered."""

    situation: Situation
    step: int = 1

    @property
    def wanted(self) -> int:
        """Desired count after the step."""
        return self.situation.desired - self.step

    @property
    def left(self) -> int:
        """Serving replicas after the step. Replicas that have not started are removed first."""
        return min(self.wanted, self.situation.counts.serving)

    @property
    def large(self) -> bool:
        """Whether it removes so large a share that the load on the replicas left has to be seen before the next one."""
        return self.step * LARGE_STEP >= self.situation.desired

    @property
    def left_capacity(self) -> float:
        """Capacity of the replicas left, in replicas of the service's own shape."""
        return self.situation.load.weights.capacity_of(self.left)


def nobody_left(down: ScaleDownInput) -> str | None:
    """At least one replica must be left to serve the load."""
    return "no replica would be left to serve" if down.left < 1 else None


def metrics_unknown(down: ScaleDownInput) -> str | None:
    """Missing metrics hold the replica count: they do not mean that a replica is idle."""
    load, stalled = down.situation.load, down.situation.counts.stalled
    if load.complete and stalled:
        return f"{count(stalled, 'replica')} {'has' if stalled == 1 else 'have'} requests that make no progress"
    if load.complete:
        return None
    if load.replicas == 0:
        return "no replica is known to serve, so the load is unknown"
    worst = max(load.silent, key=lambda silent: (silent.freshness is Freshness.LOST, -silent.since, silent.pod))
    others = f" and {len(load.silent) - 1} more" if len(load.silent) > 1 else ""
    if all(silent.new for silent in load.silent):
        begun = "have" if others else "has"
        return f"the load is only partly known: {worst.pod}{others} {begun} just begun to serve"
    why = f": {worst.error}" if worst.error else ""
    report = "report" if others else "reports"
    return f"the load is unknown, so no replica is removed: {worst.pod}{others} {report} no metrics{why}"


def recently_raised(down: ScaleDownInput) -> str | None:
    cooldown = down.situation.limits.scale_down_cooldown_seconds
    if down.situation.now - down.situation.raised_at >= cooldown:
        return None
    return (
        f"the count rose less than scaleDownCooldown ({seconds(cooldown)}) ago; no replica is removed until it has "
        "passed"
    )


def recently_lowered(down: ScaleDownInput) -> str | None:
    """A large step waits until the load has been seen for a whole cooldown on the replicas that the last step left."""
    cooldown, fell_at = down.situation.limits.scale_down_cooldown_seconds, down.situation.lowered_at
    if fell_at is None or down.situation.now - fell_at >= cooldown or not down.large:
        return None
    return (
        f"the count fell less than scaleDownCooldown ({seconds(cooldown)}) ago; a step from "
        f"{down.situation.desired} to {count(down.wanted, 'replica')} waits until it has passed"
    )


def not_watched_in_full(down: ScaleDownInput) -> str | None:
    """The load must be known for the whole window; an unknown part of it may hide a peak."""
    window = down.situation.limits.scale_down_cooldown_seconds
    if down.situation.load_window.covers(window, down.situation.now):
        return None
    return f"the load has not yet been known without a gap for scaleDownCooldown ({seconds(window)})"


def draining_now(down: ScaleDownInput) -> str | None:
    """A step waits until the replicas of the previous step have drained."""
    return (
        f"{count(down.situation.counts.draining, 'replica')} still draining" if down.situation.counts.draining else None
    )


def work_would_not_fit(down: ScaleDownInput) -> str | None:
    """The most work of the window, with a margin, must fit on the replicas left, without counting the warm ones."""
    load_window, now = down.situation.load_window, down.situation.now
    if load_window.work_since is None:
        young = load_window.since is None or now - load_window.since < UNKNOWN_WORK_SECONDS
        offered_work = down.situation.offered_work
        if offered_work is not None and young:
            return "the arriving work is not known yet"
        if offered_work is not None and offered_work.lengths.requests > 0 and load_window.in_flight > 0:
            return "the arriving work is no longer known: no engine counts its requests any more"
        return None
    return _work(
        load_window,
        down.situation.limits,
        down.wanted - down.situation.limits.warm_replicas,
        now,
        down.situation.load.weights,
    )


def queue_would_grow(down: ScaleDownInput) -> str | None:
    return _queue(down.situation.load_window, down.situation.limits, down.left, down.situation.load.weights)


def kv_cache_would_fill(down: ScaleDownInput) -> str | None:
    return _kv(down.situation.load_window, down.situation.limits, down.left, down.situation.load.weights)


def latency_was_late(down: ScaleDownInput) -> str | None:
    return _late(down.situation.load_window, down.situation.limits, down.left, down.situation.load.weights)


def load_was_too_much(down: ScaleDownInput) -> str | None:
    return _overloaded(down.situation.load_window, down.situation.limits, down.left, down.situation.load.weights)


Check = Callable[[ScaleDownInput], str | None]
CHECKS: Final[tuple[Check, ...]] = (
    metrics_unknown,
    nobody_left,
    recently_raised,
    recently_lowered,
    not_watched_in_full,
    work_would_not_fit,
    queue_would_grow,
    kv_cache_would_fill,
    latency_was_late,
    load_was_too_much,
    draining_now,
)


def largest_batch(replicas: int) -> int:
    """Largest number of replicas that one step may remove from so many."""
    return max(1, replicas // LARGEST_BATCH)


def stabilize(down: ScaleDownInput) -> Proposal:
    """The present count with the first reason to keep it, or the largest step down that the load allows."""
    for check in CHECKS:
        if reason := check(down):
            return Proposal(down.situation.desired, check.__name__, reason)
    most = min(largest_batch(down.situation.desired), down.situation.desired - max(1, down.situation.floor))
    larger_steps = (replace(down, step=step) for step in range(most, 1, -1))
    return scale_down(next((larger for larger in larger_steps if not any(check(larger) for check in CHECKS)), down))


def scale_down(down: ScaleDownInput) -> Proposal:
    load_window, window = down.situation.load_window, down.situation.limits.scale_down_cooldown_seconds
    most = load_window.most_replicas(window, down.situation.now)
    work = "" if most is None else f"; the arriving work needed at most {number(most)} replicas"
    return Proposal(
        replicas=down.wanted,
        rule="scale_down",
        because=f"{count(down.left, 'replica')} could have served the load of the last {seconds(window)}: at most "
        f"{number(load_window.running_requests)} requests ran and {number(load_window.waiting_requests)} waited, and "
        f"the KV cache would have been {percent(load_window.kv_total / down.left_capacity)} full{work}",
    )


def enough_for_window(
    replicas: int, load_window: LoadWindow, limits: Limits, now: float, weights: ReplicaWeights = EVEN
) -> bool:
    """Whether so many replicas could have served the load of the whole window; False when that is unknown."""
    if replicas < 1 or not load_window.covers(limits.scale_down_cooldown_seconds, now):
        return False
    if load_window.work_since is not None and _work(load_window, limits, replicas, now, weights):
        return False
    return not any(check(load_window, limits, replicas, weights) for check in (_queue, _kv, _late, _overloaded))


def fewest_for(load: ServiceLoad, limits: Limits) -> int | None:
    """Smallest number of the serving replicas that the present load needs; None when the load is unknown."""
    if not load.complete:
        return None
    for replicas in range(1, load.replicas):
        in_flight, capacity = load.running_requests + load.waiting_requests, load.weights.capacity_of(replicas)
        queued = max(load.waiting_requests, in_flight - replicas * limits.max_num_seqs) * (1 + limits.headroom)
        filled = load.kv_fraction * load.known_capacity / capacity * (1 + limits.headroom)
        if queued <= limits.queue_depth * capacity and filled <= limits.kv_fraction:
            return replicas
    return load.replicas


def _work(load_window: LoadWindow, limits: Limits, replicas: int, now: float, weights: ReplicaWeights) -> str | None:
    """The work must fit with `MARGIN` over scaleDownCooldown, or with `LONG_MARGIN` over half an hour."""
    capacity = weights.capacity_of(replicas)
    window = limits.scale_down_cooldown_seconds
    most, long = load_window.most_replicas(window, now), load_window.most_replicas_long(now)
    if most is None:
        return f"the arriving work has not yet been known without a gap for scaleDownCooldown ({seconds(window)})"
    if most * MARGIN <= capacity or (long is not None and max(most, long) * LONG_MARGIN <= capacity):
        return None
    return (
        f"the arriving work needed up to {number(most)} replicas in the last {seconds(window)}; {MARGIN:g} "
        f"times that, or {LONG_MARGIN:g} times the most of the last {seconds(LONG_SECONDS)}, would not fit on "
        f"{weights.shown(replicas)}"
    )


def _queue(load_window: LoadWindow, limits: Limits, replicas: int, weights: ReplicaWeights) -> str | None:
    """Requests that waited would still wait, and running requests beyond maxNumSeqs would also wait."""
    margin = 1 + limits.headroom
    waiting = max(
        load_window.waiting_requests * margin, load_window.in_flight * margin - replicas * limits.max_num_seqs
    )
    if waiting <= limits.queue_depth * weights.capacity_of(replicas):
        return None
    return (
        f"{count(replicas, 'replica')} would have had up to {number(waiting)} requests waiting, "
        f"{percent(limits.headroom)} headroom included, target {number(limits.queue_depth)} each"
    )


def kv_margin(load_window: LoadWindow, limits: Limits) -> float:
    """Headroom for the KV cache, at least one standard deviation of the number of requests that filled it.

    The number of random requests in flight, N, varies by √N. A fifth of six requests is less than a request and a half,
    so without this the next moment fills the replicas left.
    """
    return max(limits.headroom, 1 / sqrt(max(1.0, load_window.running_requests)))


def _kv(load_window: LoadWindow, limits: Limits, replicas: int, weights: ReplicaWeights) -> str | None:
    margin = kv_margin(load_window, limits)
    filled = load_window.kv_total / weights.capacity_of(replicas) * (1 + margin)
    if filled <= limits.kv_fraction:
        return None
    return (
        f"the KV cache of {count(replicas, 'replica')} would have been {percent(filled)} full, "
        f"{percent(margin)} headroom included, target {percent(limits.kv_fraction)}"
    )


def _late(load_window: LoadWindow, limits: Limits, replicas: int, weights: ReplicaWeights) -> str | None:
    """There is no formula for how latencies scale, so none of them may have come close to its limit."""
    late = next((part.late for part in reversed(load_window.parts) if part.late), "")
    return f"{late}: less than {percent(limits.headroom)} headroom" if late else None


def _overloaded(load_window: LoadWindow, limits: Limits, replicas: int, weights: ReplicaWeights) -> str | None:
    """The load per replica must stay below every load that exceeded a latency limit before."""
    worst = min(load_window.overloads, key=lambda overload: overload.running_per_replica, default=None)
    per_replica = load_window.running_requests / weights.capacity_of(replicas)
    if worst is None or per_replica < worst.running_per_replica:
        return None
    return (
        f"{count(replicas, 'replica')} would have run up to {number(per_replica)} requests each, "
        f"and {number(worst.running_per_replica)} each exceeded the limit of {worst.rule} before"
    )
