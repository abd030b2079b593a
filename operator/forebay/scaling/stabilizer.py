"""The stabilizer: the only way down.

Up is answered at once, down only when the load of a whole window would have been carried by one replica less, and then
by one replica at a time. Every check returns the sentence that holds the count, or nothing; the first that speaks names
the decision.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from forebay.scaling.decision import Proposal, count, number, percent, seconds
from forebay.scaling.freshness import Freshness
from forebay.scaling.limits import Limits
from forebay.scaling.load import Load
from forebay.scaling.watch import Watch


@dataclass(frozen=True, slots=True)
class Standing:
    """The fleet as it is, and the count that a step down would leave."""

    desired: int
    """What has been worked towards until now."""
    serving: int
    draining: int
    raised_at: float
    """When the count last rose."""
    load: Load
    watch: Watch
    limits: Limits
    now: float

    @property
    def left(self) -> int:
        """Replicas that would serve after the step: one that has not started is given up first."""
        return min(self.desired - 1, self.serving)


def last_replica(standing: Standing) -> str | None:
    """From one to none is not a matter of load: even an idle service is there to be called."""
    return "the last replica is kept: load guards never go down to zero" if standing.desired == 1 else None


def metrics_unknown(standing: Standing) -> str | None:
    """Silence is not idleness."""
    load = standing.load
    if load.complete:
        return None
    if load.replicas == 0:
        return "no replica serves, so the load is not known"
    worst = max(load.silent, key=lambda silent: (silent.freshness is Freshness.LOST, -silent.since, silent.pod))
    others = f" and {len(load.silent) - 1} more" if len(load.silent) > 1 else ""
    why = f": {worst.error}" if worst.error else ""
    return f"the load is not known, nothing is scaled down on silence ({worst.pod}{others} gives no metrics{why})"


def recently_raised(standing: Standing) -> str | None:
    cooldown = standing.limits.scale_down_cooldown_seconds
    if standing.now - standing.raised_at >= cooldown:
        return None
    return f"the count rose less than scaleDownCooldown ({seconds(cooldown)}) ago"


def not_watched_in_full(standing: Standing) -> str | None:
    """A window that began before we did, or that has a gap, may hide a peak."""
    window = standing.limits.scale_down_cooldown_seconds
    if standing.watch.covers(window, standing.now):
        return None
    return f"the load has not yet been watched for scaleDownCooldown ({seconds(window)}) without a gap"


def draining_now(standing: Standing) -> str | None:
    return "one replica drains at a time" if standing.draining else None


def queue_would_grow(standing: Standing) -> str | None:
    return _queue(standing.watch, standing.limits, standing.left)


def kv_cache_would_fill(standing: Standing) -> str | None:
    return _kv(standing.watch, standing.limits, standing.left)


def latency_was_late(standing: Standing) -> str | None:
    return _late(standing.watch, standing.limits, standing.left)


def load_was_too_much(standing: Standing) -> str | None:
    return _strained(standing.watch, standing.limits, standing.left)


Check = Callable[[Standing], str | None]
CHECKS: Final[tuple[Check, ...]] = (
    last_replica,
    metrics_unknown,
    recently_raised,
    not_watched_in_full,
    queue_would_grow,
    kv_cache_would_fill,
    latency_was_late,
    load_was_too_much,
    draining_now,
)


def stabilize(standing: Standing) -> Proposal:
    """The count of until now with the first reason to keep it, or one less."""
    for check in CHECKS:
        if held := check(standing):
            return Proposal(standing.desired, check.__name__, held)
    return scale_down(standing)


def scale_down(standing: Standing) -> Proposal:
    watch, window = standing.watch, standing.limits.scale_down_cooldown_seconds
    return Proposal(
        replicas=standing.desired - 1,
        rule="scale_down",
        because=f"{count(standing.left, 'replica')} would have carried the load of the last {seconds(window)}: at most "
        f"{number(watch.running_requests)} requests ran and {number(watch.waiting_requests)} waited, and the KV cache "
        f"would have been {percent(watch.kv_total / standing.left)} full",
    )


def carried_by(replicas: int, watch: Watch, limits: Limits, now: float) -> bool:
    """Whether so many replicas would have carried the load of the whole window; False when that is not known."""
    if replicas < 1 or not watch.covers(limits.scale_down_cooldown_seconds, now):
        return False
    return not any(check(watch, limits, replicas) for check in (_queue, _kv, _late, _strained))


def fewest_for(load: Load, limits: Limits) -> int | None:
    """How many of the serving replicas the load of this moment needs; None when the load is not known."""
    if not load.complete:
        return None
    for replicas in range(1, load.replicas):
        in_flight = load.running_requests + load.waiting_requests
        queued = max(load.waiting_requests, in_flight - replicas * limits.max_num_seqs) * (1 + limits.headroom)
        filled = load.kv_fraction * load.known / replicas * (1 + limits.headroom)
        if queued <= limits.queue_depth * replicas and filled <= limits.kv_fraction:
            return replicas
    return load.replicas


def _queue(watch: Watch, limits: Limits, replicas: int) -> str | None:
    """Requests that wait now would still wait, and those beyond maxNumSeqs would begin to."""
    margin = 1 + limits.headroom
    waiting = max(watch.waiting_requests * margin, watch.in_flight * margin - replicas * limits.max_num_seqs)
    if waiting <= limits.queue_depth * replicas:
        return None
    return (
        f"{count(replicas, 'replica')} would have had up to {number(waiting)} requests waiting, "
        f"{percent(limits.headroom)} headroom included, target {number(limits.queue_depth)} each"
    )


def _kv(watch: Watch, limits: Limits, replicas: int) -> str | None:
    filled = watch.kv_total / replicas * (1 + limits.headroom)
    if filled <= limits.kv_fraction:
        return None
    return (
        f"the KV cache of {count(replicas, 'replica')} would have been {percent(filled)} full, "
        f"{percent(limits.headroom)} headroom included, target {percent(limits.kv_fraction)}"
    )


def _late(watch: Watch, limits: Limits, replicas: int) -> str | None:
    """Latencies do not scale by a rule that is known here, so none may have come near its limit."""
    late = next((part.late for part in reversed(watch.parts) if part.late), "")
    return f"{late}: less than {percent(limits.headroom)} headroom" if late else None


def _strained(watch: Watch, limits: Limits, replicas: int) -> str | None:
    """Below the limits now is no proof for fewer replicas; a load that was too much before is proof against them."""
    worst = min(watch.strains, key=lambda strain: strain.running_per_replica, default=None)
    if worst is None or watch.running_requests / replicas < worst.running_per_replica:
        return None
    return (
        f"{count(replicas, 'replica')} would have run up to {number(watch.running_requests / replicas)} requests each, "
        f"and {number(worst.running_per_replica)} each were too many for {worst.rule} before"
    )
