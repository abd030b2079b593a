"""GPU memory: how much a model's weights use, and how many tokens of KV cache fit into the rest.

The arithmetic is exact, in whole bytes per rank, because the fullest rank limits its engine. One engine is
`tensor × pipeline` GPUs; a replica with data parallelism has several engines, each with its own KV cache.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil
from typing import Final

from forebay.api.spec.engine_spec import MOST_GPUS_PER_POD
from forebay.capacity.model.architecture import Architecture, gib

BLOCK_TOKENS: Final = 16
"""Tokens in a block of vLLM's KV cache."""
DEFAULT_OVERHEAD_BYTES: Final = gib(4)
"""Memory of each GPU for everything except weights and KV cache: CUDA context, NCCL, activations of the largest batch
and CUDA graphs. Published vLLM logs of default batch sizes show 2.5 to 6 GiB."""
DEFAULT_UTILIZATION_PERCENT: Final = 92
"""vLLM's own default of `--gpu-memory-utilization` since 0.20, in percent."""
TENSOR_PARALLEL_SIZES: Final = (1, 2, 4, 8, 16)
PIPELINE_PARALLEL_SIZES: Final = (1, 2, 4, 8)
ADAPTER_BYTES_PER_PARAMETER: Final = 2
"""Adapters use 16 bits per parameter, whatever the precision of the weights."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """The parallel sizes of a replica: GPUs per layer, pipeline stages, and copies of the model."""

    tensor: int = 1
    pipeline: int = 1
    data: int = 1

    @property
    def gpus_per_engine(self) -> int:
        return self.tensor * self.pipeline

    @property
    def gpus(self) -> int:
        return self.tensor * self.pipeline * self.data

    def __str__(self) -> str:
        parts = [f"TP{self.tensor}"]
        parts += [f"{word}{size}" for word, size in (("PP", self.pipeline), ("DP", self.data)) if size > 1]
        return " ".join(parts)


@dataclass(frozen=True, slots=True)
class Adapters:
    """Slots for LoRA adapters, whose memory vLLM reserves when it starts, used or not."""

    slots: int
    rank: int


@dataclass(frozen=True, slots=True)
class Footprint:
    """The memory that one engine needs, whatever its parallel sizes."""

    architecture: Architecture
    weight_bytes: int
    """Weights of the whole model at its precision."""
    kv_bits: int = 16
    """Bits of one number in the KV cache: 16, or 8 with fp8."""
    utilization_percent: int = DEFAULT_UTILIZATION_PERCENT
    """Share of each GPU's memory that the engine may use."""
    overhead_bytes: int = DEFAULT_OVERHEAD_BYTES
    """Memory of each GPU for everything except weights and KV cache."""
    adapters: Adapters | None = None
    draft_bytes: int = 0
    """Weights of a draft model for speculative decoding, split over the tensor-parallel ranks."""


@dataclass(frozen=True, slots=True)
class GpuMemory:
    """How the memory of the fullest GPU is used, in bytes."""

    card_bytes: int
    usable_bytes: int
    weight_bytes: int
    """Weights of the whole model."""
    weight_bytes_per_rank: int
    adapter_bytes_per_rank: int
    overhead_bytes: int
    kv_bytes: int
    """Memory left for the KV cache on the fullest rank; negative if everything else does not fit."""
    kv_bytes_per_token: int
    """KV cache of one token in all layers of the whole model."""
    kv_bytes_per_token_per_rank: int
    kv_tokens_per_engine: int
    """Tokens of KV cache in whole blocks."""
    engines: int

    @property
    def kv_tokens(self) -> int:
        """Tokens of KV cache in a replica."""
        return self.kv_tokens_per_engine * self.engines


