"""The plan of one service: reference rows, problems with computed remedies, and properties."""

from dataclasses import replace
from typing import ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forebay.capacity.model.gpu_memory import Sizes
from forebay.capacity.model.profile_choice import Basis, GivenProfile
from forebay.capacity.model.replica_model import Bound
from forebay.capacity.plan.plan_input import PlanContext, read_plan_input
from forebay.capacity.plan.plan_problem import PlanProblem, ProblemKind, UnplannableError
from forebay.capacity.plan.sizing import CapacityPlan, default_batched_tokens, size
from forebay.simulation.engine.replica_engine import EngineLimits, ReplicaEngine
from tests.capacity.specs import H100, LLAMA_2_7B, LLAMA_8B, LLAMA_70B, RPS_100, a_spec, traffic
from tests.simulation.load import a_profile, poisson, run


def planned(*arguments, context: PlanContext | None = None, **blocks) -> CapacityPlan:
    return size(read_plan_input(a_spec(*arguments, **blocks), context), context)


def problem(*arguments, **blocks) -> PlanProblem:
    [issue] = planned(*arguments, **blocks).problems
    return issue


def unknown(*arguments, **blocks) -> list[PlanProblem]:
    with pytest.raises(UnplannableError) as refused:
        read_plan_input(a_spec(*arguments, **blocks))
    return list(refused.value.problems)


class TestReferenceRows:
    def test_7b_mha(self):
        plan = planned(LLAMA_2_7B)
        assert plan.throughput is not None
        assert plan.fleet is not None
        assert round(plan.throughput.tokens_per_minute) == 842_593
        assert round(plan.fleet.exact, 3) == 4.985
        assert (plan.fleet.active, plan.fleet.warm, plan.fleet.gpus) == (5, 0, 5)

    def test_8b_gqa(self):
        plan = planned(LLAMA_8B)
        assert plan.throughput is not None
        assert plan.fleet is not None
        assert round(plan.throughput.tokens_per_minute) == 1_968_502
        assert round(plan.fleet.exact, 3) == 2.134
        assert plan.fleet.active == 3

    def test_8b_gqa_with_long_answers_holds_what_its_memory_leaves(self):
        """The reference row states a cache of 467,000 tokens; this card leaves 441,520, so less is carried."""
        plan = planned(LLAMA_8B, traffic=traffic(prompt=2000, output=2000))
        assert plan.throughput is not None
        assert plan.throughput.capacity.bound is Bound.KV
        assert plan.throughput.capacity.most_sequences == pytest.approx(0.72 * 441_520 / 3000)
        assert plan.throughput.tokens_per_minute < 500_285

    def test_70b_on_two_and_on_four(self):
        on_two = planned(LLAMA_70B, model={"maxModelLen": 16_384}, traffic=None)
        assert (on_two.replica.sizes, on_two.replica.memory.kv_tokens) == (Sizes(2), 20_608)
        on_four = planned(LLAMA_70B, traffic=None)
        assert (on_four.replica.sizes, on_four.replica.memory.kv_tokens) == (Sizes(4), 471_856)


