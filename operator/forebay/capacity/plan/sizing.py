"""Sizing: the plan of one service, from its memory to its replicas, with every number that led there."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import ceil
from typing import Final

from forebay.capacity.model.expected_latency import ExpectedLatency, expected
from forebay.capacity.model.gpu_memory import (
    DEFAULT_OVERHEAD_BYTES,
    TENSOR_PARALLEL_SIZES,
    Footprint,
    GpuMemory,
    Sizes,
    candidate_sizes,
    measure,
    missing_bytes,
    sequences,
    weight_bytes,
)
from forebay.capacity.model.profile_choice import ChosenProfile, GivenProfile, Pairing, choose, given_for
from forebay.capacity.model.replica_model import (
    KV_TARGET_MARGIN,
    Capacity,
    EngineLoad,
    EngineModel,
    Mix,
    batched_tokens,
    capacity,
    load,
)
from forebay.capacity.plan import remedies
from forebay.capacity.plan.plan_input import KnownParts, PlanInput
from forebay.capacity.plan.plan_problem import PlanProblem

MOST_REPLICAS: Final = 1000
"""The API's bound on maxReplicas."""
CHUNK_STEP: Final = 1.25
"""Sizes of a step's prompts are tried in such steps."""
FEW: Final = 1.5
"""An option may take so many times the GPUs of the best of its kind."""
LARGE_CARD_BYTES: Final = 70 * 2**30
HUGE_CARD_BYTES: Final = 160 * 2**30


@dataclass(frozen=True, slots=True)
class PlannedReplica:
    """What one replica is and holds."""

    sizes: Sizes
    chosen_sizes: bool
    """Whether the plan chose them, as the smallest that fit."""
    footprint: Footprint
    memory: GpuMemory
    max_concurrent_sequences: int
    """Requests of the mean length, or of full length when no traffic is given."""
    missing_bytes: int
    """On each GPU, for the weights and one request of full length."""


@dataclass(frozen=True, slots=True)
class Throughput:
    """What one replica carries."""

    chosen: ChosenProfile
    engine: EngineModel
    capacity: Capacity
    """Of one engine."""
    engines: int
    batched_tokens: int
    """Prompt tokens that one step may compute."""
    unbroken_tokens: int
    """The most that leave everyone else's next token in time; less than `batched_tokens` where that would make first
    tokens late, while the mean time between tokens holds either way."""

    @property
    def requests_per_second(self) -> float:
        return self.capacity.requests_per_second * self.engines

    @property
    def tokens_per_minute(self) -> float:
        return self.capacity.tokens_per_minute * self.engines


@dataclass(frozen=True, slots=True)
class PlannedFleet:
    """How many replicas the traffic needs, and what users then see at the peak."""

    exact: float
    """Active replicas before they are rounded up."""
    active: int
    warm: int
    gpus: int
    expected: ExpectedLatency
    peak_load: EngineLoad
    """Of one engine."""
    kv_fraction: float
    """Of the KV cache, at the peak."""
    concurrent_streams: int
    """Streams that the gateway holds open at the peak: requests per second × seconds each."""

    @property
    def total(self) -> int:
        return self.active + self.warm


@dataclass(frozen=True, slots=True)
class CapacityPlan:
    subject: PlanInput
    replica: PlannedReplica
    throughput: Throughput | None
    """None without traffic, or when the promise cannot be kept by any number of replicas."""
    fleet: PlannedFleet | None
    assumptions: tuple[str, ...]
    notes: tuple[str, ...]
    """What people should know and that stops nothing."""
    problems: tuple[PlanProblem, ...]

    @property
    def fits(self) -> bool:
        return not self.problems


