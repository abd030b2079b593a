"""What came of a run: every offered request, every replica, and the figures that policies are compared by.

Attainment counts all offered requests: what was shed, failed or not finished has missed. Requests that no policy could
have served in time, because an idle replica could not, are counted apart and left out of nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from forebay.capacity.model.engine_profile import EngineProfile
from forebay.capacity.model.replica_model import EngineModel, Mix, Promise, capacity
from forebay.simulation.cluster.gateway_model import RequestLog, RequestState
from forebay.simulation.cluster.served_model import ServedModel
from forebay.simulation.cluster.simulated_replica import SimulatedReplica
from forebay.simulation.engine.replica_engine import EngineLimits
from forebay.simulation.traffic.traces import Flags, Floats, Trace
from forebay.world.world import ServiceKey

DAY_SECONDS = 86_400.0
INTERACTIVE, BATCH = "interactive", "batch"
"""Classes of work, as a quota gives them to a tenant or a key."""
RECOVERY_STEP_SECONDS = 30.0
PROMISED_SHARE = 0.95
"""Of the requests a promise speaks of."""
NEED_WINDOW_SECONDS = 60.0
"""The need at a moment rests on what arrives within half of that before and after it."""


@dataclass(frozen=True, slots=True)
class Tick:
    """The service at a moment."""

    at: float
    desired: int
    serving: int
    loading: int
    blocked: int
    draining: int
    """Or ending."""
    waiting: int
    """In the engines' queues and held by the gateway."""
    running: int
    kv_fraction: float
    """Mean over those that serve."""

    @staticmethod
    def of(at: float, replicas: Sequence[SimulatedReplica], desired: int, held: int) -> Tick:
        first = [replica for replica in replicas if replica.view.rank == 0]
        serving = [replica.engine for replica in first if replica.in_rotation and replica.engine is not None]
        engines = [replica.engine for replica in first if replica.engine is not None]
        leaving = sum(r.view.deleting or r.view.drain_started_at is not None for r in first)
        loading = [r for r in first if r.loading]
        blocked = sum(r.view.blocked is not None for r in loading)
        return Tick(
            at=at,
            desired=desired,
            serving=len(serving),
            loading=len(loading) - blocked,
            blocked=blocked,
            draining=leaving,
            waiting=held + sum(engine.waiting for engine in engines),
            running=sum(engine.running for engine in engines),
            kv_fraction=sum(engine.kv_fraction for engine in serving) / len(serving) if serving else 0.0,
        )


@dataclass(frozen=True, slots=True)
class Percentiles:
    """Of finished requests, in seconds."""

    p50: float
    p95: float
    p99: float

    @staticmethod
    def of(values: Floats) -> Percentiles:
        if not len(values):
            return Percentiles(0.0, 0.0, 0.0)
        p50, p95, p99 = np.percentile(values, (50, 95, 99)).tolist()
        return Percentiles(p50, p95, p99)


@dataclass(frozen=True, slots=True)
class ClassShare:
    """How one class of requests fared."""

    offered: int
    attainment: float


@dataclass(frozen=True, slots=True)
class Summary:
    """Shares are of all offered requests."""

    offered: int
    attainment: float
    """In time to the first token and in the mean time between tokens."""
    impossible: float
    """Not in time even on an idle replica."""
    shed: int
    failed: int
    unfinished: int
    refused: int
    time_to_first_token: Percentiles
    """From the arrival at the gateway."""
    inter_token_latency: Percentiles
    """Of the requests' means."""
    gpu_hours: float
    """Of everything that held a GPU, starting and ending pods too."""
    changes_per_day: float
    """Of the number of replicas wanted."""
    most_replicas: int
    """Wanted at once."""


