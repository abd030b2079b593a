"""Sizing: the capacity plan of one service, from its memory to its replicas, with every number behind it."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import ceil
from typing import Final

from forebay.capacity.model.expected_latency import ExpectedLatency, expected_latency
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
from forebay.capacity.model.profile_choice import ChosenProfile, EngineSetup, GivenProfile, choose_profile, given_for
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
from forebay.capacity.plan.plan_input import PlanContext, PlanInput
from forebay.capacity.plan.plan_problem import PlanProblem

MOST_REPLICAS: Final = 1000
"""The API's bound on maxReplicas."""
CHUNK_STEP: Final = 1.25
"""Factor from one tried number of prompt tokens per step to the next."""
GPU_TOLERANCE: Final = 1.5
"""A remedy may need this many times the GPUs of the best remedy of its kind."""
LARGE_CARD_BYTES: Final = 70 * 2**30
HUGE_CARD_BYTES: Final = 160 * 2**30


@dataclass(frozen=True, slots=True)
class PlannedReplica:
    """The parallel sizes and the memory of one replica."""

    sizes: Sizes
    chosen_sizes: bool
    """Whether the plan chose the sizes, as the smallest that fit."""
    footprint: Footprint
    memory: GpuMemory
    max_concurrent_sequences: int
    """Requests that the replica holds at once: of the mean length, or of full length if no traffic is given."""
    missing_bytes: int
    """Bytes that each GPU lacks for the weights and one request of full length."""


@dataclass(frozen=True, slots=True)
class Throughput:
    """The traffic that one replica carries."""

    chosen: ChosenProfile
    engine: EngineModel
    capacity: Capacity
    """Capacity of one engine."""
    engines: int
    batched_tokens: int
    """Prompt tokens that one step may compute."""
    unbroken_tokens: int
    """The most prompt tokens per step that keep every other sequence's next token in time. It is less than
    `batched_tokens` if first tokens would be late with it; the mean time between tokens holds either way."""

    @property
    def requests_per_second(self) -> float:
        return self.capacity.requests_per_second * self.engines

    @property
    def tokens_per_minute(self) -> float:
        return self.capacity.tokens_per_minute * self.engines


@dataclass(frozen=True, slots=True)
class PlannedFleet:
    """How many replicas the traffic needs, and the latency that users see at the peak."""

    exact: float
    """Active replicas before rounding up."""
    active: int
    warm: int
    gpus: int
    expected: ExpectedLatency
    peak_load: EngineLoad
    """Load of one engine at the peak."""
    kv_fraction: float
    """Used share of the KV cache at the peak."""
    concurrent_streams: int
    """Streams that the gateway holds open at the peak: requests per second × mean seconds of a request."""

    @property
    def total(self) -> int:
        return self.active + self.warm


@dataclass(frozen=True, slots=True)
class CapacityPlan:
    plan_input: PlanInput
    replica: PlannedReplica
    throughput: Throughput | None
    """None without traffic, or if no number of replicas keeps the promise."""
    fleet: PlannedFleet | None
    assumptions: tuple[str, ...]
    notes: tuple[str, ...]
    """Remarks that do not make the plan fail."""
    problems: tuple[PlanProblem, ...]

    @property
    def fits(self) -> bool:
        return not self.problems


def size(plan_input: PlanInput, context: PlanContext | None = None, *, advise: bool = True) -> CapacityPlan:
    """The plan of one service. Its problems say what does not fit; `advise` adds remedies that need whole plans."""
    context = context or PlanContext()
    replica = _replica(plan_input, context.profiles)
    problems = list(_misfits(plan_input, replica))
    throughput, fleet = None, None
    if plan_input.mix is not None and not problems:
        throughput = _throughput(plan_input, replica, plan_input.mix, context)
        slow_step = remedies.slow_step_problem(plan_input, replica.sizes, throughput.engine, throughput.capacity)
        if slow_step is not None:
            problems.append(slow_step)
        elif plan_input.demand is not None:
            throughput, fleet = _fleet_in_time(plan_input, replica, throughput, plan_input.mix)
            problems += remedies.promise_problems(plan_input, fleet.expected, fleet.active)
    if problems and throughput is not None and advise:
        working = tuple(_working_remedies(plan_input, replica.sizes, context))
        problems = [remedies.with_remedies(problem, working) for problem in problems]
    if fleet is not None and throughput is not None:
        problems += _bound_problems(plan_input, fleet)
    return CapacityPlan(
        plan_input=plan_input,
        replica=replica,
        throughput=throughput if fleet is not None or not problems else None,
        fleet=fleet,
        assumptions=(*plan_input.assumptions, *_assumptions(plan_input, replica, throughput)),
        notes=tuple(_notes(plan_input, throughput, fleet)),
        problems=tuple(problems),
    )