def size(subject: PlanInput, known: KnownParts | None = None, *, advise: bool = True) -> CapacityPlan:
    """The plan of one service; what does not fit is in its problems, each with ways out unless `advise` is off."""
    known = known or KnownParts()
    replica = _replica(subject, known.profiles)
    problems = list(_misfits(subject, replica))
    throughput, fleet = None, None
    if subject.mix is not None and not problems:
        throughput = _throughput(subject, replica, subject.mix, known)
        slow = remedies.slow_step(subject, replica.sizes, throughput.engine, throughput.capacity)
        if slow is not None:
            problems.append(slow)
        elif subject.demand is not None:
            throughput, fleet = _settled(subject, replica, throughput, subject.mix)
            problems += remedies.broken_promises(subject, fleet.expected, fleet.active)
    if problems and throughput is not None and advise:
        ways = tuple(_alternatives(subject, replica.sizes, known))
        problems = [remedies.with_options(problem, ways) for problem in problems]
    if fleet is not None and throughput is not None:
        problems += _bounds(subject, fleet)
    return CapacityPlan(
        subject=subject,
        replica=replica,
        throughput=throughput if fleet is not None or not problems else None,
        fleet=fleet,
        assumptions=(*subject.assumptions, *_assumptions(subject, replica, throughput)),
        notes=tuple(_notes(subject, throughput, fleet)),
        problems=tuple(problems),
    )


def _alternatives(subject: PlanInput, sizes: Sizes, known: KnownParts) -> Iterable[str]:
    """Changes with which the whole plan holds: of each kind the first that takes few GPUs for its kind."""
    holding: dict[str, list[tuple[int, str]]] = {}
    for change in remedies.changes(subject, sizes):
        plan = size(change.subject, known, advise=False)
        if plan.fits and plan.throughput is not None:
            engine = plan.throughput.engine
            token = engine.step_profile.step_seconds / engine.tokens_per_step
            then = f"a token takes {remedies.milliseconds(token)} at least"
            taken = plan.replica.sizes.gpus
            if plan.fleet is not None:
                taken = plan.fleet.gpus
                then += f"; {count(plan.fleet.total, 'replica')} on {count(taken, 'GPU')}"
            holding.setdefault(change.kind, []).append((taken, f"{change.words} ({then})"))
    for found in holding.values():
        fewest = min(taken for taken, _ in found)
        yield next(words for taken, words in found if taken <= FEW * fewest)


