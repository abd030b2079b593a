"""Which profile is chosen, how it is carried over to other precisions, and how exact estimates are."""

from typing import Any, get_args

import pytest

from forebay.api.spec.engine_spec import Quantization as Methods
from forebay.capacity.model.engine_profile import BUILT_IN, EngineProfile
from forebay.capacity.model.gpu_memory import Sizes
from forebay.capacity.model.model_catalogue import gpus, models
from forebay.capacity.model.profile_choice import Basis, EngineSetup, GivenProfile, choose_profile
from forebay.capacity.model.quantization import UNQUANTIZED, Quantization, methods, quantization_of, quantized
from forebay.capacity.model.replica_model import EngineModel, Mix, Promise, capacity
from forebay.capacity.model.roofline import ERROR_PERCENT, estimate

FP8 = quantization_of("fp8", None, None)
AWQ = quantization_of("awq", None, None)


def a_setup(
    model: str = "Llama-3.1-8B",
    gpu: str = "H100-SXM",
    quantization: Quantization | None = UNQUANTIZED,
    kv_bits: int = 16,
    sizes: Sizes | None = None,
    engine_version: str | None = "0.32.0",
) -> EngineSetup:
    assert quantization is not None
    return EngineSetup(
        source=f"hf://org/{model}",
        model=model,
        architecture=models()[model].architecture,
        gpu=gpus()[gpu],
        quantization=quantization,
        kv_bits=kv_bits,
        sizes=sizes or Sizes(),
        engine_version=engine_version,
    )


def a_given(name: str = "ours", **changes) -> GivenProfile:
    values: dict[str, Any] = {
        "source": "hf://org/Llama-3.1-8B",
        "product": "NVIDIA-H100-80GB-HBM3",
        "profile": EngineProfile(0.005, 1e-5, 1e-6, 1e-8, 1),
    }
    return GivenProfile(name=name, **(values | changes))


class TestChoice:
    def test_a_measured_model_and_gpu_use_their_profile(self):
        chosen = choose_profile(a_setup(), 441_504)
        assert (chosen.name, chosen.basis, chosen.error_percent) == ("8b-h100", Basis.PROFILE, 20)
        assert chosen.profile.kv_tokens == 441_504

    @pytest.mark.parametrize(
        "setup",
        [
            pytest.param(a_setup("Qwen3-32B"), id="another model"),
            pytest.param(a_setup(gpu="L40S"), id="another card"),
            pytest.param(a_setup(sizes=Sizes(tensor=2)), id="another spread"),
            pytest.param(a_setup(sizes=Sizes(pipeline=2)), id="a pipeline"),
        ],
    )
    def test_other_models_and_gpus_are_estimated_with_a_note(self, setup):
        chosen = choose_profile(setup, 1000)
        assert (chosen.name, chosen.basis, chosen.error_percent) == ("roofline", Basis.DECLARED, ERROR_PERCENT)
        assert chosen.notes[0].startswith(f"roofline estimate ±{ERROR_PERCENT} %")
        assert "no profile of this model" in chosen.notes[0]

    def test_a_mixture_of_experts_notes_its_assumption(self):
        assert "all experts" in choose_profile(a_setup("Mixtral-8x7B", sizes=Sizes(2)), 1000).notes[-1]

    def test_fp8_uses_its_own_profile_if_there_is_one(self):
        assert choose_profile(a_setup(gpu="L4", quantization=FP8), 1000).name == "8b-fp8-l4"

    def test_fp8_is_carried_over_from_16_bits_otherwise(self):
        chosen = choose_profile(a_setup(quantization=FP8), 1000)
        assert (chosen.name, chosen.basis, chosen.error_percent) == ("8b-h100, fp8", Basis.PROFILE, 35)

    def test_an_fp8_cache_is_read_in_half_the_time(self):
        assert choose_profile(a_setup(kv_bits=8), 1000).profile.kv_token_seconds == pytest.approx(0.026e-6)

    def test_a_given_profile_takes_precedence(self):
        chosen = choose_profile(a_setup(), 1000, [a_given(usable_share=0.8, measured_with="guidellm")])
        assert (chosen.name, chosen.basis, chosen.usable_share) == ("ours", Basis.PROFILE, 0.8)
        assert chosen.notes == ("measured with: guidellm",)

    @pytest.mark.parametrize(
        "changes",
        [
            {"source": "hf://org/other"},
            {"product": "NVIDIA-L4"},
            {"bits": 8},
            {"tensor": 2},
            {"pipeline": 2},
            {"engine_version": "0.3"},
        ],
        ids=str,
    )
    def test_a_given_profile_for_another_setup_is_ignored(self, changes):
        assert choose_profile(a_setup(), 1000, [a_given(**changes)]).name == "8b-h100"

    def test_the_most_specific_given_profile_is_used(self):
        given = [a_given("any"), a_given("minor", tensor=1, engine_version="0.32"), a_given("one", tensor=1)]
        assert choose_profile(a_setup(), 1000, given).name == "minor"


