"""Load: what the replicas of one service carry right now, summed up from their pods' samples.

Only live serving pods count, so a pod that is gone leaves no frozen gauge behind. A ready pod without a sample is
unknown, never idle.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import fsum, inf

from forebay.scaling.load.arrivals import ArrivalFlow, flow_of
from forebay.scaling.load.freshness import Ages, Freshness, freshness
from forebay.scaling.load.observed_latency import Latency, observed
from forebay.scaling.load.pod_history import PodHistory
from forebay.scaling.load.signals import EngineSample
from forebay.scaling.replica_weights import EVEN, ReplicaWeights


@dataclass(frozen=True, slots=True)
class ReplicaReading:
    """What is known of one serving or draining replica: the pod that answers for it."""

    pod: str
    history: PodHistory | None
    ready_since: float
    error: str | None = None
    """Why the last scrape gave nothing."""
    weight: float = 1.0
    """What the replica carries, in replicas of the service's own shape."""
    own: bool = True
    """Whether it is of that shape."""


@dataclass(frozen=True, slots=True)
class Silent:
    """A replica that serves and whose load is not known."""

    pod: str
    freshness: Freshness
    since: float
    error: str | None
    new: bool = False
    """Became ready a moment ago; the first sample is on its way."""


@dataclass(frozen=True, slots=True)
class Served:
    """The tokens that replicas worked on in the last minute, per second, all of them together."""

    replicas: int
    """That can tell."""
    prompt_tokens_per_second: float
    """Computed, not spared by a cache."""
    output_tokens_per_second: float
    steps_per_second: float | None = None
    """None where not all of them count their steps."""


@dataclass(frozen=True, slots=True)
class ServiceLoad:
    replicas: int
    """That serve, known or not."""
    known: int
    """Of them, those with a fresh sample; all sums are over these."""
    waiting_requests: float
    running_requests: float
    kv_fraction: float
    """Mean over the replicas of each one's smoothed KV use."""
    queue_time: Latency | None = None
    time_to_first_token: Latency | None = None
    inter_token_latency: Latency | None = None
    silent: tuple[Silent, ...] = ()
    draining_requests: float = 0.0
    """In flight on replicas that drain: load that those which stay would have carried."""
    kv_total: float = 0.0
    """KV use of this very moment in full replicas of the service's own shape, draining ones included: 1.2 fills one and
    a fifth of another."""
    flow: ArrivalFlow | None = None
    """What goes through, draining replicas included, and silent ones as they were last; None when nobody tells."""
    served: Served | None = None
    finished_requests: float | None = None
    """In the last minute, by the replicas that can tell; None when none can. So are the next two."""
    preempted_requests: float | None = None
    rejected_requests: float | None = None
    missing: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """(pod, series that its engine version should export and that its answer lacks)."""
    deferred_requests: float = 0.0
    """Waiting for an adapter or for remote KV: no reason to scale up, but not idleness either."""
    active_at: float | None = None
    """When a request was last seen on a replica that serves; None when one of them would not show every request."""
    ready_since: float = -inf
    """When the last of the replicas became ready."""
    known_weight: float | None = None
    """What those with a fresh sample carry together, in replicas of the service's own shape; None where all are."""
    weights: ReplicaWeights = EVEN
    """Of all replicas there are, those that serve first."""
    all_own: bool = True
    """Whether all that serve are of the service's own shape, so that they show what its profile is worth."""

    @property
    def known_carry(self) -> float:
        """The known ones, counted by what they carry."""
        return float(self.known) if self.known_weight is None else self.known_weight

    @property
    def freshness(self) -> Freshness:
        """The worst of all replicas; those that have just become ready are forgiven."""
        states = {silent.freshness for silent in self.silent if not silent.new}
        return next((state for state in (Freshness.LOST, Freshness.STALE) if state in states), Freshness.FRESH)

    @property
    def complete(self) -> bool:
        """Whether every replica that serves is known."""
        return self.replicas > 0 and self.known == self.replicas


