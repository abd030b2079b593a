"""Ways out: for a plan that does not hold, the changes that would make it hold, each one computed."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from forebay.api.spec.engine_spec import MOST_GPUS_PER_POD, MOST_NODES
from forebay.capacity.model.expected_latency import ExpectedLatency
from forebay.capacity.model.gpu_memory import (
    BLOCK_TOKENS,
    TENSOR_PARALLEL_SIZES,
    Footprint,
    GpuMemory,
    Sizes,
    longest_request,
    measure,
    missing_bytes,
    request_bytes,
    smallest_sizes,
    weight_bytes,
)
from forebay.capacity.model.model_catalogue import faster_than, larger_than
from forebay.capacity.model.quantization import Quantization, quantization_of
from forebay.capacity.model.replica_model import Capacity, EngineModel
from forebay.capacity.plan.monthly_demand import exact
from forebay.capacity.plan.plan_input import PlanInput
from forebay.capacity.plan.plan_problem import PlanProblem

NARROWER: Final = ("fp8", "awq")
"""Precisions that are offered: 8 bits, then 4."""
GPUS_OF_A_MACHINE: Final = 8
TOLERANCE: Final = 1 + 1e-9
MODEL_ERROR: Final = 1.05
"""A mean is called broken only beyond what the replica model may be off on the rows it was fitted to."""
SENSIBLE_SHARE: Final = 0.5
"""A promise is offered that leaves half of the GPU for work: a step takes half of it."""
MORE_HEADROOM: Final = (1.25, 1.5, 2, 3)
LARGEST_PROMISE_SECONDS: Final = 600


def too_little_memory(
    subject: PlanInput, footprint: Footprint, memory: GpuMemory, sizes: Sizes, missing: int
) -> PlanProblem:
    """The bytes that are missing, and what would make them unnecessary."""
    request = request_bytes(footprint, sizes, subject.full_length)
    where = f"{sizes} on {subject.gpu.product}"
    reason = (
        f"weights of {_gib(memory.weight_bytes_per_rank)}, overhead of {_gib(memory.overhead_bytes)} and one request "
        f"of {subject.full_length:,} tokens ({_gib(request)}) need {_gib(missing)} ({missing:,} bytes) more than the "
        f"{_gib(memory.usable_bytes)} that the engine may take of each GPU ({where})"
    )
    options = tuple(option for way in _MEMORY_WAYS for option in way(subject, footprint, sizes))
    field = "spec.engine.tensorParallelSize" if subject.tensor else "spec.model.source"
    return PlanProblem(field, subject.tensor or subject.source, f"does not fit: {reason}", options)


def slow_step(subject: PlanInput, sizes: Sizes, engine: EngineModel, found: Capacity) -> PlanProblem | None:
    """A step that takes too long before any work is in it."""
    if found.latency_share > 0:
        return None
    promise = subject.promise
    token = engine.step_profile.step_seconds / engine.tokens_per_step
    limited = promise.end_to_end is not None and found.inter_token_limit < promise.inter_token_latency
    what = f"leaves {milliseconds(found.inter_token_limit)} between tokens, and" if limited else "cannot be kept:"
    reason = (
        f"{what} a token takes {milliseconds(token)} on {subject.gpu.product} ({sizes}) before any request is in the "
        "step, without prompts and KV reads"
    )
    if limited:
        return PlanProblem("spec.slo.endToEnd.p95", subject.written["endToEnd"], reason)
    raised = token / SENSIBLE_SHARE
    options = (f"promise {milliseconds(raised)} or more",) if raised <= LARGEST_PROMISE_SECONDS else ()
    return PlanProblem("spec.slo.interTokenLatency.mean", subject.written["interTokenLatency"], reason, options)


def broken_promises(subject: PlanInput, seen: ExpectedLatency, active: int) -> Iterator[PlanProblem]:
    """What users would see at the peak, where it is more than they were promised."""
    promise = subject.promise
    for name, quantile, limit, found in (
        ("timeToFirstToken", "p95", promise.time_to_first_token, seen.first_token_p95),
        ("interTokenLatency", "mean", promise.inter_token_latency * MODEL_ERROR, seen.inter_token_mean),
        ("endToEnd", "p95", promise.end_to_end, seen.end_to_end_p95),
    ):
        if limit is not None and found > limit * TOLERANCE:
            yield PlanProblem(
                f"spec.slo.{name}.{quantile}",
                subject.written[name],
                f"is not kept at the peak: {milliseconds(found)} are expected with {active} active replicas",
                (f"promise {milliseconds(found)} or more",),
            )


def with_options(problem: PlanProblem, more: tuple[str, ...]) -> PlanProblem:
    return replace(problem, options=(*problem.options, *more))


@dataclass(frozen=True, slots=True)
class Remedy:
    """A service that differs in one thing, and may keep promises that this one breaks."""

    kind: str
    subject: PlanInput
    words: str


def changes(subject: PlanInput, sizes: Sizes) -> Iterator[Remedy]:
    if subject.demand is not None:
        for factor in MORE_HEADROOM:
            more = replace(subject.demand, headroom=subject.demand.headroom * exact(factor))
            words = f"set traffic.headroom {float(more.headroom):g}"
            yield Remedy("headroom", replace(subject, demand=more), words)
    most = MOST_GPUS_PER_POD * subject.nodes
    for tensor in TENSOR_PARALLEL_SIZES:
        wider = Sizes(tensor, sizes.pipeline, sizes.data)
        if tensor > sizes.tensor and subject.architecture.divides(tensor) and wider.gpus <= most:
            split = replace(subject, tensor=tensor, pipeline=sizes.pipeline)
            yield Remedy("tensor", split, f"set engine.tensorParallelSize {tensor}")
    for quantization in _narrower(subject):
        narrow = replace(subject, quantization=quantization)
        yield Remedy("weights", narrow, f"use a checkpoint with model.quantization {quantization.method}")
    for card in faster_than(subject.gpu):
        yield Remedy("card", replace(subject, gpu=card), f"use gpu.product {card.product}")


def _more_gpus(subject: PlanInput, footprint: Footprint, sizes: Sizes) -> Iterator[str]:
    found = smallest_sizes(
        footprint, subject.gpu.memory_bytes, subject.full_length, pipeline=subject.pipeline, data=subject.data
    )
    if found is not None and found != sizes:
        memory = measure(footprint, found, subject.gpu.memory_bytes)
        parts = [f"tensorParallelSize {found.tensor}"]
        parts += [f"pipelineParallelSize {found.pipeline}"] if found.pipeline > 1 else []
        yield f"set engine.{' and '.join(parts)}: {memory.kv_tokens:,} tokens of KV cache"


def _more_nodes(subject: PlanInput, footprint: Footprint, sizes: Sizes) -> Iterator[str]:
    """For what is too large for any one machine: full machines of 8 GPUs, chained."""
    one_machine = smallest_sizes(footprint, subject.gpu.memory_bytes, subject.full_length, data=subject.data)
    if one_machine is not None or subject.data > 1 or not subject.architecture.divides(GPUS_OF_A_MACHINE):
        return
    for nodes in range(max(2, subject.nodes + 1), min(MOST_NODES, subject.architecture.layers) + 1):
        chained = Sizes(GPUS_OF_A_MACHINE, nodes, 1)
        if not missing_bytes(footprint, chained, subject.gpu.memory_bytes, subject.full_length):
            tokens = measure(footprint, chained, subject.gpu.memory_bytes).kv_tokens
            yield (
                f"set engine.nodes {nodes}, tensorParallelSize {GPUS_OF_A_MACHINE} and pipelineParallelSize {nodes}: "
                f"{tokens:,} tokens of KV cache"
            )
            return


def _narrower_weights(subject: PlanInput, footprint: Footprint, sizes: Sizes) -> Iterator[str]:
    for quantization in _narrower(subject):
        smaller = replace(footprint, weight_bytes=weight_bytes(subject.architecture.parameters, quantization.bits))
        if not missing_bytes(smaller, sizes, subject.gpu.memory_bytes, subject.full_length):
            memory = measure(smaller, sizes, subject.gpu.memory_bytes)
            yield (
                f"use a checkpoint with model.quantization {quantization.method}: "
                f"{_gib(memory.weight_bytes_per_rank)} of weights a GPU, {memory.kv_tokens:,} tokens"
            )


def _narrower_cache(subject: PlanInput, footprint: Footprint, sizes: Sizes) -> Iterator[str]:
    half = replace(footprint, kv_bits=8)
    if subject.kv_bits > 8 and not missing_bytes(half, sizes, subject.gpu.memory_bytes, subject.full_length):
        tokens = measure(half, sizes, subject.gpu.memory_bytes).kv_tokens
        yield f"set model.kvCacheDtype fp8: {tokens:,} tokens"


def _shorter_requests(subject: PlanInput, footprint: Footprint, sizes: Sizes) -> Iterator[str]:
    longest = longest_request(footprint, sizes, subject.gpu.memory_bytes, subject.full_length - 1)
    needed = subject.mix.tokens if subject.mix else BLOCK_TOKENS
    if longest >= needed:
        yield f"set model.maxModelLen {longest} or less"


def _larger_card(subject: PlanInput, footprint: Footprint, sizes: Sizes) -> Iterator[str]:
    for card in larger_than(subject.gpu):
        if not missing_bytes(footprint, sizes, card.memory_bytes, subject.full_length):
            tokens = measure(footprint, sizes, card.memory_bytes).kv_tokens
            yield f"use gpu.product {card.product}: {tokens:,} tokens"
            return


_Way = Callable[[PlanInput, Footprint, Sizes], Iterator[str]]
_MEMORY_WAYS: Final[tuple[_Way, ...]] = (
    _more_gpus,
    _more_nodes,
    _narrower_weights,
    _narrower_cache,
    _shorter_requests,
    _larger_card,
)


def _narrower(subject: PlanInput) -> Iterator[Quantization]:
    for method in NARROWER:
        found = quantization_of(method, None, None)
        if found is not None and found.bits < subject.quantization.bits:
            yield found


def _gib(bytes_: int) -> str:
    return f"{bytes_ / 2**30:.2f} GiB"


def milliseconds(seconds: float) -> str:
    """As people read them: 26.1 ms, or seconds from ten on."""
    return f"{seconds * 1000:.4g} ms" if seconds < 10 else f"{seconds:.4g} s"
