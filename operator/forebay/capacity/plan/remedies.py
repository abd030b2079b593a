"""Remedies: for a plan that does not fit, the problems and the changes to the manifest that would solve them.

Each remedy is computed, so that it works when it is followed.
"""

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
"""Quantization methods to suggest: 8 bits, then 4."""
GPUS_OF_A_MACHINE: Final = 8
TOLERANCE: Final = 1 + 1e-9
MODEL_ERROR: Final = 1.05
"""A mean counts as broken only beyond the error that the replica model has on the rows it was fitted to."""
OFFERED_STEP_SHARE: Final = 0.5
"""An empty step takes this share of a suggested time between tokens; the rest of the GPU's time is left for work."""
HEADROOM_FACTORS: Final = (1.25, 1.5, 2, 3)
"""Factors by which a larger headroom is tried."""
LARGEST_PROMISE_SECONDS: Final = 600


def memory_problem(
    plan_input: PlanInput, footprint: Footprint, memory: GpuMemory, sizes: Sizes, missing: int
) -> PlanProblem:
    """A GPU that lacks memory, with the missing bytes and the changes that would save them."""
    request = request_bytes(footprint, sizes, plan_input.full_length)
    setup = f"{sizes} on {plan_input.gpu.product}"
    reason = (
        f"weights of {_gib(memory.weight_bytes_per_rank)}, overhead of {_gib(memory.overhead_bytes)} and one request "
        f"of {plan_input.full_length:,} tokens ({_gib(request)}) need {_gib(missing)} ({missing:,} bytes) more than "
        f"the {_gib(memory.usable_bytes)} of each GPU that the engine may use ({setup})"
    )
    remedies = tuple(text for remedy in _MEMORY_REMEDIES for text in remedy(plan_input, footprint, sizes))
    field = "spec.engine.tensorParallelSize" if plan_input.tensor else "spec.model.source"
    return PlanProblem(field, plan_input.tensor or plan_input.source, f"does not fit: {reason}", remedies)


def slow_step_problem(
    plan_input: PlanInput, sizes: Sizes, engine: EngineModel, capacity: Capacity
) -> PlanProblem | None:
    """A step that takes too long even without any work; None if it leaves time for work."""
    if capacity.latency_share > 0:
        return None
    promise = plan_input.promise
    token = engine.step_profile.step_seconds / engine.tokens_per_step
    end_to_end_limits = promise.end_to_end is not None and capacity.inter_token_limit < promise.inter_token_latency
    effect = (
        f"leaves {milliseconds(capacity.inter_token_limit)} between tokens, but"
        if end_to_end_limits
        else "cannot be kept:"
    )
    reason = (
        f"{effect} a token takes at least {milliseconds(token)} on {plan_input.gpu.product} ({sizes}), even without "
        "prompts and KV reads"
    )
    if end_to_end_limits:
        return PlanProblem("spec.slo.endToEnd.p95", plan_input.slo_texts["endToEnd"], reason)
    suggested = token / OFFERED_STEP_SHARE
    remedies = (f"set it to {milliseconds(suggested)} or more",) if suggested <= LARGEST_PROMISE_SECONDS else ()
    return PlanProblem("spec.slo.interTokenLatency.mean", plan_input.slo_texts["interTokenLatency"], reason, remedies)


def promise_problems(plan_input: PlanInput, latency: ExpectedLatency, active: int) -> Iterator[PlanProblem]:
    """The promises that the latency expected at the peak would break."""
    promise = plan_input.promise
    for name, quantile, limit, expected in (
        ("timeToFirstToken", "p95", promise.time_to_first_token, latency.first_token_p95),
        ("interTokenLatency", "mean", promise.inter_token_latency * MODEL_ERROR, latency.inter_token_mean),
        ("endToEnd", "p95", promise.end_to_end, latency.end_to_end_p95),
    ):
        if limit is not None and expected > limit * TOLERANCE:
            yield PlanProblem(
                f"spec.slo.{name}.{quantile}",
                plan_input.slo_texts[name],
                f"is not kept at the peak: {milliseconds(expected)} is expected with {active} active replicas",
                (f"set it to {milliseconds(expected)} or more",),
            )


def with_remedies(problem: PlanProblem, added: tuple[str, ...]) -> PlanProblem:
    """The problem with these remedies after its own."""
    return replace(problem, remedies=(*problem.remedies, *added))


@dataclass(frozen=True, slots=True)
class Remedy:
    """The input of a plan with one change, which may keep promises that the original plan breaks."""

    kind: str
    plan_input: PlanInput
    text: str


def candidate_remedies(plan_input: PlanInput, sizes: Sizes) -> Iterator[Remedy]:
    """Changes that may let the plan keep its promises: more headroom, more GPUs, narrower weights, a faster GPU."""
    if plan_input.demand is not None:
        for factor in HEADROOM_FACTORS:
            demand = replace(plan_input.demand, headroom=plan_input.demand.headroom * exact(factor))
            text = f"set traffic.headroom {float(demand.headroom):g}"
            yield Remedy("headroom", replace(plan_input, demand=demand), text)
    max_gpus = MOST_GPUS_PER_POD * plan_input.nodes
    for tensor in TENSOR_PARALLEL_SIZES:
        larger = Sizes(tensor, sizes.pipeline, sizes.data)
        if tensor > sizes.tensor and plan_input.architecture.divides(tensor) and larger.gpus <= max_gpus:
            split = replace(plan_input, tensor=tensor, pipeline=sizes.pipeline)
            yield Remedy("tensor", split, f"set engine.tensorParallelSize {tensor}")
    for quantization in _narrower(plan_input):
        narrow = replace(plan_input, quantization=quantization)
        yield Remedy("weights", narrow, f"use a checkpoint with model.quantization {quantization.method}")
    for card in faster_than(plan_input.gpu):
        yield Remedy("card", replace(plan_input, gpu=card), f"use gpu.product {card.product}")


