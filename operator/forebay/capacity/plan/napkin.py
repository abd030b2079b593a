"""The napkin estimate: the quick calculation that people make first, shown beside the plan to explain the difference.

    step = bytes of weights ÷ memory bandwidth
    tokens per second = concurrent sequences ÷ step
    requests per second = tokens per second ÷ tokens of an answer

It uses the model's nominal size at 16 bits and all of the printed bandwidth, and ignores KV reads and prefill.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil
from typing import Final

from forebay.api.inference_service import InferenceServiceSpec
from forebay.capacity.plan.plan_input import PlanInput
from forebay.capacity.plan.sizing import CapacityPlan

SEQUENCES: Final = 50
"""Concurrent sequences if the manifest does not set maxNumSeqs: the method's usual guess."""
WARM: Final = 1
"""Spare replicas if the manifest does not set warmPool.replicas."""
GROWTH: Final = 4
"""maxReplicas as a multiple of the active replicas if the manifest does not set it."""
BYTES_PER_WEIGHT: Final = 2


@dataclass(frozen=True, slots=True)
class NapkinScaling:
    """The scaling block of a manifest for the estimate."""

    queue_depth: int
    scale_up_cooldown_seconds: float
    scale_down_cooldown_seconds: float
    min_replicas: int
    max_replicas: int


@dataclass(frozen=True, slots=True)
class Napkin:
    """The estimate for one service; the rates are those of one replica."""

    step_seconds: float
    tokens_per_second: float
    requests_per_second: float
    active: int
    warm: int
    scaling: NapkinScaling


def napkin(
    parameters: int, bandwidth: float, sequences: int, output_tokens: float, requests_per_second: float
) -> tuple[float, float, float, int]:
    """Seconds per step, tokens per second and requests per second of one replica, and replicas for the peak rate
    `requests_per_second`; `bandwidth` is in bytes per second."""
    step = parameters * BYTES_PER_WEIGHT / bandwidth
    tokens = sequences / step
    requests = tokens / output_tokens
    return step, tokens, requests, max(1, ceil(round(requests_per_second / requests, 9)))


def napkin_of(spec: InferenceServiceSpec, plan_input: PlanInput, gpus: int = 1) -> Napkin | None:
    """The estimate for a service; None without traffic. The bandwidth of a replica's GPUs adds up."""
    if plan_input.demand is None or plan_input.mix is None:
        return None
    sequences = spec.engine.max_num_seqs if "max_num_seqs" in spec.engine.model_fields_set else SEQUENCES
    step, tokens, requests, active = napkin(
        plan_input.nominal_parameters,
        plan_input.gpu.bandwidth * gpus,
        sequences,
        plan_input.mix.output_tokens,
        float(plan_input.demand.peak),
    )
    scaling, bounds = spec.scaling, spec.scaling.model_fields_set
    return Napkin(
        step_seconds=step,
        tokens_per_second=tokens,
        requests_per_second=requests,
        active=active,
        warm=spec.warm_pool.replicas if "replicas" in spec.warm_pool.model_fields_set else WARM,
        scaling=NapkinScaling(
            queue_depth=scaling.targets.queue_depth,
            scale_up_cooldown_seconds=scaling.scale_up_cooldown.seconds,
            scale_down_cooldown_seconds=scaling.scale_down_cooldown.seconds,
            min_replicas=scaling.min_replicas if "min_replicas" in bounds else active,
            max_replicas=scaling.max_replicas if "max_replicas" in bounds else GROWTH * active,
        ),
    )


def differences(estimate: Napkin, plan: CapacityPlan) -> Iterator[str]:
    """Why the plan differs from the estimate, with the plan's numbers."""
    throughput, mix, fleet = plan.throughput, plan.plan_input.mix, plan.fleet
    if throughput is None or mix is None:
        return
    engine = throughput.engine
    profile = engine.profile
    planned = throughput.requests_per_second
    yield (
        f"one replica: {estimate.requests_per_second:.1f} requests/s in the estimate, {planned:.1f} in the plan "
        f"({planned / estimate.requests_per_second:.0%})"
    )
    yield (
        f"bandwidth: a step takes {estimate.step_seconds * 1000:.2f} ms in the estimate, at 100 % of the printed "
        f"bandwidth, and {profile.step_seconds * 1000:.2f} ms on the engine even without work"
    )
    prefill = profile.prompt_token_seconds * mix.prompt_tokens
    share = planned / throughput.engines * prefill
    yield (
        f"prefill: a prompt of {mix.prompt_tokens:,.0f} tokens takes {prefill * 1000:.1f} ms on the same GPU, "
        f"{share:.0%} of every second at the planned rate; the estimate ignores it"
    )
    reads = profile.kv_token_seconds * mix.held_tokens
    yield (
        f"KV reads: each sequence adds {reads * 1e6:.0f} µs to every step for the {mix.held_tokens:,.0f} tokens it "
        "holds; the estimate ignores them"
    )
    demand = plan.plan_input.demand
    if fleet is not None and demand is not None and demand.headroom > 1:
        yield f"headroom: the plan multiplies the peak by {float(demand.headroom):g}; the estimate does not"
