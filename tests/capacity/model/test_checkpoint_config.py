"""Parameters counted from a checkpoint's shapes, against the totals that vendors publish."""

from typing import Any

import pytest

from forebay.capacity.model.architecture import Experts, Mla, SlidingWindow
from forebay.capacity.model.checkpoint_config import ConfigError, read_config
from forebay.capacity.model.model_catalogue import models


def a_config(kind: str, width: int, wide: int, layers: int, heads: int, kv: int, words: int, **more) -> dict[str, Any]:
    return {
        "model_type": kind,
        "hidden_size": width,
        "intermediate_size": wide,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv,
        "vocab_size": words,
        **more,
    }


LATENT = {
    "q_lora_rank": 1536,
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "n_routed_experts": 256,
    "n_shared_experts": 1,
    "num_experts_per_tok": 8,
    "moe_intermediate_size": 2048,
    "first_k_dense_replace": 3,
}
CONFIGS = {
    "Llama-3.1-8B": a_config("llama", 4096, 14_336, 32, 32, 8, 128_256, max_position_embeddings=131_072),
    "Llama-3.1-70B": a_config("llama", 8192, 28_672, 80, 64, 8, 128_256),
    "Llama-3.1-405B": a_config("llama", 16_384, 53_248, 126, 128, 8, 128_256),
    "Llama-3.2-1B": a_config("llama", 2048, 8192, 16, 32, 8, 128_256, head_dim=64, tie_word_embeddings=True),
    "Llama-3.2-3B": a_config("llama", 3072, 8192, 28, 24, 8, 128_256, head_dim=128, tie_word_embeddings=True),
    "Llama-2-7B": a_config("llama", 4096, 11_008, 32, 32, 32, 32_000),
    "Mistral-7B-v0.3": a_config("mistral", 4096, 14_336, 32, 32, 8, 32_768, sliding_window=None),
    "Qwen2.5-1.5B": a_config("qwen2", 1536, 8960, 28, 12, 2, 151_936, tie_word_embeddings=True),
    "Qwen2.5-7B": a_config("qwen2", 3584, 18_944, 28, 28, 4, 152_064, sliding_window=131_072, use_sliding_window=False),
    "Qwen2.5-14B": a_config("qwen2", 5120, 13_824, 48, 40, 8, 152_064),
    "Qwen2.5-32B": a_config("qwen2", 5120, 27_648, 64, 40, 8, 152_064),
    "Qwen2.5-72B": a_config("qwen2", 8192, 29_568, 80, 64, 8, 152_064),
    "Qwen3-8B": a_config("qwen3", 4096, 12_288, 36, 32, 8, 151_936, head_dim=128),
    "Qwen3-32B": a_config("qwen3", 5120, 25_600, 64, 64, 8, 151_936, head_dim=128),
    "Qwen3-30B-A3B": a_config(
        "qwen3_moe",
        2048,
        6144,
        48,
        32,
        4,
        151_936,
        head_dim=128,
        moe_intermediate_size=768,
        num_experts=128,
        num_experts_per_tok=8,
    ),
    "Mixtral-8x7B": a_config("mixtral", 4096, 14_336, 32, 32, 8, 32_000, num_local_experts=8, num_experts_per_tok=2),
    "gemma-2-9b": a_config("gemma2", 3584, 14_336, 42, 16, 8, 256_000, head_dim=256, sliding_window=4096),
    "DeepSeek-V3": a_config("deepseek_v3", 7168, 18_432, 61, 128, 128, 129_280, **LATENT),
}


@pytest.mark.parametrize("name", CONFIGS)
def test_counted_parameters_equal_the_catalogue(name):
    counted, known = read_config(CONFIGS[name]).architecture, models()[name].architecture
    assert counted.parameters == known.parameters
    assert counted.active == known.active
    assert (counted.layers, counted.kv_heads, counted.head_dim) == (known.layers, known.kv_heads, known.head_dim)


def test_every_family_is_counted():
    assert {config["model_type"] for config in CONFIGS.values()} == {
        "llama",
        "mistral",
        "mixtral",
        "qwen2",
        "qwen3",
        "qwen3_moe",
        "gemma2",
        "deepseek_v3",
    }


def test_context_mla_experts_and_window_are_read():
    assert read_config(CONFIGS["Llama-3.1-8B"]).architecture.context_tokens == 131_072
    assert read_config(CONFIGS["DeepSeek-V3"]).architecture.mla == Mla(512, 64)
    assert read_config(CONFIGS["Mixtral-8x7B"]).architecture.experts == Experts(8, 2)
    assert read_config(CONFIGS["gemma-2-9b"]).architecture.sliding_window == SlidingWindow(4096, 21)


def test_a_disabled_window_is_ignored():
    assert read_config(CONFIGS["Qwen2.5-7B"]).architecture.sliding_window is None


def test_windows_follow_the_kinds_of_layers():
    config = CONFIGS["Llama-3.2-1B"] | {
        "sliding_window": 512,
        "layer_types": ["sliding_attention", "full_attention"] * 8,
    }
    assert read_config(config).architecture.sliding_window == SlidingWindow(512, 8)


@pytest.mark.parametrize(
    ("more", "bits"),
    [
        ({"torch_dtype": "bfloat16"}, 16),
        ({"dtype": "float32"}, 32),
        ({"torch_dtype": "float16", "quantization_config": {"quant_method": "awq", "bits": 4}}, 4),
        ({"quantization_config": {"quant_method": "fp8"}}, 8),
        ({"quantization_config": {"quant_method": "unheard-of"}}, None),
        ({}, None),
    ],
)
def test_bits_per_weight(more, bits):
    assert read_config(CONFIGS["Llama-3.2-1B"] | more).bits == bits


def test_the_text_part_of_a_model_that_sees_images_is_read():
    text = CONFIGS["Llama-3.2-1B"]
    assert read_config({"model_type": "seer", "text_config": text}).architecture.parameters == 1_235_814_400


@pytest.mark.parametrize(
    ("config", "says"),
    [
        pytest.param({}, "model_type: None is not a family", id="nothing"),
        pytest.param({"model_type": "mamba"}, "model_type: 'mamba' is not a family", id="another kind of model"),
        pytest.param(
            {"model_type": "llama"}, "hidden_size: None is not a whole number above 0", id="a number is missing"
        ),
        pytest.param(
            CONFIGS["Llama-3.1-8B"] | {"num_attention_heads": 0}, "num_attention_heads: 0 is not", id="a zero"
        ),
        pytest.param(CONFIGS["Llama-3.1-8B"] | {"vocab_size": "many"}, "vocab_size: 'many' is not", id="a text"),
    ],
)
def test_unknown_families_and_invalid_values_are_refused(config, says):
    with pytest.raises(ConfigError, match=says):
        read_config(config)