def _working_remedies(plan_input: PlanInput, sizes: Sizes, context: PlanContext) -> Iterable[str]:
    """Remedies with which the whole plan fits: of each kind the first that needs few GPUs for its kind."""
    working: dict[str, list[tuple[int, str]]] = {}
    for remedy in remedies.candidate_remedies(plan_input, sizes):
        plan = size(remedy.plan_input, context, advise=False)
        if plan.fits and plan.throughput is not None:
            engine = plan.throughput.engine
            token_seconds = engine.step_profile.step_seconds / engine.tokens_per_step
            effect = f"a token takes at least {remedies.milliseconds(token_seconds)}"
            gpus = plan.replica.sizes.gpus
            if plan.fleet is not None:
                gpus = plan.fleet.gpus
                effect += f"; {count(plan.fleet.total, 'replica')} on {count(gpus, 'GPU')}"
            working.setdefault(remedy.kind, []).append((gpus, f"{remedy.text} ({effect})"))
    for of_kind in working.values():
        fewest = min(gpus for gpus, _ in of_kind)
        yield next(text for gpus, text in of_kind if gpus <= GPU_TOLERANCE * fewest)


def count(number: int, noun: str) -> str:
    """A number with its noun in singular or plural."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def engine_setup(plan_input: PlanInput, sizes: Sizes) -> EngineSetup:
    """The model on its GPU with these parallel sizes, by which a profile is chosen."""
    return EngineSetup(
        source=plan_input.source,
        model=plan_input.model,
        architecture=plan_input.architecture,
        gpu=plan_input.gpu,
        quantization=plan_input.quantization,
        kv_bits=plan_input.kv_bits,
        sizes=sizes,
        engine_version=plan_input.engine_version,
    )


def engine_footprint(plan_input: PlanInput, sizes: Sizes, given: Iterable[GivenProfile] = ()) -> Footprint:
    """The memory that an engine of these sizes needs; a given profile may state its overhead."""
    profile = given_for(engine_setup(plan_input, sizes), given)
    overhead = profile.overhead_bytes if profile and profile.overhead_bytes is not None else DEFAULT_OVERHEAD_BYTES
    return Footprint(
        architecture=plan_input.architecture,
        weight_bytes=weight_bytes(plan_input.architecture.parameters, plan_input.quantization.bits),
        kv_bits=plan_input.kv_bits,
        utilization_percent=plan_input.utilization_percent,
        overhead_bytes=overhead,
        adapters=plan_input.adapters,
        draft_bytes=plan_input.draft_bytes,
    )


def default_batched_tokens(memory_bytes: int, name: str) -> int:
    """vLLM's own default of `--max-num-batched-tokens`, which depends on the GPU's memory."""
    if memory_bytes >= HUGE_CARD_BYTES:
        return 16_384
    return 8192 if memory_bytes >= LARGE_CARD_BYTES and not name.startswith("A100") else 2048


def _replica(plan_input: PlanInput, given: Iterable[GivenProfile]) -> PlannedReplica:
    sizes, chosen = _sizes(plan_input, given)
    footprint = engine_footprint(plan_input, sizes, given)
    memory = measure(footprint, sizes, plan_input.gpu.memory_bytes)
    mix = plan_input.mix
    tokens = mix.prompt_tokens + mix.output_tokens / 2 if mix else plan_input.full_length
    return PlannedReplica(
        sizes=sizes,
        chosen_sizes=chosen,
        footprint=footprint,
        memory=memory,
        max_concurrent_sequences=sequences(footprint, sizes, memory, tokens, plan_input.max_num_seqs),
        missing_bytes=missing_bytes(footprint, sizes, plan_input.gpu.memory_bytes, plan_input.full_length),
    )


def _sizes(plan_input: PlanInput, given: Iterable[GivenProfile]) -> tuple[Sizes, bool]:
    """The given sizes, or the smallest that fit, and whether the plan chose them. If none fit, the largest sizes are
    taken, because they lack the fewest bytes."""
    if plan_input.tensor is not None:
        return Sizes(plan_input.tensor, plan_input.pipeline or 1, plan_input.data), False
    fallback = Sizes(1, plan_input.pipeline or 1, plan_input.data)
    for sizes in candidate_sizes(plan_input.architecture, pipeline=plan_input.pipeline, data=plan_input.data):
        fallback = sizes
        footprint = engine_footprint(plan_input, sizes, given)
        if not missing_bytes(footprint, sizes, plan_input.gpu.memory_bytes, plan_input.full_length):
            return sizes, True
    return fallback, True


def _misfits(plan_input: PlanInput, replica: PlannedReplica) -> Iterable[PlanProblem]:
    """Problems that keep the replica from starting or from holding a request."""
    architecture, sizes = plan_input.architecture, replica.sizes
    if not architecture.divides(sizes.tensor):
        divisors = [str(tensor) for tensor in TENSOR_PARALLEL_SIZES if architecture.divides(tensor)]
        yield PlanProblem(
            "spec.engine.tensorParallelSize",
            sizes.tensor,
            f"does not divide the {architecture.attention_heads} attention heads of the model, so vLLM does not start",
            (f"use {', '.join(divisors)}",),
        )
    if replica.missing_bytes:
        yield remedies.memory_problem(plan_input, replica.footprint, replica.memory, sizes, replica.missing_bytes)
    mix = plan_input.mix
    if mix is not None and mix.tokens > plan_input.full_length:
        yield PlanProblem(
            "spec.traffic.promptTokens",
            round(mix.prompt_tokens),
            f"and {mix.output_tokens:,.0f} output tokens are more than the {plan_input.full_length:,} tokens that a "
            "request may have",
            (f"set model.maxModelLen {ceil(mix.tokens)} or more, if the checkpoint allows it",),
        )


def engine_of(
    plan_input: PlanInput, replica: PlannedReplica, context: PlanContext
) -> tuple[ChosenProfile, EngineModel]:
    """The profile of the replica's engines and the model of one engine; neither depends on the traffic."""
    tokens = max(1, replica.memory.kv_tokens_per_engine)
    chosen = choose_profile(engine_setup(plan_input, replica.sizes), tokens, context.profiles)
    return chosen, EngineModel(
        profile=chosen.profile,
        kv_tokens=tokens,
        max_num_seqs=plan_input.max_num_seqs,
        kv_share=KV_TARGET_MARGIN * plan_input.kv_target,
        usable_share=context.usable_share or chosen.usable_share,
        speculation=plan_input.speculation,
    )


