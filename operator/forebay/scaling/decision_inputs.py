"""The numbers behind a decision, as people read them in `status.decision.inputs`.

Numbers are rounded, so that noise does not change the status and an unchanged status is not written again.
"""

from collections.abc import Iterable
from typing import Final

from forebay.capacity.model.replica_model import Bound
from forebay.scaling.decision import Proposal, amount, count, number, percent, seconds, significant
from forebay.scaling.learning.offered_work import ARRIVALS_UNKNOWN
from forebay.scaling.limits import Limits
from forebay.scaling.load.idleness import idle_text
from forebay.scaling.load.observed_latency import Latency
from forebay.scaling.load.service_load import ServiceLoad
from forebay.scaling.rules.feed_forward import headroom
from forebay.scaling.rules.situation import Situation

BOUND_BY: Final = {
    Bound.ITL: "the time between tokens",
    Bound.KV: "the size of the KV cache",
    Bound.SEQUENCES: "maxNumSeqs",
}


def inputs_of(situation: Situation, proposals: Iterable[Proposal]) -> dict[str, str]:
    inputs = {
        **_idle(situation),
        **_counts(situation),
        **_load(situation.load, situation.limits),
        **_work(situation),
    }
    for proposal in proposals:
        waits = f", waits for {proposal.waits_for}" if proposal.waits_for else ""
        inputs[f"rule.{proposal.rule}"] = f"{count(proposal.replicas, 'replica')}{waits}"
    return inputs


def _idle(situation: Situation) -> dict[str, str]:
    after_seconds = situation.limits.to_zero_after_seconds
    if after_seconds is None or situation.desired == 0:
        return {}
    return {"idle": idle_text(situation.idleness, after_seconds)}


def _counts(situation: Situation) -> dict[str, str]:
    limits, counts = situation.limits, situation.counts
    inputs = {
        "bounds": f"{limits.min_replicas} to {limits.max_replicas} replicas",
        "serving": str(counts.serving),
        "loading": str(counts.loading),
    }
    if counts.blocked:
        inputs["stuck"] = str(counts.blocked)
    if counts.stalled:
        inputs["stalled"] = str(counts.stalled)
    return inputs


def _load(load: ServiceLoad, limits: Limits) -> dict[str, str]:
    inputs = {"metrics": str(load.freshness) if load.replicas else "none: no replica is serving"}
    if load.known:
        inputs["waiting"] = f"{_requests(load.waiting_requests)}, target {number(limits.queue_depth)} per replica"
        inputs["running"] = _requests(load.running_requests)
        inputs["kvCache"] = f"{percent(load.kv_fraction)}, target {percent(limits.kv_fraction)}"
    for name, value, limit in (
        ("queueWait", _quantile(load.queue_time, 0.99), limits.queue_wait_seconds),
        ("timeToFirstToken", _quantile(load.time_to_first_token, 0.95), limits.time_to_first_token_seconds),
        ("interTokenLatency", _mean(load.inter_token_latency), limits.inter_token_latency_seconds),
    ):
        if value is not None:
            inputs[name] = f"{seconds(value)}, limit {seconds(limit)}"
    for name, value, outcome in (
        ("preemptions", load.preempted_requests, "preempted"),
        ("rejections", load.rejected_requests, "rejected"),
    ):
        if value:
            inputs[name] = f"{count(round(value), 'request')} {outcome} in the last minute"
    return inputs


def _work(situation: Situation) -> dict[str, str]:
    """Offered work, capacity of a replica and headroom; or the reason why feed-forward proposes nothing."""
    offered_work = situation.offered_work
    if offered_work is None:
        return {"offeredWork": situation.unknown_because}
    capacity, lengths, work = offered_work.capacity, offered_work.lengths, offered_work.work
    declared = "" if lengths.requests else ", declared"
    inputs = {
        "offeredWork": ARRIVALS_UNKNOWN
        if work is None
        else f"{significant(work)} GPU-seconds per second: "
        f"{amount(offered_work.requests_per_second or 0.0, 'request')} of "
        f"{seconds(capacity.work_seconds)}{offered_work.held_clause}",
        "lengths": f"{lengths.prompt_tokens:.0f} tokens in, {lengths.output_tokens:.0f} out{declared}",
        "capacity": f"{significant(capacity.usable)} GPU-seconds per second and replica ({capacity.basis}), bound by "
        f"{BOUND_BY[capacity.bound]}",
    }
    if work is not None:
        inputs["headroom"] = str(headroom(offered_work, situation.limits, situation.scaling_inputs))
    return inputs


def _requests(requests: float) -> str:
    shown = number(requests)
    return f"{shown} request" if shown == "1" else f"{shown} requests"


def _quantile(latency: Latency | None, quantile: float) -> float | None:
    return None if latency is None else latency.quantile_seconds(quantile)


def _mean(latency: Latency | None) -> float | None:
    return None if latency is None else latency.mean_seconds
