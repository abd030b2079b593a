"""Normalized tokens: the unit of shares, limits and charges.

The same replica carries several times as many tokens of one mix of lengths as of another, so plain tokens would promise
what no replica can keep. One normalized token is the work that a token costs at the declared mix (`spec.traffic`): a
request of I prompt and O output tokens costs s GPU-seconds there, so one GPU-second is (I + O)/s normalized tokens.
Without a declared mix, the measured one takes its place, and a normalized token is an ordinary one.

Prompt tokens that a prefix cache spares cost no work, so they are not charged.
"""

from dataclasses import dataclass

from forebay.capacity.model.replica_model import EngineModel, Mix, prompt_seconds, work_seconds
from forebay.scaling.learning.offered_work import OfferedWork, lengths_of
from forebay.scaling.learning.replica_capacity import Refinement, ReplicaCapacity, refined
from forebay.scaling.load.arrivals import Arrivals, RequestLengths
from forebay.scaling.load.service_load import ServedTokens, ServiceLoad


@dataclass(frozen=True, slots=True)
class TokenRates:
    """The rates of one service, in normalized tokens per minute. A rate is None while it is unknown."""

    per_replica: float | None = None
    """What one replica of the service's own shape carries."""
    carried: float | None = None
    """What its serving replicas carry."""
    asked: float | None = None
    """What arrives, whether or not it is served."""
    used: float | None = None
    """What its engines work off."""


UNKNOWN = TokenRates()


def token_rates(
    replica_capacity: ReplicaCapacity | None,
    refinement: Refinement | None,
    arrivals: Arrivals,
    offered_work: OfferedWork | None,
    load: ServiceLoad,
    earlier: RequestLengths | None,
    before: TokenRates,
) -> TokenRates:
    """The rates with one more observation. While replicas serve and nobody counts their tokens, the last known rates
    stay, since missing is not zero; a service without replicas uses nothing."""
    lengths = None if replica_capacity is None else lengths_of(replica_capacity, arrivals, earlier)
    if replica_capacity is None or lengths is None or offered_work is None:
        return UNKNOWN
    engine = refined(replica_capacity.engine, refinement)
    tokens = _tokens_per_gpu_second(engine, replica_capacity, replica_capacity.declared or lengths)
    if tokens is None:
        return UNKNOWN
    per_replica = 60 * tokens * offered_work.capacity.usable
    served = _served_work(engine, replica_capacity.mix(lengths), load.served, load.replicas)
    used = 0.0 if load.replicas == 0 else before.used if served is None else 60 * tokens * served
    asked = before.asked if offered_work.work is None else 60 * tokens * offered_work.work
    return TokenRates(
        per_replica=per_replica,
        carried=per_replica * load.weights.capacity_of(load.replicas),
        asked=used if asked is None or (used is not None and used > asked) else asked,
        used=used,
    )


def _tokens_per_gpu_second(
    engine: EngineModel, replica_capacity: ReplicaCapacity, lengths: RequestLengths
) -> float | None:
    """(I + O)/s: how many tokens one GPU-second works off at this mix."""
    work = work_seconds(engine, replica_capacity.mix(lengths))
    return (lengths.prompt_tokens + lengths.output_tokens) / work if work > 0 else None


def _served_work(engine: EngineModel, mix: Mix, served: ServedTokens | None, replicas: int) -> float | None:
    """GPU-seconds of work per second that all serving replicas did in the last minute; None when nobody counts.

    Replicas that do not count are taken to do as much as the others: a part of a sum is not the whole.
    """
    if served is None or not served.replicas:
        return None
    step = engine.step_profile
    prefill = prompt_seconds(engine, mix) / mix.prompt_tokens if mix.prompt_tokens > 0 else step.prompt_token_seconds
    decode = (step.sequence_seconds + step.kv_token_seconds * mix.held_tokens) / engine.tokens_per_step
    work = prefill * served.prompt_tokens_per_second + decode * served.output_tokens_per_second
    return work * max(1.0, replicas / served.replicas)