class TestFleet:
    def test_headroom_and_warm_replicas(self):
        plan = planned(traffic=traffic(headroom=1.5), warmPool={"replicas": 2}, scaling={"maxReplicas": 6})
        assert plan.fleet is not None
        assert round(plan.fleet.exact, 3) == 3.2
        assert (plan.fleet.active, plan.fleet.warm, plan.fleet.total, plan.fleet.gpus) == (4, 2, 6, 6)
        assert plan.notes == ()

    def test_each_data_parallel_copy_carries_its_own_traffic(self):
        one, two = planned(), planned(engine={"dataParallelSize": 2})
        assert one.throughput is not None
        assert two.throughput is not None
        assert two.fleet is not None
        assert two.throughput.requests_per_second == 2 * one.throughput.requests_per_second
        assert two.replica.memory.kv_tokens == 2 * one.replica.memory.kv_tokens
        assert (two.fleet.active, two.fleet.gpus) == (2, 4)

    def test_concurrent_streams_are_rate_times_duration(self):
        plan = planned()
        assert plan.fleet is not None
        assert plan.fleet.concurrent_streams == -(-100 * plan.fleet.expected.end_to_end_mean // 1)

    def test_kv_use_at_the_peak(self):
        """33.3 requests a second: T = 6.9 / (1 − 0.5297) ms, 97.8 sequences of 600 tokens."""
        plan = planned()
        assert plan.fleet is not None
        assert plan.fleet.kv_fraction == pytest.approx(97.8 * 600 / 441_520, rel=0.001)

    def test_a_fleet_has_at_least_one_replica(self):
        plan = planned(traffic=traffic(requests=1))
        assert plan.fleet is not None
        assert plan.fleet.active == 1

    def test_end_to_end_narrows_the_time_between_tokens(self):
        plan = planned(slo={"endToEnd": {"p95": "4500ms"}})
        assert plan.throughput is not None
        assert plan.throughput.capacity.inter_token_limit == pytest.approx(4 / 199)

    def test_speculation_shortens_the_time_between_tokens(self):
        plain = planned()
        guessing = planned(engine={"speculative": {"method": "ngram", "tokens": 3, "acceptancePercent": 70}})
        assert plain.fleet is not None
        assert guessing.fleet is not None
        assert guessing.fleet.expected.inter_token_mean < plain.fleet.expected.inter_token_mean
        assert any(
            all(number in text for number in ("ngram", "3 guesses", "70 %", "2.53 tokens", "1.00 times"))
            for text in guessing.assumptions
        )

    def test_speculation_without_measured_acceptance_changes_nothing(self):
        plain, guessing = planned(), planned(engine={"speculative": {"method": "ngram"}})
        assert guessing.throughput is not None
        assert plain.throughput is not None
        assert guessing.throughput.capacity == plain.throughput.capacity
        assert any("engine.speculative.acceptancePercent is not set" in text for text in guessing.assumptions)

    def test_a_draft_model_takes_memory(self):
        draft = {"method": "draft_model", "model": "hf://meta-llama/Llama-3.2-1B"}
        without, with_draft = planned(), planned(engine={"speculative": draft})
        assert without.replica.memory.kv_bytes - with_draft.replica.memory.kv_bytes == 1_235_814_400 * 2

    def test_fp8_changes_the_plan(self):
        plan = planned(model={"quantization": "fp8"})
        assert plan.throughput is not None
        assert plan.replica.memory.weight_bytes == 8_030_261_248
        assert plan.throughput.chosen.error_percent == 35
        assert any(note.startswith("carried over from 16 bits to fp8: ") for note in plan.assumptions)

    def test_adapters_are_read_from_the_arguments(self):
        plan = planned(engine={"extraArgs": ["--enable-lora", "--max-loras=4", "--max-lora-rank", "64"]})
        assert plan.replica.memory.adapter_bytes_per_rank == 4 * 64 * 2 * 32 * _lora_numbers()

    def test_batched_tokens_in_extra_args_are_kept(self):
        plan = planned(engine={"extraArgs": ["--max-num-batched-tokens=4096"]})
        assert plan.throughput is not None
        assert plan.throughput.batched_tokens == 4096

    def test_without_traffic_memory_alone_is_planned(self):
        plan = planned(traffic=None)
        assert (plan.throughput, plan.fleet, plan.fits) == (None, None, True)
        assert plan.replica.max_concurrent_sequences == 441_520 // 131_072


def _lora_numbers() -> int:
    width, key_value, wide = 4096, 1024, (8_030_261_248 // 32 - 4096 * (2 * 4096 + 2 * 1024)) // (3 * 4096)
    columns = 2 * width + 2 * (width + key_value) + 2 * (width + wide)
    return columns + 2 * width + wide + width


class TestMisfits:
    def test_too_little_memory_names_the_bytes_and_computed_remedies(self):
        issue = problem(LLAMA_70B, engine={"tensorParallelSize": 2}, traffic=None)
        assert (issue.field, issue.value) == ("spec.engine.tensorParallelSize", 2)
        assert "need 16.85 GiB (18,096,264,433 bytes) more than the 72.85 GiB" in issue.reason
        assert issue.remedies == (
            "set engine.tensorParallelSize 4: 471,856 tokens of KV cache",
            "use a checkpoint with model.quantization fp8: 32.85 GiB of weights per GPU, 235,920 tokens of KV cache",
            "use a checkpoint with model.quantization awq: 16.43 GiB of weights per GPU, 343,584 tokens of KV cache",
            "set model.maxModelLen 20608 or less",
            "use gpu.product NVIDIA-H200: 386,048 tokens of KV cache",
        )

    @pytest.mark.parametrize("blocks", [{"engine": {"tensorParallelSize": 2}}, {"engine": {"tensorParallelSize": 1}}])
    def test_every_memory_remedy_works(self, blocks):
        """Each remedy is applied to the manifest, which is planned again."""
        for option in problem(LLAMA_70B, traffic=None, **blocks).remedies:
            changed = dict(blocks)
            option_words = option.split(":")[0].split()
            if "engine.tensorParallelSize" in option_words:
                changed["engine"] = {"tensorParallelSize": int(option_words[-1])}
            elif "model.quantization" in option_words:
                changed["model"] = {"quantization": option_words[-1]}
            elif "model.maxModelLen" in option_words:
                changed["model"] = {"maxModelLen": int(option_words[2])}
            elif "model.kvCacheDtype" in option_words:
                changed["model"] = {"kvCacheDtype": "fp8"}
            product = option_words[-1] if "gpu.product" in option_words else H100
            assert planned(LLAMA_70B, product, traffic=None, **changed).fits, option

    def test_a_step_slower_than_the_promise_is_refused_with_its_numbers(self):
        issue = problem(LLAMA_8B, "NVIDIA-L4", model={"maxModelLen": 8192})
        assert (issue.field, issue.value) == ("spec.slo.interTokenLatency.mean", "40ms")
        assert issue.reason.startswith("cannot be kept")
        assert "75.35 ms on NVIDIA-L4 (TP1)" in issue.reason
        assert "150.7 ms" in issue.remedies[0]
        assert [option.split(" (")[0] for option in issue.remedies[1:]] == [
            "set engine.tensorParallelSize 4",
            "use a checkpoint with model.quantization awq",
            "use gpu.product NVIDIA-H100-80GB-HBM3",
        ]

    def test_end_to_end_that_leaves_no_time_between_tokens(self):
        issue = problem(slo={"endToEnd": {"p95": "1s"}})
        assert (issue.field, issue.value) == ("spec.slo.endToEnd.p95", "1s")
        assert "2.513 ms between tokens" in issue.reason
        assert "6.9 ms on " in issue.reason

    def test_a_first_token_that_comes_too_late(self):
        issue = problem(slo={"timeToFirstToken": {"p95": "20ms"}})
        assert (issue.field, issue.value) == ("spec.slo.timeToFirstToken.p95", "20ms")
        assert issue.remedies[0].startswith("set it to ")

    def test_heads_that_do_not_divide(self):
        issue = problem("hf://Qwen/Qwen2.5-7B-Instruct", engine={"tensorParallelSize": 8}, traffic=None)
        assert (issue.field, issue.remedies) == ("spec.engine.tensorParallelSize", ("use 1, 2, 4",))

    def test_requests_longer_than_the_model_takes(self):
        issue = problem(model={"maxModelLen": 512})
        assert (issue.field, issue.value) == ("spec.traffic.promptTokens", 500)
        assert issue.remedies == ("set model.maxModelLen 700 or more, if the checkpoint allows it",)

    def test_more_replicas_than_a_service_has(self):
        issue = problem(traffic=traffic(requests=600 * RPS_100, headroom=1.3))
        assert issue.field == "spec.traffic.requestsPerMonth"
        assert issue.remedies == ("split the traffic over 2 services",)

    def test_maximum_below_what_the_peak_needs(self):
        issue = problem(traffic=traffic(headroom=1.5), scaling={"maxReplicas": 2})
        assert (issue.field, issue.value) == ("spec.scaling.maxReplicas", 2)
        assert issue.remedies[0] == "set it to 4"
        most = int(issue.remedies[1].removeprefix("plan for at most ").split()[0].replace(",", ""))
        assert planned(traffic=traffic(requests=most, headroom=1.5), scaling={"maxReplicas": 2}).fits

    def test_a_maximum_between_peak_and_headroom_is_a_note(self):
        plan = planned(traffic=traffic(headroom=1.5), scaling={"maxReplicas": 3})
        assert plan.fits
        (note,) = plan.notes
        assert note.startswith("scaling.maxReplicas 3 ")
        assert "4 replicas" in note

    def test_a_maximum_that_is_not_set_is_a_note(self):
        (note,) = planned().notes
        assert note.startswith("scaling.maxReplicas is not set")
        assert "set it to 3" in note


class TestUnknown:
    def test_an_unknown_model(self):
        [issue] = unknown("hf://someone/new")
        assert (issue.field, issue.value, issue.kind) == (
            "spec.model.source",
            "hf://someone/new",
            ProblemKind.UNKNOWN,
        )
        assert issue.remedies[0] == (
            "set spec.model.architecture with parameters, layers, attentionHeads, kvHeads, headDim"
        )

    def test_only_the_missing_fields_are_asked_for(self):
        [issue] = unknown("hf://someone/new", model={"architecture": {"parameters": 10**9, "layers": 8}})
        assert issue.remedies[0] == "set spec.model.architecture with attentionHeads, kvHeads, headDim"

    def test_a_mistyped_model(self):
        [issue] = unknown("hf://meta-lama/Llama-3.1-8B-Instruct")
        assert "hf://meta-llama/Llama-3.1-8B-Instruct" in issue.remedies[0]

    def test_all_missing_fields_are_reported_at_once(self):
        assert [issue.field for issue in unknown("s3://bucket/weights", None)] == [
            "spec.model.source",
            "spec.gpu.product",
        ]

    def test_an_unknown_gpu(self):
        [issue] = unknown(LLAMA_8B, "NVIDIA-K80")
        assert (issue.field, issue.value) == ("spec.gpu.product", "NVIDIA-K80")

    def test_a_method_that_does_not_say_its_bits(self):
        [issue] = unknown(model={"quantization": "compressed-tensors"})
        assert (issue.field, issue.remedies) == (
            "spec.model.quantization",
            ("set spec.model.architecture.weightBits",),
        )

    def test_an_architecture_that_contradicts_the_catalogue(self):
        [issue] = unknown(model={"architecture": {"kvHeads": 64}})
        assert (issue.field, issue.value) == ("spec.model.architecture.kvHeads", 64)

    def test_more_stages_than_layers(self):
        [issue] = unknown(model={"architecture": {"layers": 3}}, engine={"pipelineParallelSize": 4})
        assert (issue.field, issue.kind) == ("spec.engine.pipelineParallelSize", ProblemKind.MISFIT)


class TestKnowledge:
    SHAPE: ClassVar = {
        "parameters": 8_030_261_248,
        "layers": 32,
        "attentionHeads": 32,
        "kvHeads": 8,
        "headDim": 128,
        "contextTokens": 131_072,
    }

    def test_an_architecture_by_hand_is_as_good_as_the_catalogue(self):
        plan = planned("s3://bucket/llama", model={"architecture": self.SHAPE})
        assert plan.replica.memory.kv_tokens == 441_520
        assert plan.throughput is not None
        assert plan.throughput.chosen.basis is Basis.DECLARED

    def test_an_architecture_overrides_the_catalogue(self):
        plan = planned(model={"architecture": {"kvHeads": 4}})
        assert plan.replica.memory.kv_bytes_per_token == 65_536
        assert plan.plan_input.model is None

    def test_a_longer_context_keeps_the_measured_profile(self):
        plan = planned(model={"architecture": {"contextTokens": 65_536}})
        assert plan.throughput is not None
        assert plan.throughput.chosen.name == "8b-h100"

    def test_the_gpu_is_found_by_a_node_selector(self):
        assert planned(LLAMA_8B, None, gpu={"nodeSelector": {"nvidia.com/gpu.product": H100}}).fits

    def test_a_gpu_from_the_command_line_is_an_assumption(self):
        plan = planned(LLAMA_8B, None, context=PlanContext(product=H100))
        assert any("does not name a GPU" in text and H100 in text for text in plan.assumptions)

    def test_a_given_profile_determines_speed_overhead_and_margin(self):
        given = GivenProfile(
            name="ours",
            source=LLAMA_8B,
            product=H100,
            profile=replace(a_profile(), step_seconds=0.005, kv_tokens=1),
            overhead_bytes=6 * 2**30,
            usable_share=0.7,
        )
        plan = planned(context=PlanContext(profiles=(given,)), traffic=traffic(requests=RPS_100 // 1000))
        assert plan.replica.memory.overhead_bytes == 6 * 2**30
        assert plan.throughput is not None
        assert (plan.throughput.engine.usable_share, plan.throughput.chosen.name) == (0.7, "ours")

    def test_recorded_lengths_replace_the_means(self):
        plan = planned(context=PlanContext(lengths=((100, 100), (900, 300))), traffic=traffic(requests=RPS_100 // 10))
        assert plan.plan_input.mix is not None
        assert plan.plan_input.mix.reads > 200 * 600
        assert plan.plan_input.demand is not None
        assert plan.plan_input.demand.tokens_per_request == 700


@pytest.mark.parametrize(
    ("memory_gib", "name", "tokens"),
    [(79.19, "H100-SXM", 8192), (79.15, "A100-SXM-80GB", 2048), (22, "L4", 2048), (178, "B200", 16_384)],
)
def test_batched_tokens_by_default_follow_the_card(memory_gib, name, tokens):
    assert default_batched_tokens(int(memory_gib * 2**30), name) == tokens


@given(
    st.integers(1, 10**9),
    st.integers(0, 10**9),
    st.floats(1, 10),
    st.integers(1, 8000),
    st.integers(1, 2000),
    st.sampled_from([LLAMA_8B, LLAMA_70B, LLAMA_2_7B, "hf://google/gemma-2-9b-it", "hf://deepseek-ai/DeepSeek-R1"]),
    st.sampled_from([H100, "NVIDIA-L40S", "NVIDIA-H200", "AMD_Instinct_MI300X_OAM"]),
)
@settings(max_examples=100, deadline=None)
def test_more_traffic_never_lowers_replicas(requests, more, peak, prompt, output, source, product):
    def replicas(count: int) -> int | None:
        plan = planned(source, product, traffic=traffic(count, peak, prompt, output, 1.3))
        return plan.fleet.total if plan.fleet else None

    less, larger = replicas(requests), replicas(requests + more)
    assert (less is None) == (larger is None)
    assert less is None or larger is None or less <= larger


@pytest.mark.parametrize(
    "blocks",
    [
        pytest.param({"traffic": traffic(headroom=1.3)}, id="8B chat"),
        pytest.param({"traffic": traffic(RPS_100 // 4, 1, 1155, 211, 1.3)}, id="8B, conversation"),
        pytest.param({"traffic": traffic(RPS_100 // 20, 1, 2000, 1000, 1.3)}, id="8B, long answers"),
    ],
)
def test_a_plans_own_load_meets_its_promises_in_the_simulated_engine(blocks):
    """One replica gets its share of the peak, at random times; 19 of 20 requests must be in time."""
    plan = planned(**blocks)
    assert plan.fleet is not None
    assert plan.throughput is not None
    assert plan.plan_input.mix is not None
    rate = 100 * blocks["traffic"]["requestsPerMonth"] / RPS_100 / plan.fleet.active
    engine = plan.throughput.engine
    seconds = 1500 / rate
    played = run(
        ReplicaEngine(engine.profile, EngineLimits(engine.max_num_seqs, plan.throughput.batched_tokens)),
        poisson(rate, seconds, int(plan.plan_input.mix.prompt_tokens), int(plan.plan_input.mix.output_tokens)),
    )
    steady = [done for done in played if seconds * 0.2 < done.request.arrival < seconds * 0.9]
    in_time = [
        done
        for done in steady
        if (done.first_token_seconds or 0) <= plan.plan_input.promise.time_to_first_token
        and (done.token_seconds or 0) <= plan.plan_input.promise.inter_token_latency
    ]
    assert len(in_time) >= 0.95 * len(steady)