def _throughput(plan_input: PlanInput, replica: PlannedReplica, mix: Mix, context: PlanContext) -> Throughput:
    chosen, engine = engine_of(plan_input, replica, context)
    limit = plan_input.batched_tokens or default_batched_tokens(plan_input.gpu.memory_bytes, plan_input.gpu.name)
    engine_capacity = capacity(engine, mix, plan_input.promise)
    chunk = limit
    if plan_input.batched_tokens is None and engine_capacity.usable > 0:
        chunk = batched_tokens(engine, mix, plan_input.promise, limit)
    return Throughput(chosen, engine, engine_capacity, replica.sizes.data, chunk, chunk)


def _fleet_in_time(
    plan_input: PlanInput, replica: PlannedReplica, throughput: Throughput, mix: Mix
) -> tuple[Throughput, PlannedFleet]:
    """The fleet, with more prompt tokens per step if first tokens would be late otherwise.

    A step full of prompts delays one token of every other sequence, and the mean time between tokens still holds.
    Chunks so small that a prompt needs many steps delay every first token, and its p95 does not hold.
    """
    fleet = _fleet(plan_input, replica, throughput, mix)
    limit = default_batched_tokens(plan_input.gpu.memory_bytes, plan_input.gpu.name)
    promised = plan_input.promise.time_to_first_token
    if plan_input.batched_tokens is not None or fleet.expected.first_token_p95 <= promised:
        return throughput, fleet
    chunk = throughput.batched_tokens
    while chunk < limit:
        chunk = min(limit, ceil(chunk * CHUNK_STEP))
        larger_chunks = replace(throughput, batched_tokens=chunk)
        fleet_in_time = _fleet(plan_input, replica, larger_chunks, mix)
        if fleet_in_time.expected.first_token_p95 <= promised:
            return larger_chunks, fleet_in_time
    return throughput, fleet


