"""Reads the architecture of a model from a checkpoint's `config.json` and counts the parameters from its shapes.

Counts are exact for the families in `FAMILIES`; tests compare them with the published totals. An unknown family is
refused rather than guessed; its architecture can be written into the manifest.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from forebay.capacity.model.architecture import Architecture, Experts, Mla, SlidingWindow


class ConfigError(ValueError):
    """A missing or wrong value of a `config.json`, as one sentence."""


@dataclass(frozen=True, slots=True)
class Family:
    """Properties of a `model_type` that affect the count and are not in the file."""

    norms: int = 2
    """Number of norms over the hidden size in each layer."""
    query_bias: bool = False
    """Whether queries, keys and values have biases."""
    head_norms: bool = False
    """Whether queries and keys have a norm over the head dimension."""
    tied: bool = False
    """Whether input and output embeddings share a matrix, unless the file says otherwise."""


FAMILIES: Final[Mapping[str, Family]] = {
    "llama": Family(),
    "mistral": Family(),
    "mixtral": Family(),
    "qwen2": Family(query_bias=True),
    "qwen3": Family(head_norms=True),
    "qwen3_moe": Family(head_norms=True),
    "gemma2": Family(norms=4, tied=True),
    "deepseek_v3": Family(),
}


@dataclass(frozen=True, slots=True)
class CheckpointConfig:
    """The architecture and the precision in a `config.json`."""

    architecture: Architecture
    bits: int | None
    """Bits per weight; None if the file does not say."""


def read_config(config: Mapping[str, Any]) -> CheckpointConfig:
    """The architecture of a `config.json`. Raises ConfigError, which names the key."""
    text_config = config.get("text_config")
    if isinstance(text_config, Mapping):
        config = {**config, **text_config}
    model_type = config.get("model_type")
    family = FAMILIES.get(model_type) if isinstance(model_type, str) else None
    if family is None:
        raise ConfigError(
            f"model_type: {model_type!r} is not a family whose parameters can be counted; use one of "
            f"{', '.join(FAMILIES)}, or write spec.model.architecture by hand"
        )
    shapes = _Shapes(config, family)
    return CheckpointConfig(shapes.architecture(), _bits(config))


class _Shapes:
    def __init__(self, config: Mapping[str, Any], family: Family) -> None:
        self._config = config
        self._family = family
        self.width = self._number("hidden_size")
        self.layers = self._number("num_hidden_layers")
        self.heads = self._number("num_attention_heads")
        self.kv_heads = self._number("num_key_value_heads", self.heads)
        self.head_dim = self._number("head_dim", self.width // self.heads)
        self.feed_forward = self._number("intermediate_size")
        self.vocabulary = self._number("vocab_size")

    def architecture(self) -> Architecture:
        experts = self._experts()
        parameters, active = self._parameters(experts)
        return Architecture(
            parameters=parameters,
            active_parameters=active if active != parameters else None,
            layers=self.layers,
            attention_heads=self.heads,
            kv_heads=self.kv_heads,
            head_dim=self.head_dim,
            hidden_size=self.width,
            mla=self._mla(),
            sliding_window=self._window(),
            experts=experts,
            context_tokens=self._number("max_position_embeddings", 0) or None,
        )

    def _number(self, key: str, default: int | None = None) -> int:
        value = self._config.get(key)
        if value is None and default is not None:
            return default
        if isinstance(value, bool) or not isinstance(value, int) or value < (0 if default is not None else 1):
            raise ConfigError(f"{key}: {value!r} is not a whole number above 0")
        return value

    def _parameters(self, experts: Experts | None) -> tuple[int, int]:
        """The number of all parameters, and of those that one token is multiplied with."""
        tied = self._config.get("tie_word_embeddings", self._family.tied)
        embeddings = self.vocabulary * self.width * (1 if tied else 2)
        attention = self._latent_attention() if self._mla() else self._attention()
        norms = self._family.norms * self.width
        dense_layer = attention + norms + 3 * self.width * self.feed_forward
        total = active = embeddings + self.width
        if experts is None:
            return total + self.layers * dense_layer, active + self.layers * dense_layer
        dense_layers = self._number("first_k_dense_replace", 0)
        sparse_layers = self.layers - dense_layers
        expert = 3 * self.width * self._number("moe_intermediate_size", self.feed_forward)
        shared = self._number("n_shared_experts", 0) * expert
        router = self.width * experts.count
        if self._config.get("model_type") == "deepseek_v3":
            router += experts.count  # a bias that balances the experts
        common = dense_layers * dense_layer + sparse_layers * (attention + norms + shared + router)
        return (
            total + common + sparse_layers * experts.count * expert,
            active + common + sparse_layers * experts.active * expert,
        )

    def _attention(self) -> int:
        query, key_value = self.heads * self.head_dim, self.kv_heads * self.head_dim
        numbers = 2 * self.width * query + 2 * self.width * key_value
        if self._config.get("attention_bias", self._family.query_bias):
            numbers += query + 2 * key_value
        return numbers + (2 * self.head_dim if self._family.head_norms else 0)

    def _latent_attention(self) -> int:
        latent, rope = self._number("kv_lora_rank"), self._number("qk_rope_head_dim")
        nope, value = self._number("qk_nope_head_dim"), self._number("v_head_dim")
        query_rank = self._number("q_lora_rank", 0)
        queries = self.heads * (nope + rope)
        query = self.width * query_rank + query_rank + query_rank * queries if query_rank else self.width * queries
        keys = self.width * (latent + rope) + latent + latent * self.heads * (nope + value)
        return query + keys + self.heads * value * self.width

    def _mla(self) -> Mla | None:
        rank = self._config.get("kv_lora_rank")
        return Mla(self._number("kv_lora_rank"), self._number("qk_rope_head_dim")) if rank else None

    def _experts(self) -> Experts | None:
        for key in ("num_local_experts", "n_routed_experts", "num_experts"):
            if self._config.get(key):
                return Experts(self._number(key), self._number("num_experts_per_tok"))
        return None

    def _window(self) -> SlidingWindow | None:
        size = self._config.get("sliding_window")
        if not size or self._config.get("use_sliding_window") is False:
            return None
        kinds = self._config.get("layer_types")
        if isinstance(kinds, list):
            layers = sum(kind == "sliding_attention" for kind in kinds)
        elif self._config.get("model_type") == "gemma2":
            layers = (self.layers + 1) // 2  # every second layer, beginning with the first
        else:
            layers = self.layers
        return SlidingWindow(self._number("sliding_window"), layers) if layers else None


_DTYPE_BITS: Final = {"bfloat16": 16, "float16": 16, "float32": 32}
_METHOD_BITS: Final = {"fp8": 8, "fbgemm_fp8": 8, "awq": 4, "mxfp4": 4}


def _bits(config: Mapping[str, Any]) -> int | None:
    quantization = config.get("quantization_config")
    if isinstance(quantization, Mapping):
        bits = quantization.get("bits", quantization.get("w_bit"))
        if isinstance(bits, int):
            return bits
        return _METHOD_BITS.get(str(quantization.get("quant_method")))
    return _DTYPE_BITS.get(str(config.get("dtype", config.get("torch_dtype"))))
