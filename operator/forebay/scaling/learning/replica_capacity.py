"""Replica capacity: how much of the actual traffic one replica can serve, in GPU-seconds per second.

The replica model computes it from a profile and the mix of lengths. Measurements of live replicas correct the profile
within bounds. If all coefficients of the profile are q times as large, then n steps per second of a seconds each and w
seconds of work per second fill one second: q = 1/(a·n + w). This adds up time and models no queue, so randomness and
uneven load do not distort q as long as the engine is never idle. Therefore a slower q is accepted as soon as the load
is high enough for it to matter, and not only when latencies exceed their limits. A faster q is accepted only where the
profile says that no capacity is left. A quiet service proves neither a small capacity nor a large one.
"""

from dataclasses import dataclass, replace
from math import exp
from typing import Final

from forebay.capacity.model.architecture import Architecture
from forebay.capacity.model.profile_choice import Basis
from forebay.capacity.model.replica_model import Bound, EngineModel, Mix, Promise, capacity
from forebay.scaling.load.arrivals import RequestLengths
from forebay.scaling.load.service_load import ServiceLoad

FASTEST: Final = 0.7
SLOWEST: Final = 1.5
"""Bounds of q. If a profile is further off, one factor does not correct it."""
REFINING_SECONDS: Final = 300.0
"""Time over which q is smoothed."""
MEASURED_SECONDS: Final = 60.0
"""Evidence after which the capacity counts as measured."""
BUSY: Final = 0.7
"""Share of its usable capacity that an engine must use before a slower q is accepted. Below it, steps spend most of
their time on the fixed part a, and little is known of the part that grows with load."""
FULL: Final = 1.0
"""Share of its usable capacity that an engine must use before a faster q is accepted."""
NEVER_IDLE: Final = 4.0
"""Mean number of requests per engine from which on an engine is idle for less than a fiftieth of the time, e⁻⁴."""
USUAL_SPREAD: Final = 1.0
"""Assumed variance of prompt lengths over their squared mean: recorded conversations have 0.8 to 0.9, code 0.9."""


@dataclass(frozen=True, slots=True)
class MixCapacity:
    """Capacity of one replica for one mix of lengths, within the latency limits of the SLO."""

    work_seconds: float
    """s: GPU-seconds of work of one request."""
    usable: float
    """u: GPU-seconds of work per second that one replica can serve, over all its engines."""
    bound: Bound
    """The resource or limit that bounds u."""
    basis: Basis
    tokens_per_minute: float
    residence_seconds: float
    """τ: time that a request spends in the engine at that load."""
    idle_token_seconds: float
    """a: time between two tokens on an engine without other work."""


@dataclass(frozen=True, slots=True)
class Refinement:
    """The measured speed of live engines against their profile."""

    engine: EngineModel
    factor: float = 1.0
    """q: measured step time over that of the profile; above 1 the engine is slower."""
    evidence_seconds: float = 0.0
    updated_at: float = 0.0

    @property
    def measured(self) -> bool:
        return self.evidence_seconds >= MEASURED_SECONDS


