"""Architecture: the shape of a model, as far as memory and work follow from it.

Names are those of a Hugging Face `config.json` where it has one. Nothing here knows a GPU or a precision.
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
    """Layers that look back over `size` tokens only, so that a long request holds no more than these in them."""

    size: int
    """Tokens."""
    layers: int
    """How many of the layers."""


@dataclass(frozen=True, slots=True)
class Experts:
    """Mixture of experts: of `count`, a router picks `active` for each token."""

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
    """Longest prompt and answer that the checkpoint allows; None: unknown."""

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
        """Parameters inside all experts; 0 for a dense model.

        One token uses `active` of `count` equal experts, so the parameters it skips are those of `count − active`.
        """
        if self.experts is None or self.experts.count <= self.experts.active:
            return 0
        skipped = self.parameters - self.active
        return skipped * self.experts.count // (self.experts.count - self.experts.active)

    @property
    def window_layers(self) -> int:
        return self.sliding_window.layers if self.sliding_window else 0

    def tokens_read(self, context: float) -> float:
        """Tokens of KV cache that one decoding step reads in the average layer, for a request `context` tokens long."""
        if self.sliding_window is None:
            return context
        share = self.sliding_window.layers / self.layers
        return (1 - share) * context + share * min(context, self.sliding_window.size)

    def divides(self, tensor_parallel_size: int) -> bool:
        """Whether vLLM can split the attention heads over so many GPUs."""
        return self.attention_heads % tensor_parallel_size == 0


def gib(value: str | int | float) -> int:
    """Bytes of so many GiB, exact for what people write with a decimal point."""
    return int(Fraction(str(value)) * 2**30)