def weight_bytes(parameters: int, bits: int) -> int:
    """Bytes of the parameters at `bits` per weight, rounded up."""
    return -(-parameters * bits // 8)


def kv_bytes_per_layer(architecture: Architecture, kv_bits: int, tensor: int = 1) -> int:
    """Bytes of one token in one layer's KV cache on one rank.

    With more ranks than heads, several ranks hold the same head. Every rank holds the whole latent of MLA.
    """
    if architecture.mla is not None:
        return (architecture.mla.kv_lora_rank + architecture.mla.rope_dim) * kv_bits // 8
    heads = -(-architecture.kv_heads // tensor)
    return 2 * heads * architecture.head_dim * kv_bits // 8


def kv_bytes_per_token(architecture: Architecture, kv_bits: int) -> int:
    """Bytes of one token in the KV cache of the whole model, without the savings of a sliding window."""
    return architecture.layers * kv_bytes_per_layer(architecture, kv_bits)


def measure(footprint: Footprint, sizes: Sizes, card_bytes: int) -> GpuMemory:
    """How the memory of the fullest rank is used, for an engine of these sizes."""
    ranks = [_rank(footprint, sizes, card_bytes, layers) for layers in _stages(footprint.architecture, sizes)]
    return min(ranks, key=lambda rank: (rank.kv_bytes // rank.kv_bytes_per_token_per_rank, rank.kv_bytes))


def request_bytes(footprint: Footprint, sizes: Sizes, tokens: int) -> int:
    """Bytes of KV cache that one request of `tokens` tokens needs on the fullest rank, in whole blocks."""
    architecture = footprint.architecture
    layers = max(_stages(architecture, sizes))
    window_layers = architecture.window_layers * layers // architecture.layers
    layer_tokens = _in_blocks(tokens) * (layers - window_layers)
    if architecture.sliding_window is not None:
        layer_tokens += _in_blocks(min(tokens, architecture.sliding_window.size)) * window_layers
    return layer_tokens * kv_bytes_per_layer(architecture, footprint.kv_bits, sizes.tensor)


def missing_bytes(footprint: Footprint, sizes: Sizes, card_bytes: int, tokens: int) -> int:
    """Bytes that each GPU lacks for the weights and one request of `tokens` tokens; 0 if they fit."""
    return max(0, request_bytes(footprint, sizes, tokens) - measure(footprint, sizes, card_bytes).kv_bytes)


def sequences(footprint: Footprint, sizes: Sizes, memory: GpuMemory, tokens: float, max_num_seqs: int) -> int:
    """Requests of a mean length that a replica holds at once, bounded by the engine's own limit."""
    architecture = footprint.architecture
    mean_bytes = architecture.tokens_read(tokens) * memory.kv_bytes_per_token_per_rank
    held = int(memory.kv_tokens_per_engine * memory.kv_bytes_per_token_per_rank / mean_bytes) if mean_bytes else 0
    return min(max_num_seqs, held) * sizes.data


def longest_request(footprint: Footprint, sizes: Sizes, card_bytes: int, ceiling: int) -> int:
    """Tokens of the longest request whose KV cache fits, in whole blocks and at most `ceiling`; 0 if none fits."""
    kv_bytes = measure(footprint, sizes, card_bytes).kv_bytes
    low, high = 0, -(-ceiling // BLOCK_TOKENS)
    while low < high:
        middle = (low + high + 1) // 2
        if request_bytes(footprint, sizes, middle * BLOCK_TOKENS) <= kv_bytes:
            low = middle
        else:
            high = middle - 1
    return min(low * BLOCK_TOKENS, ceiling)


def smallest_sizes(
    footprint: Footprint, card_bytes: int, tokens: int, *, pipeline: int | None = None, data: int = 1
) -> Sizes | None:
    """The sizes with the fewest GPUs that hold the weights and one request of `tokens` tokens; None if no pod does.

    Of sizes with equally many GPUs, tensor parallelism comes before pipeline parallelism, because it answers sooner.
    """
    for sizes in candidate_sizes(footprint.architecture, pipeline=pipeline, data=data):
        if not missing_bytes(footprint, sizes, card_bytes, tokens):
            return sizes
    return None


def candidate_sizes(architecture: Architecture, *, pipeline: int | None = None, data: int = 1) -> Iterator[Sizes]:
    """All sizes within one pod that vLLM can start, fewest GPUs first."""
    stages = PIPELINE_PARALLEL_SIZES if pipeline is None else (pipeline,)
    startable = [
        Sizes(tensor, stage, data)
        for tensor in TENSOR_PARALLEL_SIZES
        for stage in stages
        if architecture.divides(tensor) and stage <= architecture.layers
    ]
    in_one_pod = [sizes for sizes in startable if sizes.gpus <= MOST_GPUS_PER_POD]
    yield from sorted(in_one_pod, key=lambda sizes: (sizes.gpus, sizes.pipeline))


def weights_only_gpus(footprint: Footprint, card_bytes: int) -> int:
    """GPUs that the weights alone would fill. This common estimate is never enough to serve."""
    return -(-footprint.weight_bytes // card_bytes)


def adapter_bytes(architecture: Architecture, adapters: Adapters, tensor: int = 1) -> int:
    """Bytes of the LoRA slots on one tensor-parallel rank.

    Each adapted weight gets a matrix of rank × inputs and one of outputs × rank, where rank is LoRA's. vLLM splits only
    the matrix on the side on which the weight itself is split; every tensor-parallel rank holds the other one whole.
    """
    width, layers = architecture.width, architecture.layers
    query = architecture.attention_heads * architecture.head_dim
    key_value = architecture.kv_heads * architecture.head_dim
    attention = width * (query + 2 * key_value) + query * width
    feed_forward = max(0, (architecture.active // layers - attention) // (3 * width))
    columns = [(width, query), (width, key_value), (width, key_value), (width, feed_forward), (width, feed_forward)]
    rows = [(query, width), (feed_forward, width)]
    numbers = sum(inputs + ceil(outputs / tensor) for inputs, outputs in columns)
    numbers += sum(ceil(inputs / tensor) + outputs for inputs, outputs in rows)
    return adapters.slots * adapters.rank * numbers * layers * ADAPTER_BYTES_PER_PARAMETER


def _rank(footprint: Footprint, sizes: Sizes, card_bytes: int, layers: int) -> GpuMemory:
    architecture = footprint.architecture
    per_token = layers * kv_bytes_per_layer(architecture, footprint.kv_bits, sizes.tensor)
    usable = -(-card_bytes * footprint.utilization_percent // 100)
    weights = _rank_weights(footprint, sizes, layers) + -(-footprint.draft_bytes // sizes.tensor)
    adapters = 0
    if footprint.adapters is not None:
        whole = adapter_bytes(architecture, footprint.adapters, sizes.tensor)
        adapters = -(-whole * layers // architecture.layers)
    left = usable - weights - adapters - footprint.overhead_bytes
    return GpuMemory(
        card_bytes=card_bytes,
        usable_bytes=usable,
        weight_bytes=footprint.weight_bytes,
        weight_bytes_per_rank=weights,
        adapter_bytes_per_rank=adapters,
        overhead_bytes=footprint.overhead_bytes,
        kv_bytes=left,
        kv_bytes_per_token=kv_bytes_per_token(architecture, footprint.kv_bits),
        kv_bytes_per_token_per_rank=per_token,
        kv_tokens_per_engine=max(0, left // per_token // BLOCK_TOKENS * BLOCK_TOKENS),
        engines=sizes.data,
    )


def _rank_weights(footprint: Footprint, sizes: Sizes, layers: int) -> int:
    """Bytes of the weights on a rank that holds `layers` layers.

    Data-parallel copies of a mixture of experts share the experts: vLLM spreads them over all ranks of the pod.
    """
    architecture = footprint.architecture
    experts = footprint.weight_bytes * architecture.expert_parameters // architecture.parameters
    dense = footprint.weight_bytes - experts
    share = architecture.layers * sizes.tensor
    return -(-dense * layers // share) + -(-experts * layers // (share * sizes.data))


def _stages(architecture: Architecture, sizes: Sizes) -> tuple[int, ...]:
    """The distinct numbers of layers in the pipeline's stages: two if the layers do not divide evenly, else one."""
    fewest, rest = divmod(architecture.layers, sizes.pipeline)
    return (fewest + 1, fewest) if rest else (fewest,)


def _in_blocks(tokens: int) -> int:
    return -(-tokens // BLOCK_TOKENS) * BLOCK_TOKENS