@dataclass(frozen=True, slots=True)
class ReplicaCapacity:
    """The model of one replica, from which its capacity for any mix is computed."""

    engine: EngineModel
    engines: int
    """Data-parallel engines of one replica."""
    promise: Promise
    basis: Basis
    """Origin of the profile."""
    architecture: Architecture
    """Gives the tokens of a context that attention reads, which a sliding window limits."""
    declared: RequestLengths | None = None
    """Lengths from `spec.traffic`, used until lengths have been measured."""

    def mix_capacity(self, lengths: RequestLengths, refinement: Refinement | None = None) -> MixCapacity | None:
        """Capacity for requests of these lengths; None when no number of such replicas keeps the SLO."""
        engine = refined(self.engine, refinement)
        per_engine = capacity(engine, self.mix(lengths), self.promise)
        if per_engine.usable <= 0 or per_engine.work_seconds <= 0:
            return None
        step = engine.step_profile.step_seconds / engine.tokens_per_step
        usable = per_engine.usable * self.engines
        return MixCapacity(
            work_seconds=per_engine.work_seconds,
            usable=usable,
            bound=per_engine.bound,
            basis=self.basis if engine is self.engine else Basis.MEASURED,
            tokens_per_minute=60 * (lengths.prompt_tokens + lengths.output_tokens) * usable / per_engine.work_seconds,
            residence_seconds=lengths.output_tokens * step / (1 - per_engine.usable),
            idle_token_seconds=step,
        )

    def requests_per_second(self, lengths: RequestLengths) -> float | None:
        """Request rate that one replica can serve by its profile; None when no number of replicas keeps the SLO."""
        mix_capacity = self.mix_capacity(lengths)
        return None if mix_capacity is None else mix_capacity.usable / mix_capacity.work_seconds

    def speed(self, lengths: RequestLengths) -> float:
        """Request rate of a fully loaded replica, whatever its latency; 0 when it is unknown."""
        work_seconds = capacity(self.engine, self.mix(lengths), self.promise).work_seconds
        return self.engines / work_seconds if work_seconds > 0 else 0.0

    def mix(self, lengths: RequestLengths) -> Mix:
        """Mix of requests of the mean length with spread prompts.

        Prompt tokens found in a prefix cache are not computed, but attention still reads them.
        """
        full = Mix.fixed(lengths.prompt_tokens, lengths.output_tokens, self.architecture.tokens_read)
        computed = lengths.prompt_tokens * lengths.computed_share
        return replace(full, prompt_tokens=computed, prompt_square=computed**2 * (1 + USUAL_SPREAD))


def refined(engine: EngineModel, refinement: Refinement | None) -> EngineModel:
    """The engine at its measured speed; the same engine while too little has been measured."""
    if refinement is None or not refinement.measured:
        return engine
    return replace(engine, profile=engine.profile.slowed(refinement.factor))


def refine(
    before: Refinement | None,
    replica_capacity: ReplicaCapacity,
    lengths: RequestLengths,
    load: ServiceLoad,
    saturated: bool,
    now: float,
) -> Refinement:
    """The refinement with one more measurement. Another engine or profile resets it."""
    if before is None or before.engine != replica_capacity.engine:
        return Refinement(replica_capacity.engine, updated_at=now)
    seconds = min(max(0.0, now - before.updated_at), MEASURED_SECONDS)
    unchanged = replace(before, updated_at=now)
    factor, mix_capacity = _factor(replica_capacity, lengths, load), replica_capacity.mix_capacity(lengths, before)
    work = _work(replica_capacity, lengths, load)
    if factor is None or work is None or mix_capacity is None:
        return unchanged
    utilization = work * before.factor * replica_capacity.engines / mix_capacity.usable
    if not saturated and utilization < (BUSY if factor > before.factor else FULL):
        return unchanged
    part = 1 - exp(-seconds / REFINING_SECONDS)
    smoothed = before.factor + part * (min(SLOWEST, max(FASTEST, factor)) - before.factor)
    evidence_seconds = min(REFINING_SECONDS, before.evidence_seconds + seconds)
    return replace(unchanged, factor=smoothed, evidence_seconds=evidence_seconds)


def _factor(replica_capacity: ReplicaCapacity, lengths: RequestLengths, load: ServiceLoad) -> float | None:
    """q from the counted steps; None where steps are not counted or an engine may have been idle."""
    served, work = load.served, _work(replica_capacity, lengths, load)
    if served is None or served.steps_per_second is None or work is None:
        return None
    engines = served.replicas * replica_capacity.engines
    if load.running_requests < NEVER_IDLE * engines:
        return None
    second = replica_capacity.engine.step_profile.step_seconds * served.steps_per_second / engines + work
    return 1 / second if second > 0 else None


def _work(replica_capacity: ReplicaCapacity, lengths: RequestLengths, load: ServiceLoad) -> float | None:
    """w: seconds of work per second and engine in the last minute, by the uncorrected profile."""
    served = load.served
    if served is None or not served.replicas:
        return None
    step = replica_capacity.engine.step_profile
    mix = replica_capacity.mix(lengths)
    decode = step.sequence_seconds + step.kv_token_seconds * mix.held_tokens
    work = (
        step.prompt_token_seconds * served.prompt_tokens_per_second
        + decode * served.output_tokens_per_second / replica_capacity.engine.tokens_per_step
    )
    return work / (served.replicas * replica_capacity.engines)
