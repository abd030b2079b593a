"""Roofline: the coefficients of a pair that nobody measured, from the data sheet and how near kernels come to it.

The efficiencies are those of measured kernels on H100 and A100. The capacity computed from them was held against every
profile of the built-in table (docs/capacity.md shows the rows); `ERROR_PERCENT` is wider than the worst of them.
"""

from typing import Final

from forebay.capacity.model.architecture import Architecture
from forebay.capacity.model.engine_profile import EngineProfile
from forebay.capacity.model.gpu_memory import Sizes, kv_bytes_per_layer
from forebay.capacity.model.model_catalogue import Gpu
from forebay.capacity.model.quantization import FULL_BITS, HOST_SECONDS, UNQUANTIZED, Quantization, quantized

WEIGHT_BANDWIDTH_SHARE: Final = 0.72
"""Of the printed bandwidth, what reading weights reaches (65 to 72 % in Vidur's decode kernels)."""
KV_BANDWIDTH_SHARE: Final = 0.75
"""Of the printed bandwidth, what attention over the KV cache reaches; fits every profile of the table within 3 %."""
PREFILL_FLOPS_SHARE: Final = 0.65
"""Of the dense peak, what prefill reaches (55 to 67 % in Vidur's kernels)."""
SEQUENCE_PER_PROMPT_TOKEN: Final = 0.25
"""A decoding sequence beside a prompt token: its products hide behind the reading of the weights."""
ALL_REDUCE_SECONDS: Final = 10e-6
"""One all-reduce of a small batch over NVLink; there are two in each layer."""
ERROR_PERCENT: Final = 35
"""How far the capacity computed from an estimate may be off."""


def estimate(
    architecture: Architecture,
    gpu: Gpu,
    sizes: Sizes,
    *,
    quantization: Quantization = UNQUANTIZED,
    kv_bits: int = FULL_BITS,
    kv_tokens: int,
) -> EngineProfile:
    """The engine's profile from bytes and operations alone.

    A pipeline reads all weights one stage after the other, so its step is no shorter; it works on as many batches at
    once as it has stages, so prompts, sequences and KV reads cost each of them a share.
    """
    weight_bytes = architecture.parameters * FULL_BITS / 8
    reading = weight_bytes / sizes.tensor / (gpu.bandwidth * WEIGHT_BANDWIDTH_SHARE)
    reducing = 2 * architecture.layers * ALL_REDUCE_SECONDS if sizes.tensor > 1 else 0.0
    operations = 2 * architecture.active / (gpu.flops_at(FULL_BITS) * PREFILL_FLOPS_SHARE)
    prompt_token = operations / sizes.gpus_per_engine
    kv_bytes = architecture.layers * kv_bytes_per_layer(architecture, kv_bits, sizes.tensor)
    profile = EngineProfile(
        step_seconds=HOST_SECONDS + reading + reducing,
        prompt_token_seconds=prompt_token,
        sequence_seconds=prompt_token * SEQUENCE_PER_PROMPT_TOKEN,
        kv_token_seconds=kv_bytes / sizes.pipeline / (gpu.bandwidth * KV_BANDWIDTH_SHARE),
        kv_tokens=kv_tokens,
    )
    return quantized(profile, quantization, gpu)
