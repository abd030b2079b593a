"""The catalogue: exact parameter counts, and how manifests and nodes name models and GPUs."""

import json

import pytest
from pydantic import ValidationError

from forebay.capacity.model.architecture import gib
from forebay.capacity.model.engine_profile import BUILT_IN, DATA
from forebay.capacity.model.model_catalogue import (
    GpusFile,
    ModelsFile,
    gpu_of,
    gpus,
    larger_than,
    model_of,
    models,
    models_like,
    product_of,
)


@pytest.mark.parametrize(
    ("name", "parameters", "nominal", "weights_gib"),
    [
        ("Llama-3.1-8B", 8_030_261_248, 8e9, 14.96),
        ("Llama-3.1-70B", 70_553_706_496, 70e9, 131.42),
        ("Llama-2-7B", 6_738_415_616, 7e9, 12.55),
        ("Mistral-7B-v0.3", 7_248_023_552, 7e9, 13.50),
        ("Qwen2.5-7B", 7_615_616_512, 7e9, 14.19),
        ("Qwen2.5-72B", 72_706_203_648, 72e9, 135.43),
        ("Qwen3-32B", 32_762_123_264, 32e9, 61.02),
        ("Mixtral-8x7B", 46_702_792_704, 47e9, 86.99),
        ("DeepSeek-V3", 671_026_419_200, 671e9, 1249.88),
        ("gemma-2-9b", 9_241_705_984, 9e9, 17.21),
    ],
)
def test_parameters_of_known_models(name, parameters, nominal, weights_gib):
    model = models()[name]
    assert (model.architecture.parameters, model.nominal_parameters) == (parameters, nominal)
    assert 2 * parameters / 2**30 == pytest.approx(weights_gib, abs=0.006)


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("hf://meta-llama/Llama-3.1-8B-Instruct", "Llama-3.1-8B"),
        ("hf://meta-llama/llama-3.1-8b-instruct@main", "Llama-3.1-8B"),
        ("hf://deepseek-ai/DeepSeek-R1", "DeepSeek-V3"),
        ("hf://someone/Llama-3.1-8B-Instruct", None),
        ("pvc://claim/meta-llama/Llama-3.1-8B-Instruct", None),
    ],
)
def test_a_model_is_found_by_its_source(source, name):
    result = model_of(source)
    assert (result and result.name) == name


def test_a_mistyped_source_finds_similar_ones():
    assert "hf://meta-llama/Llama-3.1-8B-Instruct" in models_like("hf://meta-lama/Llama-3.1-8B-Instruct")
    assert models_like("s3://bucket/weights") == []


@pytest.mark.parametrize(
    ("product", "name"),
    [
        ("NVIDIA-H100-80GB-HBM3", "H100-SXM"),
        ("NVIDIA-H100-80GB-HBM3-SHARED", "H100-SXM"),
        ("NVIDIA-A100-SXM4-40GB", "A100-SXM-40GB"),
        ("AMD_Instinct_MI300X_OAM", "MI300X"),
        ("NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", None),
        ("H100", None),
    ],
)
def test_a_gpu_is_found_by_its_product(product, name):
    result = gpu_of(product)
    assert (result and result.name) == name


def test_the_product_is_read_from_any_vendors_label():
    assert product_of({"amd.com/gpu.product-name": "AMD_Instinct_MI300X_OAM", "zone": "a"}) == "AMD_Instinct_MI300X_OAM"
    assert product_of({"zone": "a"}) is None


def test_an_h100_has_its_real_memory_and_its_dense_speed():
    card = gpus()["H100-SXM"]
    assert (card.memory_bytes, card.bandwidth) == (gib("79.19"), 3.35e12)
    assert (card.flops_at(16), card.flops_at(8), card.flops_at(4)) == (989.4e12, 1978.9e12, 1978.9e12)


def test_a_card_without_fp8_computes_fp8_weights_at_16_bits():
    assert gpus()["A100-SXM-80GB"].flops_at(8) == 312e12


def test_larger_cards_come_smallest_first():
    result = [card.memory_bytes for card in larger_than(gpus()["L4"])]
    assert result == sorted(result)
    assert result[0] > gpus()["L4"].memory_bytes


def test_the_schema_refuses_unknown_fields():
    text = json.loads((DATA / "models.json").read_text())
    text["models"][0]["colour"] = "blue"
    with pytest.raises(ValidationError, match="colour"):
        ModelsFile.model_validate(text)


def test_the_schema_refuses_a_negative_bandwidth():
    text = json.loads((DATA / "gpus.json").read_text())
    text["gpus"][0]["bandwidthTerabytesPerSecond"] = -1
    with pytest.raises(ValidationError, match="bandwidthTerabytesPerSecond"):
        GpusFile.model_validate(text)


def test_names_are_unique():
    records = ModelsFile.model_validate(json.loads((DATA / "models.json").read_text())).models
    sources = [source.casefold() for record in records for source in record.sources]
    assert len(set(sources)) == len(sources)
    assert len(models()) == len(records)


def test_profiles_name_models_and_gpus_that_exist():
    for entry in BUILT_IN.values():
        assert set(entry.models) <= set(models())
        assert set(entry.gpus) <= set(gpus())
