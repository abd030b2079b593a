"""Service load: the present load of the replicas of one service, summed over the samples of their pods.

Only live serving pods count, so no stale gauge of a deleted pod remains. A ready pod without a sample is unknown, never
idle.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import fsum, inf

from forebay.scaling.load.arrivals import ArrivalFlow, flow_of
from forebay.scaling.load.freshness import Ages, Freshness, freshness
from forebay.scaling.load.observed_latency import Latency, latency_of
from forebay.scaling.load.pod_history import MOTIONLESS_SECONDS, PodHistory
from forebay.scaling.load.signals import EngineSample
from forebay.scaling.replica_weights import EVEN, ReplicaWeights


@dataclass(frozen=True, slots=True)
class ReplicaReading:
    """The metrics of one serving or draining replica, from the pod of rank 0."""

    pod: str
    history: PodHistory | None
    ready_since: float
    error: str | None = None
    """Why the last scrape failed."""
    weight: float = 1.0
    """Capacity of the replica, in replicas of the service's own shape."""
    own: bool = True
    """Whether the replica has the service's own shape."""


@dataclass(frozen=True, slots=True)
class SilentReplica:
    """A serving replica without a fresh sample."""

    pod: str
    freshness: Freshness
    since: float
    error: str | None
    new: bool = False
    """Whether its first sample is still to come, because it or this operator has just begun."""


@dataclass(frozen=True, slots=True)
class ServedTokens:
    """Tokens per second that all replicas together processed in the last minute."""

    replicas: int
    """Replicas whose counters are known."""
    prompt_tokens_per_second: float
    """Computed prompt tokens, without those found in a prefix cache."""
    output_tokens_per_second: float
    steps_per_second: float | None = None
    """Engine steps; None unless all of these replicas count them."""


@dataclass(frozen=True, slots=True)
class ServiceLoad:
    replicas: int
    """Serving replicas, with or without a fresh sample."""
    known: int
    """Serving replicas with a fresh sample; all sums are over these."""
    waiting_requests: float
    running_requests: float
    kv_fraction: float
    """Mean of the replicas' smoothed KV use."""
    queue_time: Latency | None = None
    time_to_first_token: Latency | None = None
    inter_token_latency: Latency | None = None
    silent: tuple[SilentReplica, ...] = ()
    draining_requests: float = 0.0
    """Requests in flight on draining replicas: load that the remaining replicas would otherwise have."""
    kv_total: float = 0.0
    """Present KV use, draining replicas included, in full KV caches of a replica of the service's own shape: 1.2 is one
    full cache and a fifth of another."""
    flow: ArrivalFlow | None = None
    """Flow of requests. It includes draining replicas, and the last known flow of replicas without fresh metrics; None
    when no replica has counters."""
    served: ServedTokens | None = None
    finished_requests: float | None = None
    """Requests finished in the last minute on replicas that count them; None when none does. The next two likewise."""
    preempted_requests: float | None = None
    rejected_requests: float | None = None
    missing: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """(pod, series that its engine version should export and that the scrape lacks)."""
    distrusted: tuple[tuple[str, str], ...] = ()
    """(pod, why its counters are not used)."""
    deferred_requests: float = 0.0
    """Requests that wait for an adapter or for remote KV: no reason to scale up, but the service is not idle either."""
    active_at: float | None = None
    """Time of the last request on a serving replica; None when one of them does not count every request."""
    ready_since: float = -inf
    """Time when the last of the replicas became ready."""
    known_weight: float | None = None
    """Capacity of the known replicas, in replicas of the service's own shape; None where every replica has weight 1."""
    weights: ReplicaWeights = EVEN
    """Weights of all existing replicas, the serving ones first."""
    all_own: bool = True
    """Whether all serving replicas have the service's own shape, so that their speed can be compared with its
    profile."""

    @property
    def known_capacity(self) -> float:
        """Capacity of the known replicas, in replicas of the service's own shape."""
        return float(self.known) if self.known_weight is None else self.known_weight

    @property
    def freshness(self) -> Freshness:
        """The worst freshness of all replicas, except those that have just become ready."""
        states = {silent.freshness for silent in self.silent if not silent.new}
        return next((state for state in (Freshness.LOST, Freshness.STALE) if state in states), Freshness.FRESH)

    @property
    def complete(self) -> bool:
        """Whether every serving replica has a fresh sample."""
        return self.replicas > 0 and self.known == self.replicas


