"""Memory: what a model's weights leave of a GPU, and how many tokens of KV cache fit into the rest.

All of it is exact arithmetic on whole bytes, per rank, since the fullest rank decides for its engine. One engine is
`tensor × pipeline` GPUs; a replica with data parallelism holds several engines, each with its own KV cache.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil
from typing import Final

from forebay.api.spec.engine_spec import MOST_GPUS_PER_POD
from forebay.capacity.model.architecture import Architecture, gib

BLOCK_TOKENS: Final = 16
"""vLLM hands out KV cache in blocks of so many tokens."""
DEFAULT_OVERHEAD_BYTES: Final = gib(4)
"""Reserved on each GPU beside weights and KV cache: CUDA context, NCCL, activations of the largest batch, CUDA graphs.
Published vLLM logs of default batch sizes show 2.5 to 6 GiB."""
DEFAULT_UTILIZATION_PERCENT: Final = 92
"""vLLM's own default since 0.20."""
TENSOR_PARALLEL_SIZES: Final = (1, 2, 4, 8, 16)
PIPELINE_PARALLEL_SIZES: Final = (1, 2, 4, 8)
ADAPTER_BYTES_PER_PARAMETER: Final = 2
"""Adapters stay at 16 bits whatever the weights are quantized to."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """Over how many GPUs a replica is spread, and how."""

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
    """LoRA adapters that an engine keeps room for: vLLM reserves the slots at start, used or not."""

    slots: int
    rank: int


@dataclass(frozen=True, slots=True)
class Footprint:
    """What one engine must hold, whatever it is spread over."""

    architecture: Architecture
    weight_bytes: int
    """Of the whole model at its precision."""
    kv_bits: int = 16
    """Bits of one number in the KV cache: 16, or 8 with fp8."""
    utilization_percent: int = DEFAULT_UTILIZATION_PERCENT
    """Share of each GPU's memory that the engine may take."""
    overhead_bytes: int = DEFAULT_OVERHEAD_BYTES
    """Beside weights and KV cache, on each GPU."""
    adapters: Adapters | None = None
    draft_bytes: int = 0
    """Weights of a draft model for speculative decoding; every tensor-parallel rank holds its part."""


@dataclass(frozen=True, slots=True)
class GpuMemory:
    """Where the memory of the fullest GPU goes. All sizes in bytes."""

    card_bytes: int
    usable_bytes: int
    weight_bytes: int
    """Of the whole model."""
    weight_bytes_per_rank: int
    adapter_bytes_per_rank: int
    overhead_bytes: int
    kv_bytes: int
    """Left for the KV cache on the fullest rank; negative when not even the rest fits."""
    kv_bytes_per_token: int
    """Of the whole model, in all layers."""
    kv_bytes_per_token_per_rank: int
    kv_tokens_per_engine: int
    """Whole blocks."""
    engines: int

    @property
    def kv_tokens(self) -> int:
        """Of a replica."""
        return self.kv_tokens_per_engine * self.engines


