"""The outcome of a run: every offered request, every replica, and the figures that policies are compared by.

Attainment counts all offered requests; shed, failed and unfinished requests count as late. Requests that even an idle
replica could not serve in time are also reported separately, but they stay in all figures.
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
"""Classes of work, which a quota assigns to tenants or keys."""
RECOVERY_STEP_SECONDS = 30.0
PROMISED_SHARE = 0.95
"""Share of the requests that must be in time for a promise to be kept."""
NEED_WINDOW_SECONDS = 60.0
"""The need at a moment is computed from the arrivals in a window of this length around it."""


@dataclass(frozen=True, slots=True)
class Tick:
    """The state of the service at one moment."""

    at: float
    desired: int
    serving: int
    loading: int
    blocked: int
    draining: int
    """Replicas that drain or are being deleted."""
    waiting: int
    """Requests in the engines' queues and held by the gateway."""
    running: int
    kv_fraction: float
    """Mean over the serving replicas."""

    @staticmethod
    def of(at: float, replicas: Sequence[SimulatedReplica], desired: int, held: int) -> Tick:
        leaders = [replica for replica in replicas if replica.view.rank == 0]
        serving = [replica.engine for replica in leaders if replica.in_rotation and replica.engine is not None]
        engines = [replica.engine for replica in leaders if replica.engine is not None]
        draining = sum(r.view.deleting or r.view.drain_started_at is not None for r in leaders)
        loading = [r for r in leaders if r.loading]
        blocked = sum(r.view.blocked is not None for r in loading)
        return Tick(
            at=at,
            desired=desired,
            serving=len(serving),
            loading=len(loading) - blocked,
            blocked=blocked,
            draining=draining,
            waiting=held + sum(engine.waiting for engine in engines),
            running=sum(engine.running for engine in engines),
            kv_fraction=sum(engine.kv_fraction for engine in serving) / len(serving) if serving else 0.0,
        )


@dataclass(frozen=True, slots=True)
class Percentiles:
    """Percentiles of a latency over finished requests, in seconds."""

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
    """Offered requests of one class, and the share of them that was in time."""

    offered: int
    attainment: float


@dataclass(frozen=True, slots=True)
class Summary:
    """The figures of a run. Shares are of all offered requests."""

    offered: int
    attainment: float
    """Share of requests whose first token and mean time between tokens were in time."""
    impossible: float
    """Share of requests that even an idle replica could not serve in time."""
    shed: int
    failed: int
    unfinished: int
    refused: int
    time_to_first_token: Percentiles
    """Time from the arrival at the gateway to the first token."""
    inter_token_latency: Percentiles
    """Percentiles of the requests' mean times between tokens."""
    gpu_hours: float
    """GPU-hours of all pods that held a GPU, including starting and ending ones."""
    changes_per_day: float
    """How often the number of wanted replicas changed."""
    most_replicas: int
    """The highest number of wanted replicas."""