def load_of(
    serving: Sequence[ReplicaReading],
    draining: Sequence[ReplicaReading],
    now: float,
    ages: Ages,
    since: float = -inf,
    weights: ReplicaWeights = EVEN,
    watching_since: float = -inf,
) -> ServiceLoad:
    """The load of a service; the order of the readings does not change the sums.

    A replica that this operator has not scraped yet has lost no metrics: their age counts from `watching_since`, when
    the operator began to lead.

    Values over a time span (smoothed KV, latencies) begin at `since`, the time when the number of serving replicas last
    rose: values from before it were measured on fewer replicas.
    """
    readings = by_name(serving)
    states = [(reading, _freshness(reading, now, ages, watching_since)) for reading in readings]
    fresh = [(r.history, r.weight) for r, state in states if state is Freshness.FRESH and r.history is not None]
    known = [history for history, _ in fresh]
    spans = [(oldest, history.newest) for history in known if (oldest := history.oldest(since)) is not None]
    leaving = [
        (reading.history, reading.weight)
        for reading in draining
        if reading.history is not None and _freshness(reading, now, ages, watching_since) is Freshness.FRESH
    ]
    return ServiceLoad(
        replicas=len(serving),
        known=len(known),
        waiting_requests=fsum(history.newest.waiting_requests for history in known),
        running_requests=fsum(history.newest.running_requests for history in known),
        kv_fraction=fsum(history.smoothed_kv_fraction(since) for history in known) / len(known) if known else 0.0,
        queue_time=latency_of((old.queue_time, new.queue_time) for old, new in spans),
        time_to_first_token=latency_of((old.time_to_first_token, new.time_to_first_token) for old, new in spans),
        inter_token_latency=latency_of((old.inter_token_latency, new.inter_token_latency) for old, new in spans),
        silent=tuple(
            _silent(reading, state, now, ages, watching_since)
            for reading, state in states
            if state is not Freshness.FRESH
        ),
        draining_requests=fsum(history.newest.in_flight for history, _ in leaving),
        flow=_flow(
            [(history, weight) for history, weight in fresh if history.flow_span is not None],
            fsum(reading.weight for reading, state in states if not _counts(reading, state, now, ages, watching_since)),
            [history for history, _ in leaving],
        ),
        served=_served(spans),
        finished_requests=_increase(spans, lambda sample: sample.finished_requests),
        preempted_requests=_increase(spans, lambda sample: sample.preemptions),
        rejected_requests=_increase(spans, lambda sample: sample.rejected_requests),
        kv_total=fsum(history.newest.kv_fraction * weight for history, weight in (*fresh, *leaving)),
        deferred_requests=fsum(history.newest.deferred_requests for history in known),
        active_at=_active_at(known),
        ready_since=max((reading.ready_since for reading in serving), default=-inf),
        known_weight=None if weights.even else fsum(weight for _, weight in fresh),
        weights=weights,
        distrusted=_distrusted(readings),
        all_own=all(reading.own for reading in serving),
        missing=_missing(readings),
    )


def by_name(readings: Iterable[ReplicaReading]) -> list[ReplicaReading]:
    return sorted(readings, key=lambda reading: reading.pod)


def _distrusted(readings: Sequence[ReplicaReading]) -> tuple[tuple[str, str], ...]:
    return tuple(
        (reading.pod, reading.history.distrusted_because)
        for reading in readings
        if reading.history is not None and reading.history.distrusted_at is not None
    )