@dataclass(frozen=True, slots=True, eq=False)
class RunOutcome:
    key: ServiceKey
    seconds: float
    trace: Trace
    log: RequestLog
    ticks: tuple[Tick, ...]
    gpu_seconds: float
    changes: tuple[tuple[float, int], ...]
    """(time, replicas wanted from then on); the first is where it began."""
    model: ServedModel

    @property
    def offered(self) -> int:
        return len(self.log.state)

    @property
    def first_token_seconds(self) -> Floats:
        """From arrival; NaN where there was none."""
        seconds: Floats = np.array(self.log.first_token) - self.trace.times[: self.offered]
        return seconds

    def in_time(self, promise: Promise) -> Flags:
        """By request."""
        done: Flags = np.array(self.log.state) == RequestState.DONE
        first, token = self.first_token_seconds, np.array(self.log.token_seconds)
        with np.errstate(invalid="ignore"):
            kept: Flags = done & (first <= self._first_limit(promise)) & (token <= promise.inter_token_latency)
            if promise.end_to_end is not None:
                kept &= np.array(self.log.finished) - self.trace.times[: self.offered] <= promise.end_to_end
        return kept

    def _first_limit(self, promise: Promise) -> Floats:
        """Seconds from arrival that each request's first token may take."""
        prompt, computed = (column[: self.offered] for column in prompt_and_computed_tokens(self.trace))
        limit: Floats = promise.time_to_first_token + self.model.allowed(prompt, computed)
        return limit

    def summary(self, promise: Promise) -> Summary:
        states = (
            np.bincount(np.array(self.log.state, dtype=np.int64), minlength=len(RequestState))
            if self.offered
            else [0] * 5
        )
        first, token = self.first_token_seconds, np.array(self.log.token_seconds)
        return Summary(
            offered=self.offered,
            attainment=float(self.in_time(promise).mean()) if self.offered else 1.0,
            impossible=float((~self.possible(promise)).mean()) if self.offered else 0.0,
            shed=int(states[RequestState.SHED]),
            failed=int(states[RequestState.FAILED]),
            unfinished=int(states[RequestState.UNFINISHED]),
            refused=int(states[RequestState.REFUSED]),
            time_to_first_token=Percentiles.of(first[~np.isnan(first)]),
            inter_token_latency=Percentiles.of(token[~np.isnan(token)]),
            gpu_hours=self.gpu_seconds / 3600,
            changes_per_day=changes_per_day(self.changes, self.seconds),
            most_replicas=max((count for _, count in self.changes), default=0),
        )

    def recovery_seconds(self, promise: Promise, begin: float, end: float) -> float:
        """From `begin` until requests are in time again and stay so until `end`; infinite when they never are.

        In time are they in half a minute of whose requests 95 of 100 are, which is what a promise says.
        """
        kept, times = self.in_time(promise), self.trace.times[: self.offered]
        edges = np.arange(begin, end, RECOVERY_STEP_SECONDS)
        spans = [(until, kept[(times >= until - RECOVERY_STEP_SECONDS) & (times < until)]) for until in edges[1:]]
        late = [until for until, span in spans if len(span) and span.mean() < PROMISED_SHARE]
        if not late:
            return 0.0
        return float("inf") if late[-1] == edges[-1] else float(late[-1] - begin)

    def by_class(self, promise: Promise) -> dict[str, ClassShare]:
        """Interactive and batch requests, those of them that there are."""
        kept, batch = self.in_time(promise), self.trace.batch[: self.offered]
        found = {INTERACTIVE: ~batch, BATCH: batch}
        return {
            name: ClassShare(int(mine.sum()), float(kept[mine].mean())) for name, mine in found.items() if mine.any()
        }

    def by_tenant(self, promise: Promise) -> tuple[tuple[str, int, int], ...]:
        """(tenant, asked, served in time) requests."""
        kept, tenants = self.in_time(promise), self.trace.tenants[: self.offered]
        masks = [(name, tenants == index) for index, name in enumerate(self.trace.tenant_names)]
        return tuple((name, int(mine.sum()), int(kept[mine].sum())) for name, mine in masks)

    def late_first_tokens(self, edges: Sequence[float]) -> list[float]:
        """95 % quantile of the requests that arrived between any two edges; 0 where nobody came."""
        times, first = self.trace.times[: self.offered], self.first_token_seconds
        found = []
        for begin, until in pairwise(edges):
            low, high = np.searchsorted(times, (begin, until))
            values = first[low:high][~np.isnan(first[low:high])]
            found.append(float(np.percentile(values, 95)) if len(values) else 0.0)
        return found

    @property
    def mean_running(self) -> float:
        """Sequences that decode, over all replicas and the whole time."""
        return float(np.nansum(np.array(self.log.finished) - np.array(self.log.first_token))) / self.seconds

    def possible(self, promise: Promise) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
        """By request: whether an idle replica would have served it in time."""
        return possible(self.model, self.trace, promise)[: self.offered]

    def need(self, promise: Promise, usable_share: float = 0.9) -> Floats:
        """Replicas that the true arrivals asked for at each tick, by the replica model with the true coefficients.

        Real-valued: GPU-seconds of work that arrive in each second, over what one replica may give of it.
        """
        at = np.array([tick.at for tick in self.ticks])
        if not len(self.trace):
            return np.zeros(len(at))
        work = _work_seconds(self.model, self.trace)
        reached = np.concatenate([[0.0], np.cumsum(work)])
        half = NEED_WINDOW_SECONDS / 2
        until = reached[np.searchsorted(self.trace.times, np.minimum(at + half, self.seconds))]
        since = reached[np.searchsorted(self.trace.times, np.maximum(at - half, 0.0))]
        span = np.minimum(at + half, self.seconds) - np.maximum(at - half, 0.0)
        need: Floats = (until - since) / span / usable(self.model, self.trace, promise, usable_share)
        return need