def weight_bytes(parameters: int, bits: int) -> int:
    """Bytes of so many parameters at a precision."""
    return -(-parameters * bits // 8)


def kv_bytes_per_layer(architecture: Architecture, kv_bits: int, tensor: int = 1) -> int:
    """Bytes that one token takes in one layer's cache on one rank.

    Heads that do not divide over the ranks are held more than once, and a latent (MLA) is held whole by every rank.
    """
    if architecture.mla is not None:
        return (architecture.mla.kv_lora_rank + architecture.mla.rope_dim) * kv_bits // 8
    heads = -(-architecture.kv_heads // tensor)
    return 2 * heads * architecture.head_dim * kv_bits // 8


def kv_bytes_per_token(architecture: Architecture, kv_bits: int) -> int:
    """Bytes that one token takes in the cache of the whole model; what a window spares long requests is left out."""
    return architecture.layers * kv_bytes_per_layer(architecture, kv_bits)


def measure(footprint: Footprint, sizes: Sizes, card_bytes: int) -> GpuMemory:
    """Where the memory goes on the fullest rank of an engine of these sizes."""
    ranks = [_rank(footprint, sizes, card_bytes, layers) for layers in _stages(footprint.architecture, sizes)]
    return min(ranks, key=lambda rank: (rank.kv_bytes // rank.kv_bytes_per_token_per_rank, rank.kv_bytes))


def request_bytes(footprint: Footprint, sizes: Sizes, tokens: int) -> int:
    """KV cache that one request of so many tokens takes on the fullest rank, in whole blocks."""
    architecture = footprint.architecture
    layers = max(_stages(architecture, sizes))
    windowed = architecture.window_layers * layers // architecture.layers
    held = _in_blocks(tokens) * (layers - windowed)
    if architecture.sliding_window is not None:
        held += _in_blocks(min(tokens, architecture.sliding_window.size)) * windowed
    return held * kv_bytes_per_layer(architecture, footprint.kv_bits, sizes.tensor)


def missing_bytes(footprint: Footprint, sizes: Sizes, card_bytes: int, tokens: int) -> int:
    """How many bytes are missing on each GPU for the weights and one request of so many tokens; 0 when they fit."""
    return max(0, request_bytes(footprint, sizes, tokens) - measure(footprint, sizes, card_bytes).kv_bytes)


def sequences(footprint: Footprint, sizes: Sizes, memory: GpuMemory, tokens: float, max_num_seqs: int) -> int:
    """How many requests of a mean length a replica holds at once, bounded by the engine's own limit."""
    architecture = footprint.architecture
    mean_bytes = architecture.tokens_read(tokens) * memory.kv_bytes_per_token_per_rank
    held = int(memory.kv_tokens_per_engine * memory.kv_bytes_per_token_per_rank / mean_bytes) if mean_bytes else 0
    return min(max_num_seqs, held) * sizes.data


def longest_request(footprint: Footprint, sizes: Sizes, card_bytes: int, ceiling: int) -> int:
    """The longest request, in whole blocks of tokens and at most `ceiling`, whose KV cache fits; 0 when none does."""
    room = measure(footprint, sizes, card_bytes).kv_bytes
    low, high = 0, -(-ceiling // BLOCK_TOKENS)
    while low < high:
        middle = (low + high + 1) // 2
        if request_bytes(footprint, sizes, middle * BLOCK_TOKENS) <= room:
            low = middle
        else:
            high = middle - 1
    return min(low * BLOCK_TOKENS, ceiling)


def smallest_sizes(
    footprint: Footprint, card_bytes: int, tokens: int, *, pipeline: int | None = None, data: int = 1
) -> Sizes | None:
    """The fewest GPUs that hold the weights and one request of so many tokens; None when a pod's worth does not.

    Of equal numbers the one that splits layers (tensor) comes before the one that chains them (pipeline): it answers
    sooner.
    """
    for sizes in candidate_sizes(footprint.architecture, pipeline=pipeline, data=data):
        if not missing_bytes(footprint, sizes, card_bytes, tokens):
            return sizes
    return None


def candidate_sizes(architecture: Architecture, *, pipeline: int | None = None, data: int = 1) -> Iterator[Sizes]:
    """Every spread over one pod that vLLM can start, fewest GPUs first."""
    stages = PIPELINE_PARALLEL_SIZES if pipeline is None else (pipeline,)
    found = [
        Sizes(tensor, stage, data)
        for tensor in TENSOR_PARALLEL_SIZES
        for stage in stages
        if architecture.divides(tensor) and stage <= architecture.layers
    ]
    yield from sorted(
        (sizes for sizes in found if sizes.gpus <= MOST_GPUS_PER_POD), key=lambda sizes: (sizes.gpus, sizes.pipeline)
    )


def weights_only_gpus(footprint: Footprint, card_bytes: int) -> int:
    """Cards that the weights alone would fill: what a first guess counts, and never enough to serve."""
    return -(-footprint.weight_bytes // card_bytes)


def adapter_bytes(architecture: Architecture, adapters: Adapters, tensor: int = 1) -> int:
    """LoRA slots on one rank.

    Each adapted matrix gets a matrix of rank × inputs and one of outputs × rank. vLLM splits over the ranks only the
    one on the side that the weight itself is split on; the other is held whole.
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
    """Weights of a rank that holds so many layers.

    Data-parallel copies of a mixture of experts share the experts: vLLM spreads them over all ranks of the pod.
    """
    architecture = footprint.architecture
    experts = footprint.weight_bytes * architecture.expert_parameters // architecture.parameters
    dense = footprint.weight_bytes - experts
    share = architecture.layers * sizes.tensor
    return -(-dense * layers // share) + -(-experts * layers // (share * sizes.data))


def _stages(architecture: Architecture, sizes: Sizes) -> tuple[int, ...]:
    """Layers of the pipeline's stages; two numbers at most, when the layers do not divide."""
    fewest, rest = divmod(architecture.layers, sizes.pipeline)
    return (fewest + 1, fewest) if rest else (fewest,)


def _in_blocks(tokens: int) -> int:
    return -(-tokens // BLOCK_TOKENS) * BLOCK_TOKENS
