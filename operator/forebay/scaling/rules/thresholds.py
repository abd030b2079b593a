"""Turning points: how far a service is from another count, so that nobody has to guess what would change a decision.

Up, each rule has a value past which it asks for more. Down, every value has to stay low for the whole of
scaleDownCooldown, so the most that was seen in it stands beside what is allowed. The numbers are those that the rules
themselves compare; nothing here decides.
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
from forebay.scaling.rules.stabilizer import MARGIN, ScaleDownInput

_COOLED: Final = "scaleUpCooldown ({}) is over: guards count again, unless replicas they asked for still load."


@dataclass(frozen=True, slots=True)
class ThresholdInput:
    """A situation, what its rules proposed, and what of it counted."""

    situation: Situation
    proposals: tuple[Proposal, ...]
    desired: int
    """What the rules came to."""
    unbounded: int
    """The same without maxReplicas."""

    @property
    def down(self) -> ScaleDownInput:
        """What a step down would leave."""
        return ScaleDownInput(self.situation)


def would_raise(threshold: ThresholdInput) -> tuple[str, ...]:
    """The smallest change of each signal with which one more replica would be asked for, at least."""
    limits = threshold.situation.limits
    if threshold.desired >= limits.max_replicas:
        wanted = f"; {threshold.unbounded} are asked for" if threshold.unbounded > limits.max_replicas else ""
        return (f"Only a higher maxReplicas, which is {limits.max_replicas}{wanted}.",)
    return (*_late_signals(threshold), *_more_work(threshold))


def would_lower(threshold: ThresholdInput) -> tuple[str, ...]:
    """What has to hold for one replica less, each value beside the most that was seen."""
    situation = threshold.situation
    if threshold.desired > situation.desired or threshold.desired < situation.desired:
        return ()
    if threshold.desired <= situation.floor:
        return _floor_holds(threshold)
    if threshold.down.wanted < 1:
        return _last_replica(situation.limits)
    if not situation.load.complete:
        return ("Nothing, until the load of every replica that serves is known.",)
    return tuple(_low_enough(threshold))


def ahead(threshold: ThresholdInput) -> tuple[Due, ...]:
    """The clocks of scaling that still run."""
    situation, limits = threshold.situation, threshold.situation.limits
    due: list[Due] = []
    may_jump = threshold.situation.jumped_at + limits.scale_up_cooldown_seconds
    if may_jump > situation.now and any(proposal.waits_for for proposal in threshold.proposals):
        due.append(Due(may_jump, _COOLED.format(seconds(limits.scale_up_cooldown_seconds))))
    if threshold.desired > situation.floor and threshold.desired == situation.desired and threshold.down.wanted >= 1:
        cooldown = limits.scale_down_cooldown_seconds
        raised, watched = situation.raised_at + cooldown, (situation.load_window.since or situation.now) + cooldown
        if situation.load.complete and max(raised, watched) > situation.now:
            which = "the last rise" if raised >= watched else "the load began to be watched without a gap"
            due.append(
                Due(
                    max(raised, watched),
                    f"scaleDownCooldown ({seconds(cooldown)}) since {which} is over: a replica goes, if the "
                    "load allows it.",
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
            Due(threshold.situation.idleness.since + after, "The last replica goes, if nothing is asked until then.")
        )
    return tuple(due)


def _late_signals(threshold: ThresholdInput) -> Iterator[str]:
    load, limits = threshold.situation.load, threshold.situation.limits
    fired = {proposal.rule for proposal in threshold.proposals}
    if not load.known:
        return
    if "queue_depth" not in fired:
        most = floor(limits.queue_depth * load.known_carry)
        yield (
            f"More than {count(most, 'waiting request')} on {count(load.known, 'replica')} "
            f"({number(load.waiting_requests)} now): queue_depth."
        )
    if "kv_cache" not in fired:
        yield f"A KV cache more than {percent(limits.kv_fraction)} full ({percent(load.kv_fraction)} now): kv_cache."
    for rule, what, seen, limit in (
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
        if seen is not None and rule not in fired:
            yield f"{what} above {seconds(limit)} ({seconds(seen)} now): {rule}."


def _more_work(threshold: ThresholdInput) -> Iterator[str]:
    """Feed-forward asks for the next replica past this much work."""
    offered, limits = threshold.situation.offered, threshold.situation.limits
    if offered is None or offered.work is None:
        return
    margin = 1 + headroom(offered, limits, threshold.situation.scaling_inputs).fraction
    carry = threshold.situation.load.weights.carried(threshold.desired - limits.warm_replicas)
    most = carry * offered.carried.usable / margin
    if most <= offered.work:
        return
    each = offered.carried.work_seconds
    requests = f", or {amount(most / each, 'request')} of this kind" if each > 0 else ""
    yield (
        f"More than {significant(most)} GPU-seconds of work per second{requests} "
        f"({significant(offered.work)} now): feed_forward."
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
    return (f"The last replica goes once nothing has been asked for {seconds(after)} (scaleToZeroAfter).",)


def _low_enough(threshold: ThresholdInput) -> Iterator[str]:
    situation, limits, load_window = threshold.situation, threshold.situation.limits, threshold.situation.load_window
    margin, left, carry = 1 + limits.headroom, threshold.down.left, threshold.down.left_carry
    weights = situation.load.weights
    serving = weights.carried(situation.counts.serving) or 1.0
    window = seconds(limits.scale_down_cooldown_seconds)
    yield f"One replica goes once each of these has held for {window} at a stretch:"
    waiting = floor(limits.queue_depth * carry / margin)
    yield f"at most {count(waiting, 'request')} waiting (the most was {number(load_window.waiting_requests)})"
    in_flight = floor((carry * limits.queue_depth + left * limits.max_num_seqs) / margin)
    if load_window.in_flight > in_flight:
        yield f"at most {count(in_flight, 'request')} waiting or running (the most was {number(load_window.in_flight)})"
    share = carry * limits.kv_fraction / margin / serving
    yield (
        f"the KV cache of {count(situation.counts.serving, 'replica')} at most {percent(share)} full "
        f"(the most was {percent(load_window.kv_total / serving)})"
    )
    work = [part.replicas for part in load_window.parts if part.replicas is not None]
    if work:
        most = weights.carried(threshold.down.wanted - limits.warm_replicas) / MARGIN
        yield f"work that asks for at most {number(most)} replicas (the most was {number(max(work))})"
    late = next((part.late for part in reversed(load_window.parts) if part.late), "")
    if late:
        yield f"no latency within {percent(limits.headroom)} of its limit ({late})"
    strain = min(load_window.strains, key=lambda each: each.running_per_replica, default=None)
    if strain is not None:
        yield (
            f"fewer than {number(strain.running_per_replica * carry)} requests running "
            f"(the most was {number(load_window.running_requests)}), since {number(strain.running_per_replica)} per "
            f"replica were too many for {strain.rule} before"
        )
    if situation.counts.draining:
        yield f"no other replica draining ({situation.counts.draining} now)"


def _quantile(seen: Latency | None, quantile: float) -> float | None:
    return None if seen is None else seen.quantile_seconds(quantile)
