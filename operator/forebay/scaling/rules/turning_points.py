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
from forebay.scaling.learning.offered_work import OfferedWork
from forebay.scaling.rules.feed_forward import headroom
from forebay.scaling.rules.stabilizer import MARGIN, ScaleDownInput
from forebay.scaling.scaling_inputs import ScalingInputs

_COOLED: Final = "scaleUpCooldown ({}) is over: guards count again, unless replicas they asked for still load."


@dataclass(frozen=True, slots=True)
class ThresholdInput:
    """Where a service stands, what its rules proposed, and what of it counted."""

    standing: ScaleDownInput
    """What a step down would leave."""
    proposals: tuple[Proposal, ...]
    desired: int
    """What the rules came to."""
    unbounded: int
    """The same without maxReplicas."""
    offered: OfferedWork | None
    scaling_inputs: ScalingInputs
    jumped_at: float
    """When a guard last made the count rise."""
    idle_since: float | None = None
    """From when on nothing has been asked; None while something is, or while that is not known."""


def would_raise(here: ThresholdInput) -> tuple[str, ...]:
    """The smallest change of each signal with which one more replica would be asked for, at least."""
    limits = here.standing.limits
    if here.desired >= limits.max_replicas:
        wanted = f"; {here.unbounded} are asked for" if here.unbounded > limits.max_replicas else ""
        return (f"Only a higher maxReplicas, which is {limits.max_replicas}{wanted}.",)
    return (*_late_signals(here), *_more_work(here))


def would_lower(here: ThresholdInput) -> tuple[str, ...]:
    """What has to hold for one replica less, each value beside the most that was seen."""
    standing = here.standing
    if here.desired > standing.desired or here.desired < standing.desired:
        return ()
    if here.desired <= standing.floor:
        return _floor_holds(here)
    if standing.wanted < 1:
        return _last_replica(standing.limits)
    if not standing.load.complete:
        return ("Nothing, until the load of every replica that serves is known.",)
    return tuple(_low_enough(here))


def ahead(here: ThresholdInput) -> tuple[Due, ...]:
    """The clocks of scaling that still run."""
    standing, limits = here.standing, here.standing.limits
    due: list[Due] = []
    may_jump = here.jumped_at + limits.scale_up_cooldown_seconds
    if may_jump > standing.now and any(proposal.waits_for for proposal in here.proposals):
        due.append(Due(may_jump, _COOLED.format(seconds(limits.scale_up_cooldown_seconds))))
    if here.desired > standing.floor and here.desired == standing.desired and standing.wanted >= 1:
        cooldown = limits.scale_down_cooldown_seconds
        raised, watched = standing.raised_at + cooldown, (standing.load_window.since or standing.now) + cooldown
        if standing.load.complete and max(raised, watched) > standing.now:
            which = "the last rise" if raised >= watched else "the load began to be watched without a gap"
            due.append(
                Due(
                    max(raised, watched),
                    f"scaleDownCooldown ({seconds(cooldown)}) since {which} is over: a replica goes, if the "
                    "load allows it.",
                )
            )
    after = limits.to_zero_after_seconds
    if here.desired == standing.desired == 1 and standing.floor == 0 and after and here.idle_since is not None:
        due.append(Due(here.idle_since + after, "The last replica goes, if nothing is asked until then."))
    return tuple(due)


def _late_signals(here: ThresholdInput) -> Iterator[str]:
    load, limits = here.standing.load, here.standing.limits
    fired = {proposal.rule for proposal in here.proposals}
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


def _more_work(here: ThresholdInput) -> Iterator[str]:
    """Feed-forward asks for the next replica past this much work."""
    offered, limits = here.offered, here.standing.limits
    if offered is None or offered.work is None:
        return
    margin = 1 + headroom(offered, limits, here.scaling_inputs).fraction
    carry = here.standing.load.weights.carried(here.desired - limits.warm_replicas)
    most = carry * offered.carried.usable / margin
    if most <= offered.work:
        return
    each = offered.carried.work_seconds
    requests = f", or {amount(most / each, 'request')} of this kind" if each > 0 else ""
    yield (
        f"More than {significant(most)} GPU-seconds of work per second{requests} "
        f"({significant(offered.work)} now): feed_forward."
    )


def _floor_holds(here: ThresholdInput) -> tuple[str, ...]:
    floor_count = here.standing.floor
    last = next((p for p in reversed(here.proposals) if p.replicas >= floor_count and not p.waits_for), None)
    if floor_count == 0 or last is None:
        return ()
    return (f"Only a lower floor, whatever the load is: {last.because}.",)


def _last_replica(limits: Limits) -> tuple[str, ...]:
    after = limits.to_zero_after_seconds
    if after is None:
        return ("The last replica stays: scaling.scaleToZeroAfter is not set.",)
    return (f"The last replica goes once nothing has been asked for {seconds(after)} (scaleToZeroAfter).",)


def _low_enough(here: ThresholdInput) -> Iterator[str]:
    standing, limits, load_window = here.standing, here.standing.limits, here.standing.load_window
    margin, left, carry = 1 + limits.headroom, here.standing.left, here.standing.left_carry
    weights = standing.load.weights
    serving = weights.carried(standing.serving) or 1.0
    window = seconds(limits.scale_down_cooldown_seconds)
    yield f"One replica goes once each of these has held for {window} at a stretch:"
    waiting = floor(limits.queue_depth * carry / margin)
    yield f"at most {count(waiting, 'request')} waiting (the most was {number(load_window.waiting_requests)})"
    in_flight = floor((carry * limits.queue_depth + left * limits.max_num_seqs) / margin)
    if load_window.in_flight > in_flight:
        yield f"at most {count(in_flight, 'request')} waiting or running (the most was {number(load_window.in_flight)})"
    share = carry * limits.kv_fraction / margin / serving
    yield (
        f"the KV cache of {count(standing.serving, 'replica')} at most {percent(share)} full "
        f"(the most was {percent(load_window.kv_total / serving)})"
    )
    work = [part.replicas for part in load_window.parts if part.replicas is not None]
    if work:
        most = weights.carried(standing.wanted - limits.warm_replicas) / MARGIN
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
    if standing.draining:
        yield f"no other replica draining ({standing.draining} now)"


def _quantile(seen: Latency | None, quantile: float) -> float | None:
    return None if seen is None else seen.quantile_seconds(quantile)