def _fleet(plan_input: PlanInput, replica: PlannedReplica, throughput: Throughput, mix: Mix) -> PlannedFleet:
    demand = plan_input.demand
    assert demand is not None
    peak = float(demand.peak)
    exact = peak * float(demand.headroom) / throughput.requests_per_second
    active = max(1, ceil(round(exact, 9)))
    rate = peak / (active * throughput.engines)
    peak_load = load(throughput.engine, mix, rate)
    latency = expected_latency(throughput.engine, mix, rate, throughput.batched_tokens)
    return PlannedFleet(
        exact=exact,
        active=active,
        warm=plan_input.warm,
        gpus=(active + plan_input.warm) * replica.sizes.gpus,
        expected=latency,
        peak_load=peak_load,
        kv_fraction=peak_load.kv_tokens / throughput.engine.kv_tokens,
        concurrent_streams=ceil(round(peak * latency.end_to_end_mean, 9)),
    )


def _bound_problems(plan_input: PlanInput, fleet: PlannedFleet) -> Iterable[PlanProblem]:
    """Problems of maxReplicas, which must allow the replicas for the peak itself. Scaling follows the real load, so the
    headroom does not count."""
    demand = plan_input.demand
    assert demand is not None
    if fleet.total > MOST_REPLICAS:
        yield PlanProblem(
            "spec.traffic.requestsPerMonth",
            demand.requests_per_month,
            f"needs {fleet.total:,} replicas, and a service has at most {MOST_REPLICAS:,}",
            (f"split the traffic over {ceil(fleet.total / MOST_REPLICAS)} services",),
        )
    elif plan_input.max_replicas is not None:
        at_peak = max(1, ceil(round(fleet.exact / float(demand.headroom), 9))) + fleet.warm
        if plan_input.max_replicas < at_peak:
            working = [f"set it to {fleet.total}"]
            if (active := plan_input.max_replicas - fleet.warm) > 0:
                requests = int(demand.requests_per_month * active * float(demand.headroom) / fleet.exact)
                working.append(f"plan for at most {requests:,} requests per month")
            yield PlanProblem(
                "spec.scaling.maxReplicas",
                plan_input.max_replicas,
                f"is below the {at_peak} replicas that the peak needs even without headroom, including {fleet.warm} "
                "warm replicas",
                tuple(working),
            )


def _notes(plan_input: PlanInput, throughput: Throughput | None, fleet: PlannedFleet | None) -> Iterable[str]:
    if fleet is None or throughput is None:
        return
    if throughput.batched_tokens > throughput.unbroken_tokens:
        chunk, unbroken = throughput.batched_tokens, throughput.unbroken_tokens
        yield (
            f"a step computes up to {chunk:,} prompt tokens: with {unbroken:,}, which would keep every next token in "
            "time, first tokens would be late; the mean time between tokens still holds"
        )
    if plan_input.max_replicas is None and fleet.total > 1:
        yield f"scaling.maxReplicas is not set and defaults to 1; set it to {fleet.total} to allow the planned replicas"
    elif plan_input.max_replicas is not None and plan_input.max_replicas < fleet.total <= MOST_REPLICAS:
        yield (
            f"scaling.maxReplicas {plan_input.max_replicas} allows the peak but not its headroom; the plan needs "
            f"{fleet.total} replicas"
        )


def _assumptions(plan_input: PlanInput, replica: PlannedReplica, throughput: Throughput | None) -> Iterable[str]:
    overhead = replica.footprint.overhead_bytes / 2**30
    yield (
        f"the engine uses {replica.footprint.utilization_percent} % of each GPU's "
        f"{replica.memory.card_bytes / 2**30:.2f} GiB, including {overhead:g} GiB of overhead"
    )
    if plan_input.nodes > 1:
        gpus = count(replica.sizes.gpus // plan_input.nodes, "GPU")
        yield f"a replica spans {plan_input.nodes} nodes with {gpus} each; network time between nodes is not modelled"
    if replica.chosen_sizes:
        yield f"parallel sizes are the smallest that fit: {replica.sizes}"
    if throughput is not None:
        chosen = throughput.chosen
        yield f"profile {chosen.name}, ±{chosen.error_percent} %"
        yield from chosen.notes
        yield f"{throughput.capacity.usable_share:.0%} of the mean-value capacity is used (φ), so that p95 holds too"
