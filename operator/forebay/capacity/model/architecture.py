"""Architecture: the properties of a model that determine its memory and work, whatever the GPU and the precision.

Names follow the Hugging Face `config.json` where it has one.
"""

from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True, slots=True)
class Mla:
    """Multi-head latent attention: one compressed latent a token instead of keys and values for each head."""

    kv_lora_rank: int
    rope_dim: int


@dataclass(frozen=True, slots=True)
class SlidingWindow:
    """Layers that attend only to the last `size` tokens, so that a request holds no more than these in their cache."""

    size: int
    """Tokens in the window."""
    layers: int
    """Number of layers with the window."""


@dataclass(frozen=True, slots=True)
class Experts:
    """Mixture of experts: a router picks `active` of `count` experts for each token."""

    count: int
    active: int


@dataclass(frozen=True, slots=True)
class Architecture:
    """A decoder-only transformer."""

    parameters: int
    layers: int
    attention_heads: int
    kv_heads: int
    head_dim: int
    active_parameters: int | None = None
    """Parameters that one token is multiplied with; None: all."""
    hidden_size: int | None = None
    """Width of the residual stream; None: attention heads × head dimension, as in most models."""
    mla: Mla | None = None
    sliding_window: SlidingWindow | None = None
    experts: Experts | None = None
    context_tokens: int | None = None
    """Longest prompt and answer together that the checkpoint allows; None: unknown."""

    @property
    def active(self) -> int:
        """Parameters that one token is multiplied with."""
        return self.active_parameters or self.parameters

    @property
    def width(self) -> int:
        """Width of the residual stream."""
        return self.hidden_size or self.attention_heads * self.head_dim

    @property
    def expert_parameters(self) -> int:
        """Parameters of all experts; 0 for a dense model.

        One token uses `active` of `count` experts of equal size, so the parameters that it skips are those of
        `count − active` experts.
        """
        if self.experts is None or self.experts.count <= self.experts.active:
            return 0
        skipped = self.parameters - self.active
        return skipped * self.experts.count // (self.experts.count - self.experts.active)

    @property
    def window_layers(self) -> int:
        return self.sliding_window.layers if self.sliding_window else 0

    def tokens_read(self, context: float) -> float:
        """Tokens of KV cache that one decoding step reads per layer, on average, for a request of `context` tokens."""
        if self.sliding_window is None:
            return context
        share = self.sliding_window.layers / self.layers
        return (1 - share) * context + share * min(context, self.sliding_window.size)

    def divides(self, tensor_parallel_size: int) -> bool:
        """Whether vLLM can split the attention heads over this number of GPUs."""
        return self.attention_heads % tensor_parallel_size == 0


def gib(value: str | int | float) -> int:
    """Converts GiB to bytes, exactly for decimal numbers."""
    return int(Fraction(str(value)) * 2**30)