class TestQuantization:
    @pytest.mark.parametrize(
        ("method", "checkpoint", "stated", "bits"),
        [
            ("none", 4, 4, 16),
            (None, 16, None, 16),
            (None, 8, None, 8),
            (None, 16, 4, 4),
            ("awq", 16, None, 4),
            ("gptq", None, 8, 8),
            ("compressed-tensors", None, 4, 4),
        ],
    )
    def test_bits_per_weight_by_method_and_checkpoint(self, method, checkpoint, stated, bits):
        chosen = quantization_of(method, checkpoint, stated)
        assert chosen is not None
        assert chosen.bits == bits

    @pytest.mark.parametrize("method", ["compressed-tensors", "gguf", "inc", "quark", "torchao", None])
    def test_unknown_bits_are_not_guessed(self, method):
        assert quantization_of(method, None, None) is None

    def test_every_method_of_the_api_is_known(self):
        assert set(methods()) | {"none"} == set(get_args(Methods))

    def test_fp8_reads_half_the_bytes_and_computes_narrow_where_the_card_can(self):
        base = BUILT_IN["8b-h100"].profile
        assert FP8 is not None
        on_h100 = quantized(base, FP8, gpus()["H100-SXM"])
        on_a100 = quantized(base, FP8, gpus()["A100-SXM-80GB"])
        assert on_h100.step_seconds == pytest.approx(0.001 + 0.0059 * 0.5 / 0.85)
        assert on_h100.prompt_token_seconds == pytest.approx(17.3e-6 / 2 / 0.8, rel=0.001)
        assert on_a100.prompt_token_seconds == pytest.approx(17.3e-6 / 0.8)

    def test_four_bits_at_small_batches_are_as_fast_as_measured(self):
        """Qwen3-32B on an H100 was 2.7 times, Mistral-7B on an L4 3.3 times as fast with 4 bits."""
        assert AWQ is not None
        for model, gpu, measured in (("Qwen3-32B", "H100-SXM", 2.7), ("Mistral-7B-v0.3", "L4", 3.3)):
            shape, card = models()[model].architecture, gpus()[gpu]
            full, quarter = (
                estimate(shape, card, Sizes(), quantization=quantization, kv_tokens=1).step_seconds
                for quantization in (UNQUANTIZED, AWQ)
            )
            assert full / quarter == pytest.approx(measured, rel=0.15)

    def test_fp8_at_saturation_is_near_the_measurement(self):
        """1.60 times the tokens per second; the source does not say whether the KV cache was fp8 too."""
        assert FP8 is not None
        mix = Mix.fixed(500, 200)
        full, with_16, with_8 = (
            choose_profile(a_setup(quantization=quantization, kv_bits=kv), 1000).profile.work_seconds(500, 200)
            for quantization, kv in ((UNQUANTIZED, 16), (FP8, 16), (FP8, 8))
        )
        assert mix.tokens == 700
        assert full / with_16 < 1.60 < full / with_8


class TestRoofline:
    @pytest.mark.parametrize("name", BUILT_IN)
    @pytest.mark.parametrize(("prompt", "output"), [(500, 200), (128, 128), (2000, 2000), (2048, 28), (6000, 300)])
    def test_estimates_match_every_profile_within_the_stated_error(self, name, prompt, output):
        entry = BUILT_IN[name]
        quantization = UNQUANTIZED if entry.bits == 16 else quantization_of("fp8", None, None)
        assert quantization is not None
        roofline = estimate(
            models()[entry.models[0]].architecture,
            gpus()[entry.gpus[0]],
            Sizes(entry.tensor_parallel_size),
            quantization=quantization,
            kv_tokens=entry.profile.kv_tokens,
        )
        mix, promise = Mix.fixed(prompt, output), Promise(0.5, 2.5 * entry.profile.step_seconds)
        carried = [
            capacity(EngineModel(profile, entry.profile.kv_tokens, usable_share=0.9), mix, promise).requests_per_second
            for profile in (roofline, entry.profile)
        ]
        assert carried[0] == pytest.approx(carried[1], rel=ERROR_PERCENT / 100)

    def test_tensor_parallelism_shortens_the_step_and_a_pipeline_does_not(self):
        shape, card = models()["Llama-3.1-70B"].architecture, gpus()["H100-SXM"]
        one, split, chained = (
            estimate(shape, card, sizes, kv_tokens=1) for sizes in (Sizes(), Sizes(tensor=4), Sizes(pipeline=4))
        )
        assert split.step_seconds < one.step_seconds / 3
        assert chained.step_seconds == one.step_seconds
        assert split.prompt_token_seconds == chained.prompt_token_seconds == one.prompt_token_seconds / 4

    def test_copies_do_not_change_an_engine(self):
        shape, card = models()["Llama-3.1-8B"].architecture, gpus()["H100-SXM"]
        assert estimate(shape, card, Sizes(data=4), kv_tokens=1) == estimate(shape, card, Sizes(), kv_tokens=1)
