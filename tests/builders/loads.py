"""Builders for scaling: loads, limits and pod histories."""

from math import inf
from typing import Any, TypeVar

from forebay.api.inference_service import ScalingMode
from forebay.capacity.model.architecture import Architecture
from forebay.capacity.model.engine_profile import BUILT_IN
from forebay.capacity.model.profile_choice import Basis
from forebay.capacity.model.replica_model import EngineModel, Promise
from forebay.scaling.decision import Decision
from forebay.scaling.desired import decide
from forebay.scaling.learning.replica_capacity import ReplicaCapacity
from forebay.scaling.limits import Limits
from forebay.scaling.load.arrivals import ArrivalFlow, RequestLengths
from forebay.scaling.load.observed_latency import Latency
from forebay.scaling.load.pod_history import PodHistory, remember
from forebay.scaling.load.service_load import ServedTokens, ServiceLoad, SilentReplica
from forebay.scaling.replica_weights import EVEN, ReplicaWeights
from forebay.scaling.rules.situation import ReplicaCounts, ScalingMemory, situation_of
from forebay.scaling.rules.situation import remember as remember_count
from forebay.scaling.scaling_inputs import ScalingInputs
from tests.builders.world import NOW, a_histogram, a_sample

Value = TypeVar("Value")


def known(value: Value | None) -> Value:
    """The value, which must not be None."""
    assert value is not None
    return value


def a_load(
    replicas: int = 2,
    *,
    known: int | None = None,
    waiting: float = 0.0,
    running: float = 0.0,
    kv: float = 0.0,
    queue_time: Latency | None = None,
    time_to_first_token: Latency | None = None,
    inter_token_latency: Latency | None = None,
    silent: tuple[SilentReplica, ...] = (),
    draining_requests: float = 0.0,
    flow: ArrivalFlow | None = None,
    served: ServedTokens | None = None,
    finished: float | None = None,
    preempted: float | None = None,
    rejected: float | None = None,
    deferred: float = 0.0,
    active_at: float | None = None,
    ready_since: float = -inf,
    weights: ReplicaWeights = EVEN,
) -> ServiceLoad:
    known = replicas - len(silent) if known is None else known
    return ServiceLoad(
        replicas=replicas,
        known=known,
        waiting_requests=waiting,
        running_requests=running,
        kv_fraction=kv,
        kv_total=kv * weights.capacity_of(known),
        queue_time=queue_time,
        time_to_first_token=time_to_first_token,
        inter_token_latency=inter_token_latency,
        silent=silent,
        draining_requests=draining_requests,
        flow=flow,
        served=served,
        finished_requests=finished,
        preempted_requests=preempted,
        rejected_requests=rejected,
        deferred_requests=deferred,
        active_at=active_at,
        ready_since=ready_since,
        known_weight=None if weights.even else weights.capacity_of(known),
        weights=weights,
    )


def some_limits(**fields: Any) -> Limits:
    """1 to 10 replicas, and the defaults of the API."""
    return Limits(**{"max_replicas": 10, **fields})


def a_latency(observations: dict[float, float]) -> Latency:
    """A latency with so many observations of each value in seconds."""
    histogram = a_histogram(observations)
    return Latency(histogram.bounds, tuple(histogram.counts), histogram.sum)


def a_history(*samples: dict[str, Any], every_seconds: float = 5.0, until: float = NOW) -> PodHistory:
    """Samples given by the arguments of `a_sample`, the last one taken at `until`."""
    history: PodHistory | None = None
    for index, fields in enumerate(samples):
        at = until - every_seconds * (len(samples) - 1 - index)
        history = remember(history, a_sample(**{"at": at, **fields}))
    assert history is not None
    return history


CHAT = RequestLengths(500, 200)
"""Declared lengths of a chat."""


def a_replica_capacity(
    *, declared: RequestLengths | None = CHAT, engines: int = 1, inter_token_latency: float = 0.04, slower: float = 1.0
) -> ReplicaCapacity:
    """An 8B model on an H100: s is 15.89 ms and u 0.745 for 500 tokens in and 200 out, 46.9 requests a second."""
    profile = BUILT_IN["8b-h100"].profile.slowed(slower)
    return ReplicaCapacity(
        engine=EngineModel(profile, kv_tokens=467_000),
        engines=engines,
        promise=Promise(time_to_first_token=0.5, inter_token_latency=inter_token_latency),
        basis=Basis.PROFILE,
        architecture=Architecture(8_000_000_000, layers=32, attention_heads=32, kv_heads=8, head_dim=128),
        declared=declared,
    )


def decided(
    limits: Limits,
    load: ServiceLoad,
    counts: ReplicaCounts,
    mode: ScalingMode,
    memory: ScalingMemory,
    now: float,
    scaling_inputs: ScalingInputs | None = None,
    replica_capacity: ReplicaCapacity | None = None,
) -> tuple[Decision, ScalingMemory]:
    """The decision for a service and the memory after it, without a step that shares GPUs."""
    scaling_inputs = scaling_inputs or ScalingInputs()
    situation = situation_of(limits, load, counts, mode, memory, now, scaling_inputs, replica_capacity)
    decision = decide(situation)
    return decision, remember_count(situation, decision)