def changes_per_day(changes: Sequence[tuple[float, int]], seconds: float) -> float:
    """Of the number of replicas wanted; the first entry is where it began."""
    return max(0, len(changes) - 1) * DAY_SECONDS / seconds


def possible(model: ServedModel, trace: Trace, promise: Promise) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    """By request of the trace: whether an idle replica would serve it in time."""
    prompt, computed = prompt_and_computed_tokens(trace)
    return possible_lengths(model, prompt, computed, trace.output_tokens.astype(float), promise)


def prompt_and_computed_tokens(trace: Trace) -> tuple[Floats, Floats]:
    """Tokens of each prompt, and those of them that no prefix cache spares."""
    prompt = trace.prompt_tokens.astype(float)
    return prompt, prompt if trace.cached_tokens is None else prompt - trace.cached_tokens


def possible_lengths(model: ServedModel, prompt: Floats, computed: Floats, output: Floats, promise: Promise) -> Flags:
    """The same for columns of lengths."""
    profile, limits = model.profile, model.limits
    chunks = np.ceil(computed / limits.max_num_batched_tokens)
    first = profile.request_overhead_seconds + chunks * profile.step_seconds
    first = first + model.prefill_seconds(prompt, computed)
    token = profile.step_seconds + profile.sequence_seconds + profile.kv_token_seconds * (prompt + output / 2)
    limit = promise.time_to_first_token + model.allowed(prompt, computed)
    kept: Flags = (first <= limit) & ((output < 2) | (token <= promise.inter_token_latency))
    if promise.end_to_end is not None:
        kept &= first + (output - 1) * token <= promise.end_to_end
    return kept


def usable(model: ServedModel, trace: Trace, promise: Promise, usable_share: float = 0.9) -> float:
    """u of one true replica for the trace's mix."""
    engine = _engine(model.profile, model.limits, usable_share)
    return capacity(engine, Mix.of(trace.lengths), promise).usable


def _engine(profile: EngineProfile, limits: EngineLimits, usable_share: float) -> EngineModel:
    blocks = limits.kv_blocks or profile.kv_tokens // limits.block_size
    return EngineModel(profile, (blocks - 1) * limits.block_size, limits.max_num_seqs, usable_share=usable_share)


def _work_seconds(model: ServedModel, trace: Trace) -> Floats:
    (prompt, computed), output, profile = (
        prompt_and_computed_tokens(trace),
        trace.output_tokens.astype(float),
        model.profile,
    )
    prefill = model.prefill_seconds(prompt, computed)
    work: Floats = prefill + output * (profile.sequence_seconds + profile.kv_token_seconds * (prompt + output / 2))
    return work