@dataclass(frozen=True, slots=True, eq=False)
class RunOutcome:
    key: ServiceKey
    seconds: float
    trace: Trace
    log: RequestLog
    ticks: tuple[Tick, ...]
    gpu_seconds: float
    changes: tuple[tuple[float, int], ...]
    """(time, replicas wanted from then on); the first entry is the initial number."""
    model: ServedModel

    @property
    def offered(self) -> int:
        return len(self.log.state)

    @property
    def first_token_seconds(self) -> Floats:
        """Time from arrival to the first token of each request; NaN if there was none."""
        seconds: Floats = np.array(self.log.first_token) - self.trace.times[: self.offered]
        return seconds

    def in_time(self, promise: Promise) -> Flags:
        """Which requests were in time."""
        done: Flags = np.array(self.log.state) == RequestState.DONE
        first, token = self.first_token_seconds, np.array(self.log.token_seconds)
        with np.errstate(invalid="ignore"):
            kept: Flags = done & (first <= self._first_limit(promise)) & (token <= promise.inter_token_latency)
            if promise.end_to_end is not None:
                kept &= np.array(self.log.finished) - self.trace.times[: self.offered] <= promise.end_to_end
        return kept

    def _first_limit(self, promise: Promise) -> Floats:
        """Seconds that each request's first token may take."""
        prompt, computed = (column[: self.offered] for column in prompt_and_computed_tokens(self.trace))
        limit: Floats = promise.time_to_first_token + self.model.allowed(prompt, computed)
        return limit

    def summary(self, promise: Promise) -> Summary:
        states = np.bincount(np.array(self.log.state, dtype=np.int64), minlength=len(RequestState))
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
        """Time from `begin` until requests are in time again and stay so until `end`; infinite if they never are.

        Requests count as in time in a span of 30 s if 95 % of its requests are, which is what a promise demands.
        """
        kept, times = self.in_time(promise), self.trace.times[: self.offered]
        edges = np.arange(begin, end, RECOVERY_STEP_SECONDS)
        spans = [(until, kept[(times >= until - RECOVERY_STEP_SECONDS) & (times < until)]) for until in edges[1:]]
        late = [until for until, span in spans if len(span) and span.mean() < PROMISED_SHARE]
        if not late:
            return 0.0
        return float("inf") if late[-1] == edges[-1] else float(late[-1] - begin)

    def by_class(self, promise: Promise) -> dict[str, ClassShare]:
        """Interactive and batch requests; a class without requests is left out."""
        kept, batch = self.in_time(promise), self.trace.batch[: self.offered]
        masks = {INTERACTIVE: ~batch, BATCH: batch}
        return {
            name: ClassShare(int(mask.sum()), float(kept[mask].mean())) for name, mask in masks.items() if mask.any()
        }

    def by_tenant(self, promise: Promise) -> tuple[tuple[str, int, int], ...]:
        """(tenant, offered requests, requests served in time)."""
        kept, tenants = self.in_time(promise), self.trace.tenants[: self.offered]
        masks = [(name, tenants == index) for index, name in enumerate(self.trace.tenant_names)]
        return tuple((name, int(mask.sum()), int(kept[mask].sum())) for name, mask in masks)

    def late_first_tokens(self, edges: Sequence[float]) -> list[float]:
        """95 % quantile of the time to the first token, for requests that arrived between consecutive edges.

        It is 0 for a span without requests.
        """
        times, first = self.trace.times[: self.offered], self.first_token_seconds
        quantiles = []
        for begin, until in pairwise(edges):
            low, high = np.searchsorted(times, (begin, until))
            values = first[low:high][~np.isnan(first[low:high])]
            quantiles.append(float(np.percentile(values, 95)) if len(values) else 0.0)
        return quantiles

    @property
    def mean_running(self) -> float:
        """Mean number of decoding sequences, over all replicas and the whole run."""
        return float(np.nansum(np.array(self.log.finished) - np.array(self.log.first_token))) / self.seconds

    def possible(self, promise: Promise) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
        """Which requests an idle replica would have served in time."""
        return possible(self.model, self.trace, promise)[: self.offered]

    def need(self, promise: Promise, usable_share: float = 0.9) -> Floats:
        """Replicas that the true arrivals require at each tick, by the replica model with the true coefficients.

        The number is not rounded: it is the work that arrives per second, in GPU-seconds, divided by the usable share
        of one replica's time.
        """
        at = np.array([tick.at for tick in self.ticks])
        if not len(self.trace):
            return np.zeros(len(at))
        work = _work_seconds(self.model, self.trace)
        work_before = np.concatenate([[0.0], np.cumsum(work)])
        half = NEED_WINDOW_SECONDS / 2
        until = work_before[np.searchsorted(self.trace.times, np.minimum(at + half, self.seconds))]
        since = work_before[np.searchsorted(self.trace.times, np.maximum(at - half, 0.0))]
        span = np.minimum(at + half, self.seconds) - np.maximum(at - half, 0.0)
        need: Floats = (until - since) / span / usable(self.model, self.trace, promise, usable_share)
        return need


def changes_per_day(changes: Sequence[tuple[float, int]], seconds: float) -> float:
    """Changes of the number of wanted replicas per day; the first entry is the initial number."""
    return max(0, len(changes) - 1) * DAY_SECONDS / seconds


def possible(model: ServedModel, trace: Trace, promise: Promise) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    """Which requests of the trace an idle replica would serve in time."""
    prompt, computed = prompt_and_computed_tokens(trace)
    return possible_lengths(model, prompt, computed, trace.output_tokens.astype(float), promise)


def prompt_and_computed_tokens(trace: Trace) -> tuple[Floats, Floats]:
    """Prompt tokens of each request, and the number of them that no prefix cache has."""
    prompt = trace.prompt_tokens.astype(float)
    return prompt, prompt if trace.cached_tokens is None else prompt - trace.cached_tokens


def possible_lengths(model: ServedModel, prompt: Floats, computed: Floats, output: Floats, promise: Promise) -> Flags:
    """Which requests of the given lengths an idle replica would serve in time."""
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
    """u, the usable share of one true replica's time, for the trace's mix."""
    engine = _engine(model.profile, model.limits, usable_share)
    return capacity(engine, Mix.of(trace.lengths), promise).usable


def _engine(profile: EngineProfile, limits: EngineLimits, usable_share: float) -> EngineModel:
    blocks = limits.kv_blocks or profile.kv_tokens // limits.block_size
    return EngineModel(profile, (blocks - 1) * limits.block_size, limits.max_num_seqs, usable_share=usable_share)


def _work_seconds(model: ServedModel, trace: Trace) -> Floats:
    """Work of each request in GPU-seconds."""
    prompt, computed = prompt_and_computed_tokens(trace)
    output, profile = trace.output_tokens.astype(float), model.profile
    prefill = model.prefill_seconds(prompt, computed)
    work: Floats = prefill + output * (profile.sequence_seconds + profile.kv_token_seconds * (prompt + output / 2))
    return work
