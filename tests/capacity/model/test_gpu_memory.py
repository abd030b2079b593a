"""GPU memory against calculations by hand; every figure can be checked with a pocket calculator."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.engine_logs import LOGS, EngineLog
from forebay.capacity.model.architecture import Architecture, Experts, Mla, SlidingWindow, gib
from forebay.capacity.model.gpu_memory import (
    Adapters,
    Footprint,
    Sizes,
    adapter_bytes,
    candidate_sizes,
    kv_bytes_per_token,
    longest_request,
    measure,
    missing_bytes,
    request_bytes,
    sequences,
    smallest_sizes,
    weight_bytes,
    weights_only_gpus,
)
from forebay.capacity.model.model_catalogue import models

H100 = gib("79.19")
LLAMA_8B = models()["Llama-3.1-8B"].architecture
LLAMA_70B = models()["Llama-3.1-70B"].architecture


def a_footprint(architecture: Architecture = LLAMA_8B, weights_gib: str = "14.96", **changes) -> Footprint:
    return Footprint(architecture=architecture, weight_bytes=gib(weights_gib), **changes)


@pytest.mark.parametrize(
    ("footprint", "sizes", "tokens"),
    [
        pytest.param(a_footprint(), Sizes(), 441_504, id="8B"),
        pytest.param(a_footprint(LLAMA_70B, "131.42"), Sizes(tensor=2), 20_608, id="70B on TP2"),
        pytest.param(a_footprint(LLAMA_70B, "131.42"), Sizes(tensor=4), 471_856, id="70B on TP4"),
    ],
)
def test_reference_kv_tokens_on_an_h100(footprint, sizes, tokens):
    """79.19 GiB × 0.92 − weights − 4 GiB, in whole blocks of 16."""
    assert measure(footprint, sizes, H100).kv_tokens == tokens


def test_exact_parameters_leave_one_block_more_than_the_rounded_weights():
    """8,030,261,248 × 2 bytes are 14.9575 GiB; the reference row above rounds them up to 14.96."""
    exact = replace(a_footprint(), weight_bytes=weight_bytes(LLAMA_8B.parameters, 16))
    assert measure(exact, Sizes(), H100).kv_tokens == 441_504 + 16


@pytest.mark.parametrize(
    ("parameters", "bits", "gigabytes"),
    [(8_000_000_000, 16, 16), (8_000_000_000, 8, 8), (8_000_000_000, 4, 4), (70_000_000_000, 16, 140)],
)
def test_reference_weights(parameters, bits, gigabytes):
    assert weight_bytes(parameters, bits) == gigabytes * 10**9


def test_weights_of_70b_alone_fill_two_cards():
    nominal = replace(a_footprint(LLAMA_70B), weight_bytes=weight_bytes(70_000_000_000, 16))
    assert weights_only_gpus(nominal, 80 * 10**9) == 2


@pytest.mark.parametrize("log", LOGS, ids=lambda log: log.name)
def test_kv_tokens_of_engine_logs(log: EngineLog):
    """Exact with the log's own overhead where it prints all terms; within 10 % with the default overhead."""
    own, default = log.computed().kv_tokens, log.computed("4").kv_tokens
    assert own == log.kv_tokens if log.exact else own == pytest.approx(log.kv_tokens, rel=0.001)
    assert default == pytest.approx(log.kv_tokens, rel=0.10)


@pytest.mark.parametrize(
    ("model", "bf16", "fp8"),
    [
        ("Llama-3.1-8B", 131_072, 65_536),
        ("Llama-3.1-70B", 327_680, 163_840),
        ("Llama-2-7B", 524_288, 262_144),
        ("Mistral-7B-v0.3", 131_072, 65_536),
        ("Qwen2.5-7B", 57_344, 28_672),
        ("Qwen2.5-72B", 327_680, 163_840),
        ("Qwen3-32B", 262_144, 131_072),
        ("Mixtral-8x7B", 131_072, 65_536),
        ("DeepSeek-V3", 70_272, 35_136),
        ("gemma-2-9b", 344_064, 172_032),
    ],
)
def test_kv_bytes_per_token(model, bf16, fp8):
    architecture = models()[model].architecture
    assert (kv_bytes_per_token(architecture, 16), kv_bytes_per_token(architecture, 8)) == (bf16, fp8)


