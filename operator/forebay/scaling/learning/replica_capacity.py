"""The carrier: what one replica carries of the traffic that really comes, in GPU-seconds per second.

The replica model gives it from a profile and the mix of lengths. Live replicas correct the profile within bounds: with
all coefficients q times as large, n steps and w seconds of work fill a second, so q = 1/(a·n + w). That is an account
of time and no model of queues: no chance and no unevenness is in it, as long as the engine was never idle. So a slower
engine is believed from where it begins to matter, and not only once promises are broken; a faster one only where the
profile says that nothing is left: what a quiet service shows is no proof of a small capacity, nor of a large one.
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
"""Bounds of q: a profile that is further off is wrong in a way that one factor does not mend."""
REFINING_SECONDS: Final = 300.0
"""Over so long q is smoothed."""
MEASURED_SECONDS: Final = 60.0
"""From so much evidence on, capacity is called measured."""
BUSY: Final = 0.7
"""Of what an engine may give, in use: from there on a slower one is believed. Below it, most of a second are steps that
do nothing, and little is known of those that work."""
FULL: Final = 1.0
"""The same for a faster one."""
NEVER_IDLE: Final = 4.0
"""Requests per engine, on average, from which on it is idle for less than a fiftieth of the time, e⁻⁴."""
USUAL_SPREAD: Final = 1.0
"""Variance of prompt lengths over their squared mean, while it is not known: recorded conversations have 0.8 to 0.9,
code 0.9."""


@dataclass(frozen=True, slots=True)
class Carried:
    """What one replica carries of a mix within its promises."""

    work_seconds: float
    """s: seconds of one engine's GPUs that a request costs."""
    usable: float
    """u: seconds of such work that a replica may be given in each second, over all its engines."""
    bound: Bound
    """What it runs out of first."""
    basis: Basis
    tokens_per_minute: float
    residence_seconds: float
    """How long a request stays at that load."""
    idle_token_seconds: float
    """a: between two tokens when nothing else is to be done."""


@dataclass(frozen=True, slots=True)
class Refinement:
    """What live replicas have shown of an engine against its profile."""

    engine: EngineModel
    factor: float = 1.0
    """q: above 1 is slower than the profile."""
    evidence_seconds: float = 0.0
    looked_at: float = 0.0

    @property
    def measured(self) -> bool:
        return self.evidence_seconds >= MEASURED_SECONDS


@dataclass(frozen=True, slots=True)
class ReplicaCapacity:
    """One replica as the model sees it."""

    engine: EngineModel
    engines: int
    """Data-parallel engines of one replica."""
    promise: Promise
    basis: Basis
    """Of the profile."""
    architecture: Architecture
    """Says what a window leaves of a context."""
    declared: RequestLengths | None = None
    """The mix that the spec declares, for as long as nothing was seen."""

    def carries(self, lengths: RequestLengths, refinement: Refinement | None = None) -> Carried | None:
        """None when the promises cannot be kept by any number of such replicas."""
        known = refinement if refinement is not None and refinement.measured else None
        engine = self.engine
        if known is not None:
            engine = replace(engine, profile=engine.profile.slowed(known.factor))
        found = capacity(engine, self.mix(lengths), self.promise)
        if found.usable <= 0 or found.work_seconds <= 0:
            return None
        step = engine.step_profile.step_seconds / engine.tokens_per_step
        usable = found.usable * self.engines
        return Carried(
            work_seconds=found.work_seconds,
            usable=usable,
            bound=found.bound,
            basis=Basis.MEASURED if known is not None else self.basis,
            tokens_per_minute=60 * (lengths.prompt_tokens + lengths.output_tokens) * usable / found.work_seconds,
            residence_seconds=lengths.output_tokens * step / (1 - found.usable),
            idle_token_seconds=step,
        )

    def requests_per_second(self, lengths: RequestLengths) -> float | None:
        """That one replica carries by its profile; None when the promises cannot be kept by any number of them."""
        found = self.carries(lengths)
        return None if found is None else found.usable / found.work_seconds

    def speed(self, lengths: RequestLengths) -> float:
        """Requests that one replica works off per second with nothing kept back for promises; 0 where nothing tells."""
        work_seconds = capacity(self.engine, self.mix(lengths), self.promise).work_seconds
        return self.engines / work_seconds if work_seconds > 0 else 0.0

    def mix(self, lengths: RequestLengths) -> Mix:
        """Requests of the mean length, their prompts spread. What a prefix cache spares is not computed, but read."""
        full = Mix.fixed(lengths.prompt_tokens, lengths.output_tokens, self.architecture.tokens_read)
        computed = lengths.prompt_tokens * lengths.computed_share
        return replace(full, prompt_tokens=computed, prompt_square=computed**2 * (1 + USUAL_SPREAD))


def refine(
    before: Refinement | None,
    replica_capacity: ReplicaCapacity,
    lengths: RequestLengths,
    load: ServiceLoad,
    saturated: bool,
    now: float,
) -> Refinement:
    """The refinement with one more look. Another engine or profile begins anew."""
    if before is None or before.engine != replica_capacity.engine:
        return Refinement(replica_capacity.engine, looked_at=now)
    seconds = min(max(0.0, now - before.looked_at), MEASURED_SECONDS)
    seen = replace(before, looked_at=now)
    factor, found = _factor(replica_capacity, lengths, load), replica_capacity.carries(lengths, before)
    work = _work(replica_capacity, lengths, load)
    if factor is None or work is None or found is None:
        return seen
    used = work * before.factor * replica_capacity.engines / found.usable
    if not saturated and used < (BUSY if factor > before.factor else FULL):
        return seen
    part = 1 - exp(-seconds / REFINING_SECONDS)
    moved = before.factor + part * (min(SLOWEST, max(FASTEST, factor)) - before.factor)
    return replace(seen, factor=moved, evidence_seconds=min(REFINING_SECONDS, before.evidence_seconds + seconds))


def _factor(replica_capacity: ReplicaCapacity, lengths: RequestLengths, load: ServiceLoad) -> float | None:
    """q: from the steps that were counted; None where they were not, or where an engine may have been idle."""
    served, work = load.served, _work(replica_capacity, lengths, load)
    if served is None or served.steps_per_second is None or work is None:
        return None
    engines = served.replicas * replica_capacity.engines
    if load.running_requests < NEVER_IDLE * engines:
        return None
    filled = replica_capacity.engine.step_profile.step_seconds * served.steps_per_second / engines + work
    return 1 / filled if filled > 0 else None


def _work(replica_capacity: ReplicaCapacity, lengths: RequestLengths, load: ServiceLoad) -> float | None:
    """w: seconds of work that an engine did in each second of the last minute, by the unrefined profile."""
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