def load_of(
    serving: Sequence[ReplicaReading],
    draining: Sequence[ReplicaReading],
    now: float,
    ages: Ages,
    since: float = -inf,
    weights: ReplicaWeights = EVEN,
) -> ServiceLoad:
    """Sums do not depend on the order of the readings.

    What looks back (smoothed KV, latencies) begins at `since`, the time when the replicas that serve last became more:
    what was seen before was suffered by fewer.
    """
    states = [(reading, _freshness(reading, now, ages)) for reading in by_name(serving)]
    fresh = [(r.history, r.weight) for r, state in states if state is Freshness.FRESH and r.history is not None]
    known = [history for history, _ in fresh]
    spans = [(oldest, history.newest) for history in known if (oldest := history.oldest(since)) is not None]
    leaving = [
        (reading.history, reading.weight)
        for reading in draining
        if reading.history is not None and _freshness(reading, now, ages) is Freshness.FRESH
    ]
    return ServiceLoad(
        replicas=len(serving),
        known=len(known),
        waiting_requests=fsum(history.newest.waiting_requests for history in known),
        running_requests=fsum(history.newest.running_requests for history in known),
        kv_fraction=fsum(history.smoothed_kv_fraction(since) for history in known) / len(known) if known else 0.0,
        queue_time=observed((old.queue_time, new.queue_time) for old, new in spans),
        time_to_first_token=observed((old.time_to_first_token, new.time_to_first_token) for old, new in spans),
        inter_token_latency=observed((old.inter_token_latency, new.inter_token_latency) for old, new in spans),
        silent=tuple(_silent(reading, state, now, ages) for reading, state in states if state is not Freshness.FRESH),
        draining_requests=fsum(history.newest.in_flight for history, _ in leaving),
        flow=flow_of(r.history for r in (*(r for r, _ in states), *by_name(draining)) if r.history is not None),
        served=_served(spans),
        finished_requests=_gained(spans, lambda sample: sample.finished_requests),
        preempted_requests=_gained(spans, lambda sample: sample.preemptions),
        rejected_requests=_gained(spans, lambda sample: sample.rejected_requests),
        kv_total=fsum(history.newest.kv_fraction * weight for history, weight in (*fresh, *leaving)),
        deferred_requests=fsum(history.newest.deferred_requests for history in known),
        active_at=_active_at(known),
        ready_since=max((reading.ready_since for reading in serving), default=-inf),
        known_weight=None if weights.even else fsum(weight for _, weight in fresh),
        weights=weights,
        all_own=all(reading.own for reading in serving),
        missing=tuple(
            (reading.pod, reading.history.newest.missing)
            for reading, _ in states
            if reading.history is not None and reading.history.newest.missing
        ),
    )


def by_name(readings: Iterable[ReplicaReading]) -> list[ReplicaReading]:
    return sorted(readings, key=lambda reading: reading.pod)


Spans = Sequence[tuple[EngineSample, EngineSample]]
"""Of each pod, the samples at the beginning and at the end of the last minute."""


def _gained(spans: Spans, counter: Callable[[EngineSample], float | None]) -> float | None:
    """How far a counter went, over the pods that have it. A process that began anew has a history of its own."""
    ends = [(counter(old), counter(new)) for old, new in spans]
    known = [max(0.0, new - old) for old, new in ends if old is not None and new is not None]
    return fsum(known) if known else None


def _served(spans: Spans) -> Served | None:
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
    return Served(
        len(rates),
        fsum(prompt for prompt, _, _ in rates),
        fsum(output for _, output, _ in rates),
        fsum(steps) if len(steps) == len(rates) else None,
    )


def _steps(old: EngineSample, new: EngineSample, seconds: float) -> float | None:
    if old.engine_steps is None or new.engine_steps is None:
        return None
    return max(0.0, new.engine_steps - old.engine_steps) / seconds


def _active_at(known: Sequence[PodHistory]) -> float | None:
    if not known or not all(history.counts_requests for history in known):
        return None
    return max(history.active_at for history in known)


def _freshness(reading: ReplicaReading, now: float, ages: Ages) -> Freshness:
    taken_at = None if reading.history is None else reading.history.newest.taken_at
    return freshness(taken_at, reading.ready_since, now, ages)


def _silent(reading: ReplicaReading, state: Freshness, now: float, ages: Ages) -> Silent:
    history = reading.history
    return Silent(
        pod=reading.pod,
        freshness=state,
        since=reading.ready_since if history is None else history.newest.taken_at,
        error=reading.error,
        new=history is None and now - reading.ready_since <= ages.stale_after_seconds,
    )
