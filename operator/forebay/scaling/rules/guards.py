"""Guards: signs that a service is already late, whatever the plan said.

A guard looks at one signal and proposes a replica count, or nothing. It sees no clock, no cluster and no other guard.
Guards correct a plan upwards, they never lower it. Each answers with one bounded step, so that a signal that cannot be
cured by replicas costs one step per cooldown and not the whole fleet.
"""

from collections.abc import Callable
from typing import Final

from forebay.scaling.decision import Proposal, count, number, percent, seconds
from forebay.scaling.limits import Limits
from forebay.scaling.load.observed_latency import Latency
from forebay.scaling.load.service_load import ServiceLoad

LARGEST_STEP: Final = 1.5
"""At most half as many again at once: the next look, with the new replicas serving, decides on more."""
FEWEST_LATE: Final = 3
"""Requests beyond a limit before a latency counts; one slow request on a quiet service is no load."""
FEWEST_TOKENS: Final = 100
PREEMPTED_SHARE: Final = 0.01
"""Of the requests that finish, preempted ones that are no matter of chance."""


def queue_depth(load: ServiceLoad, limits: Limits) -> Proposal | None:
    """Enough replicas to bring waiting requests back to the target per replica, with headroom.

    Only requests that wait for capacity count: those deferred for an adapter or a remote KV block would not start
    sooner on another replica (vLLM `num_requests_waiting_by_reason`).
    """
    allowed = limits.queue_depth * load.known_carry
    if load.waiting_requests <= allowed:
        return None
    return Proposal(
        replicas=_stepped(load, load.waiting_requests / allowed if allowed else LARGEST_STEP, limits),
        rule="queue_depth",
        because=f"{number(load.waiting_requests)} requests wait on {count(load.known, 'replica')}, "
        f"target {number(limits.queue_depth)} each",
    )


def kv_cache(load: ServiceLoad, limits: Limits) -> Proposal | None:
    """Enough replicas to bring the KV cache back to its target: a full cache preempts, and preempted work is redone."""
    if not load.known or load.kv_fraction <= limits.kv_fraction:
        return None
    return Proposal(
        replicas=_stepped(load, load.kv_fraction / limits.kv_fraction if limits.kv_fraction else LARGEST_STEP, limits),
        rule="kv_cache",
        because=f"the KV cache of {count(load.known, 'replica')} is {percent(load.kv_fraction)} full "
        f"(highest of the last minute), target {percent(limits.kv_fraction)}",
    )


def queue_wait(load: ServiceLoad, limits: Limits) -> Proposal | None:
    """The 99th percentile of the time that requests waited before their first step."""
    return _late(load, limits, load.queue_time, 0.99, limits.queue_wait_seconds, "queue_wait", "queue wait (p99)")


def time_to_first_token(load: ServiceLoad, limits: Limits) -> Proposal | None:
    """The 95th percentile of the time to the first token."""
    seen, limit = load.time_to_first_token, limits.time_to_first_token_seconds
    return _late(load, limits, seen, 0.95, limit, "time_to_first_token", "time to first token (p95)")


def inter_token_latency(load: ServiceLoad, limits: Limits) -> Proposal | None:
    """The mean time between two tokens.

    A step takes T = a / (1 − w): its part `a` does not depend on load and cannot be divided among more replicas, so the
    replicas have to grow by (1 − a/T) / (1 − a/ITL). While no profile tells `a`, by the excess itself.
    """
    seen, limit = load.inter_token_latency, limits.inter_token_latency_seconds
    mean = None if seen is None or seen.count < FEWEST_TOKENS else seen.mean_seconds
    reached = limit * limits.latency_share
    if mean is None or mean <= reached or _alone(load):
        return None
    return Proposal(
        replicas=_stepped(load, _excess(mean, reached, limits.idle_token_seconds), limits),
        rule="inter_token_latency",
        because=f"inter-token latency (mean) was {seconds(mean)} over the last minute, limit {seconds(limit)}",
    )


def preemptions(load: ServiceLoad, limits: Limits) -> Proposal | None:
    """Requests that were thrown out of a full KV cache, to be computed again: their users wait twice.

    It sees what the mean use of the cache hides: one replica that is full while others are not.
    """
    preempted, finished = load.preempted_requests, load.finished_requests or 0.0
    if preempted is None or preempted < max(FEWEST_LATE, PREEMPTED_SHARE * finished) or _alone(load):
        return None
    return Proposal(
        replicas=max(_stepped(load, 1.0, limits), load.replicas + 1),
        rule="preemptions",
        because=f"{count(round(preempted), 'request')} lost their place in a full KV cache in the last minute, on "
        f"{count(load.known, 'replica')}",
    )


def admission_rejections(load: ServiceLoad, limits: Limits) -> Proposal | None:
    """Requests that engines turned away: they wait in no queue, so no other guard sees them."""
    rejected, finished = load.rejected_requests, load.finished_requests or 0.0
    if rejected is None or rejected < FEWEST_LATE or _alone(load):
        return None
    ratio = (finished + rejected) / finished if finished else LARGEST_STEP
    return Proposal(
        replicas=max(_stepped(load, ratio, limits), load.replicas + 1),
        rule="admission_rejections",
        because=f"{number(rejected)} of {count(round(finished + rejected), 'request')} were turned away in the last "
        "minute",
    )


Guard = Callable[[ServiceLoad, Limits], Proposal | None]
LATENCY_GUARDS: Final[tuple[Guard, ...]] = (queue_wait, time_to_first_token, inter_token_latency)
GUARDS: Final[tuple[Guard, ...]] = (queue_depth, kv_cache, *LATENCY_GUARDS, preemptions, admission_rejections)


def propose(load: ServiceLoad, limits: Limits) -> tuple[Proposal, ...]:
    """What every guard that fires proposes, in the order of `GUARDS`."""
    return tuple(proposal for guard in GUARDS if (proposal := guard(load, limits)))


def late(load: ServiceLoad, limits: Limits) -> Proposal | None:
    """The first latency that is past its limit, if any is."""
    return next((proposal for guard in LATENCY_GUARDS if (proposal := guard(load, limits))), None)


def _late(
    load: ServiceLoad, limits: Limits, seen: Latency | None, quantile: float, limit: float, rule: str, what: str
) -> Proposal | None:
    """Counters that stand still are no violation: nobody waited."""
    value = None if seen is None else seen.quantile_seconds(quantile)
    reached = limit * limits.latency_share
    if seen is None or value is None or value <= reached or seen.above(reached) < FEWEST_LATE or _alone(load):
        return None
    return Proposal(
        replicas=_stepped(load, value / reached if reached else LARGEST_STEP, limits),
        rule=rule,
        because=f"{what} was {seconds(value)} over the last minute, limit {seconds(limit)}",
    )


def _excess(mean: float, limit: float, idle: float | None) -> float:
    """By how much the work on each replica exceeds what keeps the limit."""
    if limit <= 0:
        return LARGEST_STEP
    if idle is None or idle >= limit:
        return mean / limit
    return (1 - idle / mean) / (1 - idle / limit)


def _alone(load: ServiceLoad) -> bool:
    """Less than one request per replica: nobody is late because of somebody else, so more replicas cure nothing."""
    return load.running_requests + load.waiting_requests < load.known


def _stepped(load: ServiceLoad, ratio: float, limits: Limits) -> int:
    """What the ratio of measured to allowed asks for, with headroom, within the largest step."""
    serving = load.weights.carried(load.replicas)
    return load.weights.replicas_for(serving * min(ratio * (1 + limits.headroom), LARGEST_STEP))
