"""Roofline estimates: the coefficients of an unmeasured model on a GPU, from the data sheet and kernel efficiencies.

The efficiencies are those of measured kernels on H100 and A100. The estimated capacity was compared with every profile
of the built-in table (docs/capacity.md shows the rows); `ERROR_PERCENT` is larger than the largest error.
"""

from typing import Final

from forebay.capacity.model.architecture import Architecture
from forebay.capacity.model.engine_profile import EngineProfile
from forebay.capacity.model.gpu_memory import Sizes, kv_bytes_per_layer
from forebay.capacity.model.model_catalogue import Gpu
from forebay.capacity.model.quantization import FULL_BITS, HOST_SECONDS, UNQUANTIZED, Quantization, quantized

WEIGHT_BANDWIDTH_SHARE: Final = 0.72
"""Share of the printed bandwidth that reading weights reaches (65 to 72 % in Vidur's decode kernels)."""
KV_BANDWIDTH_SHARE: Final = 0.75
"""Share of the printed bandwidth that attention over the KV cache reaches; fits every profile of the table within
3 %."""
PREFILL_FLOPS_SHARE: Final = 0.65
"""Share of the dense peak operations that prefill reaches (55 to 67 % in Vidur's kernels)."""
SEQUENCE_PER_PROMPT_TOKEN: Final = 0.25
"""Time of a decoding sequence relative to a prompt token. It is less, because most of its computation overlaps with
reading the weights."""
ALL_REDUCE_SECONDS: Final = 10e-6
"""Time of one all-reduce of a small batch over NVLink; each layer has two."""
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
    """The engine's profile, from the bytes it reads and the operations it computes.

    The stages of a pipeline read their weights one after the other, so a pipeline does not shorten the step. It works
    on as many batches at once as it has stages, so each stage bears a share of prompts, sequences and KV reads.
    """
    weight_bytes = architecture.parameters * FULL_BITS / 8
    weight_seconds = weight_bytes / sizes.tensor / (gpu.bandwidth * WEIGHT_BANDWIDTH_SHARE)
    all_reduce_seconds = 2 * architecture.layers * ALL_REDUCE_SECONDS if sizes.tensor > 1 else 0.0
    token_seconds = 2 * architecture.active / (gpu.flops_at(FULL_BITS) * PREFILL_FLOPS_SHARE)
    prompt_token_seconds = token_seconds / sizes.gpus_per_engine
    kv_bytes = architecture.layers * kv_bytes_per_layer(architecture, kv_bits, sizes.tensor)
    profile = EngineProfile(
        step_seconds=HOST_SECONDS + weight_seconds + all_reduce_seconds,
        prompt_token_seconds=prompt_token_seconds,
        sequence_seconds=prompt_token_seconds * SEQUENCE_PER_PROMPT_TOKEN,
        kv_token_seconds=kv_bytes / sizes.pipeline / (gpu.bandwidth * KV_BANDWIDTH_SHARE),
        kv_tokens=kv_tokens,
    )
    return quantized(profile, quantization, gpu)
