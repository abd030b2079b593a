"""Guards: signals that requests are already late, whatever feed-forward computed.

A guard looks at one signal and proposes a replica count, or nothing. It sees no clock, no cluster and no other guard.
Guards only raise the count and never lower it. Each proposes one bounded step. If more replicas cannot improve a
signal, it costs one step per cooldown and not the whole fleet.
"""

from collections.abc import Callable
from typing import Final

from forebay.scaling.decision import Proposal, count, number, percent, seconds
from forebay.scaling.limits import Limits
from forebay.scaling.load.observed_latency import Latency
from forebay.scaling.load.service_load import ServiceLoad

LARGEST_STEP: Final = 1.5
"""Largest factor in one step. Whether more is needed is decided once the new replicas serve."""
FEWEST_LATE: Final = 3
"""Requests above a limit before a latency counts; one slow request on a quiet service is not an overload."""
FEWEST_TOKENS: Final = 100
"""Inter-token intervals that have to be observed before their mean counts."""
PREEMPTED_SHARE: Final = 0.01
"""Preempted requests per finished request from which on preemptions count."""


def queue_depth(load: ServiceLoad, limits: Limits) -> Proposal | None:
    """Enough replicas to bring waiting requests back to the target per replica, with headroom.

    Only requests that wait for capacity count: those deferred for an adapter or a remote KV block would not start
    sooner on another replica (vLLM `num_requests_waiting_by_reason`).
    """
    allowed = limits.queue_depth * load.known_capacity
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
    """Enough replicas to bring the 99th percentile of the queue wait, the time before the first step, to its limit."""
    return _late(load, limits, load.queue_time, 0.99, limits.queue_wait_seconds, "queue_wait", "queue wait (p99)")


def time_to_first_token(load: ServiceLoad, limits: Limits) -> Proposal | None:
    """Enough replicas to bring the 95th percentile of the time to first token to its limit."""
    latency, limit = load.time_to_first_token, limits.time_to_first_token_seconds
    return _late(load, limits, latency, 0.95, limit, "time_to_first_token", "time to first token (p95)")


def inter_token_latency(load: ServiceLoad, limits: Limits) -> Proposal | None:
    """Enough replicas to bring the mean inter-token latency to its limit.

    A step takes T = a/(1 − w), with w the share of time spent on work. The part a does not depend on load and cannot be
    divided among more replicas, so the replica count has to grow by (1 − a/T)/(1 − a/ITL), with ITL the limit. While no
    profile gives a, the factor is T/ITL.
    """
    latency, limit = load.inter_token_latency, limits.inter_token_latency_seconds
    mean = None if latency is None or latency.count < FEWEST_TOKENS else latency.mean_seconds
    reached = limit * limits.latency_share
    if mean is None or mean <= reached or _too_few_requests(load):
        return None
    return Proposal(
        replicas=_stepped(load, _excess(mean, reached, limits.idle_token_seconds), limits),
        rule="inter_token_latency",
        because=f"inter-token latency (mean) was {seconds(mean)} over the last minute, limit {seconds(limit)}",
    )


def preemptions(load: ServiceLoad, limits: Limits) -> Proposal | None:
    """At least one more replica while requests are evicted from a full KV cache and have to be computed again.

    The mean KV use does not show one full replica among others that are not full; preemptions do.
    """
    preempted, finished = load.preempted_requests, load.finished_requests or 0.0
    if preempted is None or preempted < max(FEWEST_LATE, PREEMPTED_SHARE * finished) or _too_few_requests(load):
        return None
    return Proposal(
        replicas=max(_stepped(load, 1.0, limits), load.replicas + 1),
        rule="preemptions",
        because=f"{count(round(preempted), 'request')} were preempted from a full KV cache in the last minute, on "
        f"{count(load.known, 'replica')}",
    )


def admission_rejections(load: ServiceLoad, limits: Limits) -> Proposal | None:
    """At least one more replica while engines reject requests. These wait in no queue, so no other guard sees them."""
    rejected, finished = load.rejected_requests, load.finished_requests or 0.0
    if rejected is None or rejected < FEWEST_LATE or _too_few_requests(load):
        return None
    ratio = (finished + rejected) / finished if finished else LARGEST_STEP
    return Proposal(
        replicas=max(_stepped(load, ratio, limits), load.replicas + 1),
        rule="admission_rejections",
        because=f"{number(rejected)} of {count(round(finished + rejected), 'request')} were rejected in the last "
        "minute",
    )


Guard = Callable[[ServiceLoad, Limits], Proposal | None]
LATENCY_GUARDS: Final[tuple[Guard, ...]] = (queue_wait, time_to_first_token, inter_token_latency)
GUARDS: Final[tuple[Guard, ...]] = (queue_depth, kv_cache, *LATENCY_GUARDS, preemptions, admission_rejections)


def propose(load: ServiceLoad, limits: Limits) -> tuple[Proposal, ...]:
    """The proposals of all guards that fire, in the order of `GUARDS`."""
    return tuple(proposal for guard in GUARDS if (proposal := guard(load, limits)))


def late(load: ServiceLoad, limits: Limits) -> Proposal | None:
    """The proposal for the first latency above its limit, if there is one."""
    return next((proposal for guard in LATENCY_GUARDS if (proposal := guard(load, limits))), None)


def _late(
    load: ServiceLoad, limits: Limits, latency: Latency | None, quantile: float, limit: float, rule: str, name: str
) -> Proposal | None:
    """A proposal if the quantile of the latency exceeds the limit. Without observations there is no proposal."""
    value = None if latency is None else latency.quantile_seconds(quantile)
    reached = limit * limits.latency_share
    if (
        latency is None
        or value is None
        or value <= reached
        or latency.above(reached) < FEWEST_LATE
        or _too_few_requests(load)
    ):
        return None
    return Proposal(
        replicas=_stepped(load, value / reached if reached else LARGEST_STEP, limits),
        rule=rule,
        because=f"{name} was {seconds(value)} over the last minute, limit {seconds(limit)}",
    )


def _excess(mean: float, limit: float, idle: float | None) -> float:
    """Factor by which the work per replica exceeds the work at which the latency equals its limit."""
    if limit <= 0:
        return LARGEST_STEP
    if idle is None or idle >= limit:
        return mean / limit
    return (1 - idle / mean) / (1 - idle / limit)


def _too_few_requests(load: ServiceLoad) -> bool:
    """Whether there is less than one request per replica. Then requests do not delay each other, and more replicas do
    not help."""
    return load.running_requests + load.waiting_requests < load.known


def _stepped(load: ServiceLoad, ratio: float, limits: Limits) -> int:
    """Replica count for the ratio of the measured to the allowed value, with headroom, within the largest step."""
    serving = load.weights.capacity_of(load.replicas)
    return load.weights.replicas_for(serving * min(ratio * (1 + limits.headroom), LARGEST_STEP))