def _more_gpus(plan_input: PlanInput, footprint: Footprint, sizes: Sizes) -> Iterator[str]:
    card_bytes, tokens = plan_input.gpu.memory_bytes, plan_input.full_length
    fitting = smallest_sizes(footprint, card_bytes, tokens, pipeline=plan_input.pipeline, data=plan_input.data)
    if fitting is not None and fitting != sizes:
        memory = measure(footprint, fitting, card_bytes)
        parts = [f"tensorParallelSize {fitting.tensor}"]
        parts += [f"pipelineParallelSize {fitting.pipeline}"] if fitting.pipeline > 1 else []
        yield f"set engine.{' and '.join(parts)}: {memory.kv_tokens:,} tokens of KV cache"


def _more_nodes(plan_input: PlanInput, footprint: Footprint, sizes: Sizes) -> Iterator[str]:
    """For models that fit on no single machine: a pipeline over full machines of 8 GPUs."""
    one_machine = smallest_sizes(footprint, plan_input.gpu.memory_bytes, plan_input.full_length, data=plan_input.data)
    if one_machine is not None or plan_input.data > 1 or not plan_input.architecture.divides(GPUS_OF_A_MACHINE):
        return
    for nodes in range(max(2, plan_input.nodes + 1), min(MOST_NODES, plan_input.architecture.layers) + 1):
        pipeline = Sizes(GPUS_OF_A_MACHINE, nodes, 1)
        if not missing_bytes(footprint, pipeline, plan_input.gpu.memory_bytes, plan_input.full_length):
            tokens = measure(footprint, pipeline, plan_input.gpu.memory_bytes).kv_tokens
            yield (
                f"set engine.nodes {nodes}, tensorParallelSize {GPUS_OF_A_MACHINE} and pipelineParallelSize {nodes}: "
                f"{tokens:,} tokens of KV cache"
            )
            return


def _narrower_weights(plan_input: PlanInput, footprint: Footprint, sizes: Sizes) -> Iterator[str]:
    for quantization in _narrower(plan_input):
        smaller = replace(footprint, weight_bytes=weight_bytes(plan_input.architecture.parameters, quantization.bits))
        if not missing_bytes(smaller, sizes, plan_input.gpu.memory_bytes, plan_input.full_length):
            memory = measure(smaller, sizes, plan_input.gpu.memory_bytes)
            yield (
                f"use a checkpoint with model.quantization {quantization.method}: "
                f"{_gib(memory.weight_bytes_per_rank)} of weights per GPU, {memory.kv_tokens:,} tokens of KV cache"
            )


def _narrower_cache(plan_input: PlanInput, footprint: Footprint, sizes: Sizes) -> Iterator[str]:
    fp8 = replace(footprint, kv_bits=8)
    if plan_input.kv_bits > 8 and not missing_bytes(fp8, sizes, plan_input.gpu.memory_bytes, plan_input.full_length):
        tokens = measure(fp8, sizes, plan_input.gpu.memory_bytes).kv_tokens
        yield f"set model.kvCacheDtype fp8: {tokens:,} tokens of KV cache"


def _shorter_requests(plan_input: PlanInput, footprint: Footprint, sizes: Sizes) -> Iterator[str]:
    longest = longest_request(footprint, sizes, plan_input.gpu.memory_bytes, plan_input.full_length - 1)
    needed = plan_input.mix.tokens if plan_input.mix else BLOCK_TOKENS
    if longest >= needed:
        yield f"set model.maxModelLen {longest} or less"


def _larger_card(plan_input: PlanInput, footprint: Footprint, sizes: Sizes) -> Iterator[str]:
    for card in larger_than(plan_input.gpu):
        if not missing_bytes(footprint, sizes, card.memory_bytes, plan_input.full_length):
            tokens = measure(footprint, sizes, card.memory_bytes).kv_tokens
            yield f"use gpu.product {card.product}: {tokens:,} tokens of KV cache"
            return


_MemoryRemedy = Callable[[PlanInput, Footprint, Sizes], Iterator[str]]
_MEMORY_REMEDIES: Final[tuple[_MemoryRemedy, ...]] = (
    _more_gpus,
    _more_nodes,
    _narrower_weights,
    _narrower_cache,
    _shorter_requests,
    _larger_card,
)


def _narrower(plan_input: PlanInput) -> Iterator[Quantization]:
    for method in NARROWER:
        quantization = quantization_of(method, None, None)
        if quantization is not None and quantization.bits < plan_input.quantization.bits:
            yield quantization


def _gib(bytes_: int) -> str:
    return f"{bytes_ / 2**30:.2f} GiB"


def milliseconds(seconds: float) -> str:
    """A time for people to read: in milliseconds, such as 26.1 ms, or in seconds from 10 s on."""
    return f"{seconds * 1000:.4g} ms" if seconds < 10 else f"{seconds:.4g} s"
