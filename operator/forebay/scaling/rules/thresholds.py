"""Thresholds: the signal values at which the replica count of a service would change, so that nobody has to guess.

To scale up, each rule has a value above which it asks for more replicas. To scale down, every value has to stay low for
the whole of scaleDownCooldown, so the highest value of that window is shown beside the allowed one. The numbers are
those that the rules themselves compare; nothing is decided in this module.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import floor
from typing import Final

from forebay.scaling.decision import Due, Proposal, amount, count, number, percent, seconds, significant
from forebay.scaling.limits import Limits
from forebay.scaling.load.observed_latency import Latency
from forebay.scaling.rules.feed_forward import headroom
from forebay.scaling.rules.situation import Situation
from forebay.scaling.rules.stabilizer import MARGIN, ScaleDownInput, kv_margin

_COOLED: Final = "scaleUpCooldown ({}) is over: guards count again, unless replicas they asked for are still loading."


@dataclass(frozen=True, slots=True)
class ThresholdInput:
    """A situation, the proposals of its rules, and the resulting count."""

    situation: Situation
    proposals: tuple[Proposal, ...]
    desired: int
    """Count by the rules, within maxReplicas."""
    unbounded: int
    """Count by the rules without the limit of maxReplicas."""

    @property
    def down(self) -> ScaleDownInput:
        """The situation with a step down of one replica."""
        return ScaleDownInput(self.situation)


def would_raise(threshold: ThresholdInput) -> tuple[str, ...]:
    """The smallest change of each signal that would raise the count."""
    limits = threshold.situation.limits
    if threshold.desired >= limits.max_replicas:
        wanted = f"; the rules ask for {threshold.unbounded}" if threshold.unbounded > limits.max_replicas else ""
        return (f"Only a higher maxReplicas ({limits.max_replicas} now{wanted}).",)
    return (*_late_signals(threshold), *_more_work(threshold))


def would_lower(threshold: ThresholdInput) -> tuple[str, ...]:
    """The conditions for one replica less, each value beside the highest one of the window."""
    situation = threshold.situation
    if threshold.desired > situation.desired or threshold.desired < situation.desired:
        return ()
    if threshold.desired <= situation.floor:
        return _floor_holds(threshold)
    if threshold.down.wanted < 1:
        return _last_replica(situation.limits)
    if not situation.load.complete:
        return ("Nothing, until the load of every serving replica is known.",)
    return tuple(_low_enough(threshold))


def upcoming(threshold: ThresholdInput) -> tuple[Due, ...]:
    """The ends of the cooldowns and of the idle clock that are running."""
    situation, limits = threshold.situation, threshold.situation.limits
    due: list[Due] = []
    guards_wait_until = threshold.situation.guard_raised_at + limits.scale_up_cooldown_seconds
    if guards_wait_until > situation.now and any(proposal.waits_for for proposal in threshold.proposals):
        due.append(Due(guards_wait_until, _COOLED.format(seconds(limits.scale_up_cooldown_seconds))))
    if threshold.desired > situation.floor and threshold.desired == situation.desired and threshold.down.wanted >= 1:
        cooldown = limits.scale_down_cooldown_seconds
        lowered_at = situation.lowered_at if threshold.down.large else None
        waits = (
            (situation.raised_at, "the last rise"),
            (situation.load_window.since or situation.now, "the load was last unknown"),
            (lowered_at or 0.0, "the last step down"),
        )
        began, event = max(waits, key=lambda wait: wait[0])
        if situation.load.complete and began + cooldown > situation.now:
            due.append(
                Due(
                    began + cooldown,
                    f"scaleDownCooldown ({seconds(cooldown)}) since {event} is over: a replica is removed if "
                    "the load allows it.",
                )
            )
    after = limits.to_zero_after_seconds
    if (
        threshold.desired == situation.desired == 1
        and situation.floor == 0
        and after
        and threshold.situation.idleness.since is not None
    ):
        due.append(
            Due(
                threshold.situation.idleness.since + after,
                "The last replica is removed if no request arrives until then.",
            )
        )
    return tuple(due)


def _late_signals(threshold: ThresholdInput) -> Iterator[str]:
    load, limits = threshold.situation.load, threshold.situation.limits
    fired = {proposal.rule for proposal in threshold.proposals}
    if not load.known:
        return
    if "queue_depth" not in fired:
        most = floor(limits.queue_depth * load.known_capacity)
        yield (
            f"More than {count(most, 'waiting request')} on {count(load.known, 'replica')} "
            f"({number(load.waiting_requests)} now): queue_depth."
        )
    if "kv_cache" not in fired:
        yield f"A KV cache more than {percent(limits.kv_fraction)} full ({percent(load.kv_fraction)} now): kv_cache."
    for rule, name, value, limit in (
        ("queue_wait", "A queue wait (p99)", _quantile(load.queue_time, 0.99), limits.queue_wait_seconds),
        (
            "time_to_first_token",
            "A time to first token (p95)",
            _quantile(load.time_to_first_token, 0.95),
            limits.time_to_first_token_seconds,
        ),
        (
            "inter_token_latency",
            "An inter-token latency (mean)",
            None if load.inter_token_latency is None else load.inter_token_latency.mean_seconds,
            limits.inter_token_latency_seconds,
        ),
    ):
        if value is not None and rule not in fired:
            yield f"{name} above {seconds(limit)} ({seconds(value)} now): {rule}."


def _more_work(threshold: ThresholdInput) -> Iterator[str]:
    """The amount of work above which feed-forward asks for another replica."""
    offered_work, limits = threshold.situation.offered_work, threshold.situation.limits
    if offered_work is None or offered_work.work is None:
        return
    margin = 1 + headroom(offered_work, limits, threshold.situation.scaling_inputs).fraction
    capacity = threshold.situation.load.weights.capacity_of(threshold.desired - limits.warm_replicas)
    most = capacity * offered_work.capacity.usable / margin
    if most <= offered_work.work:
        return
    per_request = offered_work.capacity.work_seconds
    requests = f", or {amount(most / per_request, 'request')} of this kind" if per_request > 0 else ""
    yield (
        f"More than {significant(most)} GPU-seconds of work per second{requests} "
        f"({significant(offered_work.work)} now): feed_forward."
    )


def _floor_holds(threshold: ThresholdInput) -> tuple[str, ...]:
    floor_count = threshold.situation.floor
    last = next((p for p in reversed(threshold.proposals) if p.replicas >= floor_count and not p.waits_for), None)
    if floor_count == 0 or last is None:
        return ()
    return (f"Only a lower floor, whatever the load is: {last.because}.",)


def _last_replica(limits: Limits) -> tuple[str, ...]:
    after = limits.to_zero_after_seconds
    if after is None:
        return ("The last replica stays: scaling.scaleToZeroAfter is not set.",)
    return (f"The last replica is removed after {seconds(after)} without a request (scaleToZeroAfter).",)


def _low_enough(threshold: ThresholdInput) -> Iterator[str]:
    situation, limits, load_window = threshold.situation, threshold.situation.limits, threshold.situation.load_window
    margin, left, capacity = 1 + limits.headroom, threshold.down.left, threshold.down.left_capacity
    weights = situation.load.weights
    serving = weights.capacity_of(situation.counts.serving) or 1.0
    window = seconds(limits.scale_down_cooldown_seconds)
    yield f"One replica is removed once all of these have held for {window} without a break:"
    waiting = floor(limits.queue_depth * capacity / margin)
    yield f"at most {count(waiting, 'request')} waiting (the most was {number(load_window.waiting_requests)})"
    in_flight = floor((capacity * limits.queue_depth + left * limits.max_num_seqs) / margin)
    if load_window.in_flight > in_flight:
        yield f"at most {count(in_flight, 'request')} waiting or running (the most was {number(load_window.in_flight)})"
    share = capacity * limits.kv_fraction / (1 + kv_margin(load_window, limits)) / serving
    yield (
        f"the KV cache of {count(situation.counts.serving, 'replica')} at most {percent(share)} full "
        f"(the most was {percent(load_window.kv_total / serving)})"
    )
    work = [part.replicas for part in load_window.parts if part.replicas is not None]
    if work:
        most = weights.capacity_of(threshold.down.wanted - limits.warm_replicas) / MARGIN
        yield f"work that needs at most {number(most)} replicas (the most was {number(max(work))})"
    late = next((part.late for part in reversed(load_window.parts) if part.late), "")
    if late:
        yield f"no latency within {percent(limits.headroom)} of its limit ({late})"
    overload = min(load_window.overloads, key=lambda overload: overload.running_per_replica, default=None)
    if overload is not None:
        yield (
            f"fewer than {number(overload.running_per_replica * capacity)} requests running "
            f"(the most was {number(load_window.running_requests)}), since {number(overload.running_per_replica)} per "
            f"replica exceeded the limit of {overload.rule} before"
        )
    if situation.counts.draining:
        yield f"no other replica draining ({situation.counts.draining} now)"


def _quantile(latency: Latency | None, quantile: float) -> float | None:
    return None if latency is None else latency.quantile_seconds(quantile)