def count(number: int, noun: str) -> str:
    """With its plural."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def pairing(subject: PlanInput, sizes: Sizes) -> Pairing:
    return Pairing(
        source=subject.source,
        model=subject.model,
        architecture=subject.architecture,
        gpu=subject.gpu,
        quantization=subject.quantization,
        kv_bits=subject.kv_bits,
        sizes=sizes,
        engine_version=subject.engine_version,
    )


def footprint(subject: PlanInput, sizes: Sizes, given: Iterable[GivenProfile] = ()) -> Footprint:
    """What an engine of these sizes holds; a given profile may know its overhead better."""
    profile = given_for(pairing(subject, sizes), given)
    overhead = profile.overhead_bytes if profile and profile.overhead_bytes is not None else DEFAULT_OVERHEAD_BYTES
    return Footprint(
        architecture=subject.architecture,
        weight_bytes=weight_bytes(subject.architecture.parameters, subject.quantization.bits),
        kv_bits=subject.kv_bits,
        utilization_percent=subject.utilization_percent,
        overhead_bytes=overhead,
        adapters=subject.adapters,
        draft_bytes=subject.draft_bytes,
    )


def default_batched_tokens(memory_bytes: int, name: str) -> int:
    """What vLLM itself lets one step compute, by the size of the card."""
    if memory_bytes >= HUGE_CARD_BYTES:
        return 16_384
    return 8192 if memory_bytes >= LARGE_CARD_BYTES and not name.startswith("A100") else 2048


def _replica(subject: PlanInput, given: Iterable[GivenProfile]) -> PlannedReplica:
    sizes, chosen = _sizes(subject, given)
    print_ = footprint(subject, sizes, given)
    memory = measure(print_, sizes, subject.gpu.memory_bytes)
    tokens = subject.mix.prompt_tokens + subject.mix.output_tokens / 2 if subject.mix else subject.full_length
    return PlannedReplica(
        sizes=sizes,
        chosen_sizes=chosen,
        footprint=print_,
        memory=memory,
        max_concurrent_sequences=sequences(print_, sizes, memory, tokens, subject.max_num_seqs),
        missing_bytes=missing_bytes(print_, sizes, subject.gpu.memory_bytes, subject.full_length),
    )


def _sizes(subject: PlanInput, given: Iterable[GivenProfile]) -> tuple[Sizes, bool]:
    """As given, or the smallest that fit; the largest there are when none do, so that what is missing is least."""
    if subject.tensor is not None:
        return Sizes(subject.tensor, subject.pipeline or 1, subject.data), False
    fallback = Sizes(1, subject.pipeline or 1, subject.data)
    for sizes in candidate_sizes(subject.architecture, pipeline=subject.pipeline, data=subject.data):
        fallback = sizes
        print_ = footprint(subject, sizes, given)
        if not missing_bytes(print_, sizes, subject.gpu.memory_bytes, subject.full_length):
            return sizes, True
    return fallback, True


def _misfits(subject: PlanInput, replica: PlannedReplica) -> Iterable[PlanProblem]:
    """Why no such replica starts, whatever the traffic."""
    shape, sizes = subject.architecture, replica.sizes
    if not shape.divides(sizes.tensor):
        fitting = [str(size) for size in TENSOR_PARALLEL_SIZES if shape.divides(size)]
        yield PlanProblem(
            "spec.engine.tensorParallelSize",
            sizes.tensor,
            f"does not divide the {shape.attention_heads} attention heads of the model, so vLLM does not start",
            (f"use {', '.join(fitting)}",),
        )
    if replica.missing_bytes:
        yield remedies.too_little_memory(subject, replica.footprint, replica.memory, sizes, replica.missing_bytes)
    mix = subject.mix
    if mix is not None and mix.tokens > subject.full_length:
        yield PlanProblem(
            "spec.traffic.promptTokens",
            round(mix.prompt_tokens),
            f"and {mix.output_tokens:,.0f} tokens of answer are more than the {subject.full_length:,} tokens that a "
            "request may have",
            (f"set model.maxModelLen {ceil(mix.tokens)} or more, if the checkpoint allows it",),
        )


def engine_of(subject: PlanInput, replica: PlannedReplica, known: KnownParts) -> tuple[ChosenProfile, EngineModel]:
    """One engine of the replica as the model sees it, whatever the traffic, and the profile it was taken from."""
    tokens = max(1, replica.memory.kv_tokens_per_engine)
    chosen = choose(pairing(subject, replica.sizes), tokens, known.profiles)
    return chosen, EngineModel(
        profile=chosen.profile,
        kv_tokens=tokens,
        max_num_seqs=subject.max_num_seqs,
        kv_share=KV_TARGET_MARGIN * subject.kv_target,
        usable_share=known.usable_share or chosen.usable_share,
        speculation=subject.speculation,
    )


def _throughput(subject: PlanInput, replica: PlannedReplica, mix: Mix, known: KnownParts) -> Throughput:
    chosen, engine = engine_of(subject, replica, known)
    most = subject.batched_tokens or default_batched_tokens(subject.gpu.memory_bytes, subject.gpu.name)
    found = capacity(engine, mix, subject.promise)
    chunk = most
    if subject.batched_tokens is None and found.usable > 0:
        chunk = batched_tokens(engine, mix, subject.promise, most)
    return Throughput(chosen, engine, found, replica.sizes.data, chunk, chunk)


def _settled(
    subject: PlanInput, replica: PlannedReplica, throughput: Throughput, mix: Mix
) -> tuple[Throughput, PlannedFleet]:
    """The fleet, with steps just large enough for prompts when small ones alone would break the first token's promise.

    A step full of prompts delays one token of everybody else, which the mean between tokens bears; chunks so small that
    a prompt needs many steps delay every first token, which its p95 does not.
    """
    fleet = _fleet(subject, replica, throughput, mix)
    most = default_batched_tokens(subject.gpu.memory_bytes, subject.gpu.name)
    if subject.batched_tokens is not None or fleet.expected.first_token_p95 <= subject.promise.time_to_first_token:
        return throughput, fleet
    chunk = throughput.batched_tokens
    while chunk < most:
        chunk = min(most, ceil(chunk * CHUNK_STEP))
        wider = replace(throughput, batched_tokens=chunk)
        settled = _fleet(subject, replica, wider, mix)
        if settled.expected.first_token_p95 <= subject.promise.time_to_first_token:
            return wider, settled
    return throughput, fleet


def _fleet(subject: PlanInput, replica: PlannedReplica, throughput: Throughput, mix: Mix) -> PlannedFleet:
    demand = subject.demand
    assert demand is not None
    peak = float(demand.peak)
    exact = peak * float(demand.headroom) / throughput.requests_per_second
    active = max(1, ceil(round(exact, 9)))
    rate = peak / (active * throughput.engines)
    at = load(throughput.engine, mix, rate)
    seen = expected(throughput.engine, mix, rate, throughput.batched_tokens)
    return PlannedFleet(
        exact=exact,
        active=active,
        warm=subject.warm,
        gpus=(active + subject.warm) * replica.sizes.gpus,
        expected=seen,
        peak_load=at,
        kv_fraction=at.kv_tokens / throughput.engine.kv_tokens,
        concurrent_streams=ceil(round(peak * seen.end_to_end_mean, 9)),
    )


def _bounds(subject: PlanInput, fleet: PlannedFleet) -> Iterable[PlanProblem]:
    """Scaling follows the real load, without headroom: maxReplicas must allow what the peak itself needs."""
    demand = subject.demand
    assert demand is not None
    if fleet.total > MOST_REPLICAS:
        yield PlanProblem(
            "spec.traffic.requestsPerMonth",
            demand.requests_per_month,
            f"needs {fleet.total:,} replicas, and a service has at most {MOST_REPLICAS:,}",
            (f"split the traffic over {ceil(fleet.total / MOST_REPLICAS)} services",),
        )
    elif subject.max_replicas is not None:
        at_peak = max(1, ceil(round(fleet.exact / float(demand.headroom), 9))) + fleet.warm
        if subject.max_replicas < at_peak:
            ways = [f"set it to {fleet.total}"]
            if (left := subject.max_replicas - fleet.warm) > 0:
                most = int(demand.requests_per_month * left * float(demand.headroom) / fleet.exact)
                ways.append(f"plan for {most:,} requests a month at most")
            yield PlanProblem(
                "spec.scaling.maxReplicas",
                subject.max_replicas,
                f"is below the {at_peak} replicas that the peak needs without any headroom, {fleet.warm} warm ones "
                "included",
                tuple(ways),
            )


def _notes(subject: PlanInput, throughput: Throughput | None, fleet: PlannedFleet | None) -> Iterable[str]:
    if fleet is None or throughput is None:
        return
    if throughput.batched_tokens > throughput.unbroken_tokens:
        chunk, unbroken = throughput.batched_tokens, throughput.unbroken_tokens
        yield (
            f"a step may compute {chunk:,} tokens of prompts: with the {unbroken:,} that leave everyone's next token "
            "in time, first tokens would be late; the mean between tokens holds"
        )
    if subject.max_replicas is None and fleet.total > 1:
        yield f"scaling.maxReplicas is not set and means 1: set it to {fleet.total}, or the plan cannot come true"
    elif subject.max_replicas is not None and subject.max_replicas < fleet.total <= MOST_REPLICAS:
        yield (
            f"scaling.maxReplicas {subject.max_replicas} allows the peak but not its headroom; the plan counts "
            f"{fleet.total} replicas"
        )


def _assumptions(subject: PlanInput, replica: PlannedReplica, throughput: Throughput | None) -> Iterable[str]:
    overhead = replica.footprint.overhead_bytes / 2**30
    yield (
        f"of each GPU's {replica.memory.card_bytes / 2**30:.2f} GiB the engine takes "
        f"{replica.footprint.utilization_percent} %, of which {overhead:g} GiB are overhead"
    )
    if subject.nodes > 1:
        each = count(replica.sizes.gpus // subject.nodes, "GPU")
        yield f"a replica is spread over {subject.nodes} nodes of {each}; what their network costs is not modelled"
    if replica.chosen_sizes:
        yield f"parallel sizes are the smallest that fit: {replica.sizes}"
    if throughput is not None:
        chosen = throughput.chosen
        yield f"profile {chosen.name}, ±{chosen.error_percent} %"
        yield from chosen.notes
        yield f"{throughput.capacity.usable_share:.0%} of the mean-value capacity is planned (φ), so that p95 holds too"
