"""The shape of a model that the built-in catalogue does not know, or describes differently.

Only the capacity plan reads it; the engine reads its checkpoint. Each given field replaces the catalogue's.
"""

from typing import Annotated

from pydantic import Field

from forebay.api.schema.base_model import Model
from forebay.api.schema.bounded_types import Count
from forebay.api.schema.validation_rules import Rule

MOST_PARAMETERS = 100_000_000_000_000
Parameters = Annotated[Count, Field(ge=1_000_000, le=MOST_PARAMETERS)]


class MlaSpec(Model):
    """Multi-head latent attention: one compressed latent a token instead of keys and values for each head."""

    kv_lora_rank: Annotated[Count, Field(ge=1, le=65_536)]
    """Size of the latent; `kv_lora_rank` of the checkpoint's config.json."""
    rope_dim: Annotated[Count, Field(ge=0, le=65_536)]
    """Size of the rotary position embedding; `qk_rope_head_dim` of the checkpoint's config.json."""


class SlidingWindowSpec(Model):
    """Layers that attend to a fixed number of past tokens."""

    size: Annotated[Count, Field(ge=1, le=10_000_000)]
    """Tokens in the window."""
    layers: Annotated[Count, Field(ge=1, le=1000)]
    """Number of layers with the window."""


class ExpertsSpec(Model):
    """The experts of a mixture-of-experts model."""

    rules = (
        Rule["ExpertsSpec"](
            cel="self.active <= self.count",
            message="active $active is above count $count; a token cannot use more experts than there are",
            holds=lambda experts: experts.active <= experts.count,
            at="active",
        ),
    )

    count: Annotated[Count, Field(ge=1, le=10_000)]
    """Experts in a layer."""
    active: Annotated[Count, Field(ge=1, le=10_000)]
    """Experts that one token uses."""


class ArchitectureSpec(Model):
    """The properties of the model that determine its memory and speed."""

    rules = (
        Rule["ArchitectureSpec"](
            cel="!(has(self.activeParameters) && has(self.parameters)) || self.activeParameters <= self.parameters",
            message="activeParameters $activeParameters:0 is above parameters $parameters:0; a token cannot use more "
            "parameters than the model has",
            holds=lambda shape: (
                shape.active_parameters is None
                or shape.parameters is None
                or shape.active_parameters <= shape.parameters
            ),
            at="activeParameters",
        ),
        Rule["ArchitectureSpec"](
            cel="!(has(self.kvHeads) && has(self.attentionHeads)) || self.kvHeads <= self.attentionHeads",
            message="kvHeads $kvHeads:0 is above attentionHeads $attentionHeads:0, but attention heads share KV heads; "
            "swap them",
            holds=lambda shape: (
                shape.kv_heads is None or shape.attention_heads is None or shape.kv_heads <= shape.attention_heads
            ),
            at="kvHeads",
        ),
        Rule["ArchitectureSpec"](
            cel="!(has(self.slidingWindow) && has(self.layers)) || self.slidingWindow.layers <= self.layers",
            message="slidingWindow.layers is above layers $layers:0; count only the layers that have a window",
            holds=lambda shape: (
                shape.sliding_window is None or shape.layers is None or shape.sliding_window.layers <= shape.layers
            ),
            at="slidingWindow.layers",
        ),
    )

    parameters: Parameters | None = None
    """Number of all parameters."""
    active_parameters: Parameters | None = None
    """Parameters that one token is multiplied with. Absent: all, as in every model without experts."""
    layers: Annotated[Count, Field(ge=1, le=1000)] | None = None
    """Number of layers; `num_hidden_layers` of the checkpoint's config.json."""
    attention_heads: Annotated[Count, Field(ge=1, le=10_000)] | None = None
    """Number of attention heads; `num_attention_heads`."""
    kv_heads: Annotated[Count, Field(ge=1, le=10_000)] | None = None
    """Number of key-value heads; `num_key_value_heads`. Grouped-query attention has fewer than attention heads."""
    head_dim: Annotated[Count, Field(ge=1, le=65_536)] | None = None
    """Size of a head; `head_dim`, or hidden size ÷ attention heads if the file has none."""
    hidden_size: Annotated[Count, Field(ge=1, le=10_000_000)] | None = None
    """Width of the model; `hidden_size`. Only LoRA adapters need it. Absent: attention heads × head dimension."""
    mla: MlaSpec | None = None
    """Multi-head latent attention, in models such as DeepSeek-V3."""
    sliding_window: SlidingWindowSpec | None = None
    """Sliding-window attention in some or all layers, in models such as Gemma 2."""
    experts: ExpertsSpec | None = None
    """Experts of a mixture of experts, which data-parallel copies share. Absent: each copy holds the whole model."""
    weight_bits: Annotated[Count, Field(ge=2, le=32)] | None = None
    """Bits per weight, if neither model.quantization nor the catalogue gives them."""
    context_tokens: Annotated[Count, Field(ge=1, le=10_000_000)] | None = None
    """Most tokens of a request that the checkpoint allows; the limit when maxModelLen is absent."""