def _missing(readings: Sequence[ReplicaReading]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    return tuple(
        (reading.pod, reading.history.newest.missing)
        for reading in readings
        if reading.history is not None and reading.history.newest.missing
    )


Spans = Sequence[tuple[EngineSample, EngineSample]]
"""For each pod, the samples at the beginning and at the end of the last minute."""


def _increase(spans: Spans, counter: Callable[[EngineSample], float | None]) -> float | None:
    """Increase of a counter, summed over the pods that have it. A restarted process has a new history."""
    ends = [(counter(old), counter(new)) for old, new in spans]
    known = [max(0.0, new - old) for old, new in ends if old is not None and new is not None]
    return fsum(known) if known else None


def _served(spans: Spans) -> ServedTokens | None:
    rates = [
        (max(0.0, p1 - p0) / seconds, max(0.0, g1 - g0) / seconds, _steps(old, new, seconds))
        for old, new in spans
        if (seconds := new.taken_at - old.taken_at) > 0
        and (p0 := old.prompt_tokens) is not None
        and (p1 := new.prompt_tokens) is not None
        and (g0 := old.generation_tokens) is not None
        and (g1 := new.generation_tokens) is not None
    ]
    if not rates:
        return None
    steps = [step for _, _, step in rates if step is not None]
    return ServedTokens(
        len(rates),
        fsum(prompt for prompt, _, _ in rates),
        fsum(output for _, output, _ in rates),
        fsum(steps) if len(steps) == len(rates) else None,
    )


def _steps(old: EngineSample, new: EngineSample, seconds: float) -> float | None:
    if old.engine_steps is None or new.engine_steps is None:
        return None
    return max(0.0, new.engine_steps - old.engine_steps) / seconds


def _flow(
    counted: Sequence[tuple[PodHistory, float]], uncounted_weight: float, leaving: Sequence[PodHistory]
) -> ArrivalFlow | None:
    """The flow through all pods; None when no serving pod counts requests now.

    Serving pods that do not count are taken to get as much as the others: a part of a sum is not the whole.
    """
    share = flow_of(history for history, _ in counted)
    flow = flow_of([*(history for history, _ in counted), *leaving]) if leaving else share
    if share is None or flow is None:
        return None
    return flow.extended(share, uncounted_weight / fsum(weight for _, weight in counted)) if uncounted_weight else flow


def _counts(reading: ReplicaReading, state: Freshness, now: float, ages: Ages, watching_since: float) -> bool:
    """Whether the replica counts requests now, or has had too little time to."""
    history = reading.history
    if history is None:
        return _silent(reading, state, now, ages, watching_since).new
    return history.begins or (state is Freshness.FRESH and history.flow_span is not None)


def _active_at(known: Sequence[PodHistory]) -> float | None:
    if not known or not all(history.counts_requests for history in known):
        return None
    return max(history.active_at for history in known)


def _freshness(reading: ReplicaReading, now: float, ages: Ages, watching_since: float) -> Freshness:
    """Freshness of the last sample. One in which requests make no progress says nothing of the load: it is stale."""
    history = reading.history
    state = freshness(
        None if history is None else history.newest.taken_at, max(reading.ready_since, watching_since), now, ages
    )
    if state is Freshness.FRESH and history is not None and history.motionless(MOTIONLESS_SECONDS):
        return Freshness.STALE
    return state


def _silent(reading: ReplicaReading, state: Freshness, now: float, ages: Ages, watching_since: float) -> SilentReplica:
    history, expected_since = reading.history, max(reading.ready_since, watching_since)
    return SilentReplica(
        pod=reading.pod,
        freshness=state,
        since=expected_since if history is None else history.newest.taken_at,
        error=reading.error,
        new=history is None and now - expected_since <= ages.stale_after_seconds,
    )