@pytest.mark.parametrize(
    ("architecture", "sizes", "per_rank"),
    [
        pytest.param(LLAMA_8B, Sizes(tensor=4), 131_072 // 4, id="heads divide over the ranks"),
        pytest.param(LLAMA_8B, Sizes(tensor=16), 131_072 // 8, id="beyond its 8 heads each is held twice"),
        pytest.param(
            models()["DeepSeek-V3"].architecture, Sizes(tensor=8), 70_272, id="a latent is held whole by every rank"
        ),
        pytest.param(LLAMA_8B, Sizes(pipeline=2), 131_072 // 2, id="layers divide over the stages"),
        pytest.param(LLAMA_8B, Sizes(pipeline=3), 131_072 * 11 // 32, id="the stage with most layers counts"),
        pytest.param(LLAMA_8B, Sizes(data=2), 131_072, id="each copy holds its own requests whole"),
    ],
)
def test_kv_bytes_per_rank(architecture, sizes, per_rank):
    assert measure(a_footprint(architecture), sizes, H100).kv_bytes_per_token_per_rank == per_rank


def test_a_replica_of_two_copies_holds_twice_the_tokens():
    one, two = (measure(a_footprint(), Sizes(data=copies), H100) for copies in (1, 2))
    assert (two.kv_tokens, two.kv_tokens_per_engine) == (2 * one.kv_tokens, one.kv_tokens)


def test_fp8_kv_holds_twice_the_tokens():
    assert measure(a_footprint(kv_bits=8), Sizes(), H100).kv_tokens == pytest.approx(2 * 441_504, abs=16)


class TestSlidingWindow:
    GEMMA = models()["gemma-2-9b"].architecture
    """42 layers of 8,192 bytes; 21 of them see 4,096 tokens."""

    def test_a_short_request_takes_all_layers(self):
        assert request_bytes(a_footprint(self.GEMMA), Sizes(), 4096) == 4096 * 344_064

    def test_beyond_the_window_a_token_costs_half(self):
        footprint = a_footprint(self.GEMMA)
        grown = request_bytes(footprint, Sizes(), 8192) - request_bytes(footprint, Sizes(), 4096)
        assert grown == 4096 * 172_032

    def test_a_decoding_step_reads_no_more_than_the_window(self):
        assert self.GEMMA.tokens_read(8192) == (8192 + 4096) / 2

    def test_a_model_of_windows_only_holds_any_request_in_a_window(self):
        mistral = replace(LLAMA_8B, sliding_window=SlidingWindow(4096, 32))
        assert request_bytes(a_footprint(mistral), Sizes(), 1_000_000) == 4096 * 131_072


class TestExperts:
    def test_experts_of_mixtral(self):
        """32 layers × 8 experts × 3 × 4,096 × 14,336."""
        assert models()["Mixtral-8x7B"].architecture.expert_parameters == 32 * 8 * 3 * 4096 * 14_336

    def test_copies_share_the_experts_and_nothing_else(self):
        architecture = replace(
            LLAMA_8B, parameters=1000 * 2**20, active_parameters=400 * 2**20, experts=Experts(count=8, active=2)
        )
        assert architecture.expert_parameters == 800 * 2**20
        footprint = Footprint(architecture=architecture, weight_bytes=2000 * 2**20)
        assert measure(footprint, Sizes(data=4), H100).weight_bytes_per_rank == (400 + 1600 // 4) * 2**20


class TestAdapters:
    TINY = Architecture(parameters=3 * 64 * 10 + 3 * 64 * 64, layers=1, attention_heads=4, kv_heads=2, head_dim=16)
    """Width 64: queries 64, keys and values 32, so attention is 12,288 numbers and feed-forward 10 wide."""

    def test_slots_of_an_unsplit_layer(self):
        """q 128, k 96, v 96, gate 74, up 74, o 128, down 74: 670 numbers a rank of an adapter."""
        assert adapter_bytes(self.TINY, Adapters(slots=3, rank=8)) == 3 * 8 * 670 * 2

    def test_tensor_parallelism_splits_one_side_of_each_matrix(self):
        """q 64+32, k 64+16, v 64+16, gate 64+5, up 64+5, o 32+64, down 5+64."""
        assert adapter_bytes(self.TINY, Adapters(slots=1, rank=1), tensor=2) == (96 + 80 + 80 + 69 + 69 + 96 + 69) * 2

    def test_adapters_reduce_the_kv_cache(self):
        without = measure(a_footprint(), Sizes(), H100)
        with_them = measure(a_footprint(adapters=Adapters(4, 64)), Sizes(), H100)
        assert without.kv_bytes - with_them.kv_bytes == adapter_bytes(LLAMA_8B, Adapters(4, 64))


class TestSmallestSizes:
    def test_70b_with_its_whole_context_needs_four(self):
        assert smallest_sizes(a_footprint(LLAMA_70B, "131.42"), H100, 131_072) == Sizes(tensor=4)

    def test_70b_with_a_short_context_needs_two(self):
        assert smallest_sizes(a_footprint(LLAMA_70B, "131.42"), H100, 16_384) == Sizes(tensor=2)

    def test_heads_that_do_not_divide_use_a_pipeline(self):
        """Qwen2.5-7B has 28 heads: TP8 does not start, so 8 GPUs are two stages of four."""
        tried = [sizes for sizes in candidate_sizes(models()["Qwen2.5-7B"].architecture) if sizes.gpus == 8]
        assert tried == [Sizes(4, 2), Sizes(2, 4), Sizes(1, 8)]

    def test_a_model_too_large_for_a_pod_has_no_sizes(self):
        assert smallest_sizes(a_footprint(LLAMA_70B, "2000"), H100, 1) is None


def test_missing_bytes_are_the_request_beyond_what_is_left():
    """72.8548 − 131.42 − 4 GiB is 62.57 GiB short before the first token, and 16 tokens take 5 MiB more."""
    missing = missing_bytes(a_footprint(LLAMA_70B, "131.42"), Sizes(), H100, 1)
    assert missing == gib("131.42") + gib(4) - -(-H100 * 92 // 100) + 16 * 327_680


def test_the_longest_request_is_limited_by_memory_and_by_the_ceiling():
    footprint = a_footprint(LLAMA_70B, "131.42")
    assert longest_request(footprint, Sizes(tensor=2), H100, 131_072) == 20_608
    assert longest_request(footprint, Sizes(tensor=4), H100, 131_072) == 131_072
    assert longest_request(footprint, Sizes(), H100, 131_072) == 0


def test_sequences_are_bounded_by_memory_and_by_the_engine():
    memory = measure(a_footprint(), Sizes(), H100)
    assert sequences(a_footprint(), Sizes(), memory, 3000, 256) == 441_504 // 3000
    assert sequences(a_footprint(), Sizes(), memory, 600, 256) == 256


@st.composite
def architectures(draw: st.DrawFn) -> Architecture:
    layers = draw(st.integers(1, 128))
    heads = draw(st.sampled_from([1, 2, 4, 8, 12, 16, 28, 32, 64, 128]))
    window = draw(st.none() | st.builds(SlidingWindow, st.integers(1, 8192), st.integers(1, layers)))
    mla = draw(st.none() | st.builds(Mla, st.integers(16, 1024), st.integers(8, 128)))
    return Architecture(
        parameters=draw(st.integers(10**6, 10**12)),
        layers=layers,
        attention_heads=heads,
        kv_heads=draw(st.integers(1, heads)),
        head_dim=draw(st.sampled_from([32, 64, 128, 256])),
        mla=mla,
        sliding_window=window,
    )


SIZES = st.builds(Sizes, st.sampled_from([1, 2, 4, 8]), st.integers(1, 1), st.integers(1, 4))


@given(architectures(), SIZES, st.integers(1, 10**12), st.integers(0, 10**12), st.integers(1, 10**6))
@settings(max_examples=200, deadline=None)
def test_more_memory_never_lowers_concurrency(architecture, sizes, card, more, tokens):
    footprint = Footprint(architecture, weight_bytes(architecture.parameters, 16))
    less, larger = (measure(footprint, sizes, bytes_) for bytes_ in (card, card + more))
    assert sequences(footprint, sizes, less, tokens, 256) <= sequences(footprint, sizes, larger, tokens, 256)
    assert missing_bytes(footprint, sizes, card, tokens) >= missing_bytes(footprint, sizes, card + more, tokens)


@given(st.integers(1, 10**13), st.sampled_from([32, 16, 8]))
def test_halving_precision_halves_weight_bytes(parameters, bits):
    assert 0 <= 2 * weight_bytes(parameters, bits // 2) - weight_bytes(parameters, bits) <= 1


@given(architectures(), SIZES, st.integers(10**10, 10**11), st.integers(1, 10**6))
@settings(max_examples=200, deadline=None)
def test_the_longest_request_fits_and_one_block_more_does_not(architecture, sizes, card, ceiling):
    footprint = Footprint(architecture, weight_bytes(architecture.parameters, 4), overhead_bytes=0)
    longest = longest_request(footprint, sizes, card, ceiling)
    if longest:
        assert not missing_bytes(footprint, sizes, card, longest)
    if longest < ceiling:
        assert missing_bytes(footprint, sizes, card, longest + 16)
