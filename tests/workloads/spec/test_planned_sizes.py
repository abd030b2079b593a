"""Sizes that the capacity plan gives pods, and the status of the plan."""

import json
from typing import Any

import pytest

from forebay.api.performance_profile import PerformanceProfileSpec
from forebay.capacity.model.profile_choice import given_profile
from forebay.scaling.load.arrivals import RequestLengths
from forebay.workloads.spec.engine_versions import Defaults
from forebay.workloads.spec.planned_sizes import Sizing, sizing_of
from forebay.workloads.spec.resolve import resolve
from forebay.world.world import Revision
from tests.builders.loads import known
from tests.capacity.specs import H100, LLAMA_8B, LLAMA_70B, a_spec, traffic
from tests.workloads.specs import CHAT, engine_of

CHAT_TRAFFIC = traffic(6_000_000, 4, 600, 260, 1.5)


def sized(*arguments: Any, **blocks: Any) -> Sizing:
    return sizing_of(a_spec(*arguments, **blocks))


def a_revision(*arguments: Any, **blocks: Any) -> Revision:
    spec = a_spec(*arguments, **blocks)
    revision = resolve(spec, CHAT, sizing=sizing_of(spec))
    assert isinstance(revision, Revision)
    return revision


def arguments_of(*arguments: Any, **blocks: Any) -> list[str]:

    args: list[str] = list(engine_of(json.loads(a_revision(*arguments, **blocks).data)["pod"])["args"])
    return args


class TestPods:
    def test_the_plan_sets_the_smallest_sizes_that_fit(self):
        assert "--tensor-parallel-size=4" in arguments_of(LLAMA_70B)
        assert a_revision(LLAMA_70B).shape.gpus_per_pod == 4
        assert "--tensor-parallel-size=1" in arguments_of(LLAMA_8B)

    def test_given_sizes_are_kept(self):
        assert "--tensor-parallel-size=8" in arguments_of(LLAMA_70B, engine={"tensorParallelSize": 8})

    def test_batched_tokens_keep_the_next_token_in_time(self):
        assert "--max-num-batched-tokens=1310" in arguments_of(traffic=CHAT_TRAFFIC, scaling={"maxReplicas": 4})

    @pytest.mark.parametrize(
        ("extra", "own"),
        [
            (["--max-num-batched-tokens=4096"], ["--max-num-batched-tokens=4096"]),
            (["--max_num_batched_tokens", "4096"], []),
            (["--no-enable-chunked-prefill"], []),
        ],
    )
    def test_extra_args_take_precedence_over_planned_tokens(self, extra, own):
        rendered = arguments_of(traffic=CHAT_TRAFFIC, engine={"extraArgs": extra})
        assert [argument for argument in rendered if argument.startswith("--max-num-batched-tokens")] == own

    def test_without_traffic_batched_tokens_are_left_to_vllm(self):
        assert not any("batched" in argument for argument in arguments_of(traffic=None))

    @pytest.mark.parametrize(
        "blocks",
        [
            pytest.param({"traffic": None, "gpu": {}}, id="no GPU"),
            pytest.param({"model": {"source": "s3://bucket/weights"}}, id="a model nobody knows"),
        ],
    )
    def test_without_a_known_model_or_gpu_nothing_is_set(self, blocks):
        spec = a_spec(**blocks)
        with_plan, without = (resolve(spec, CHAT, sizing=sizing) for sizing in (sizing_of(spec), None))
        assert with_plan == without


class TestUpgrades:
    def test_a_plan_does_not_change_the_spec_hash(self):
        """An operator that learns to plan, or plans better, resolves differently and asks for no rollout."""
        spec = a_spec(LLAMA_70B)
        before, after = resolve(spec, CHAT), resolve(spec, CHAT, sizing=sizing_of(spec))
        assert isinstance(before, Revision)
        assert isinstance(after, Revision)
        assert before.hash != after.hash
        assert before.spec_hash == after.spec_hash

    def test_changed_traffic_starts_no_rollout(self):
        before, after = (a_revision(traffic=traffic(10**6, 4, prompt, 260, 1.5)) for prompt in (600, 3000))
        assert before.hash != after.hash
        assert before.spec_hash == after.spec_hash


class TestProblems:
    def test_traffic_beyond_any_fleet_is_planned_with_the_largest_count_of_the_status(self):
        plan = known(sized(LLAMA_8B, "NVIDIA-L4", traffic=traffic(260_000_000_000, 4, 600, 260, 1.5)).plan)
        assert known(plan.replicas).active == 1_000_000

    def test_an_engine_that_cannot_start_is_a_misfit(self):
        [misfit] = sized(LLAMA_70B, engine={"tensorParallelSize": 1}).misfits
        assert misfit.reason == "DoesNotFit"
        assert misfit.message.startswith("spec.engine.tensorParallelSize: 1 does not fit: weights of 131.42 GiB")
        assert "set engine.tensorParallelSize 4: 471,856 tokens of KV cache" in misfit.message
        assert misfit.message.endswith(".")

    def test_heads_that_do_not_divide_and_stages_beyond_the_layers_are_misfits(self):
        assert sized("hf://Qwen/Qwen2.5-7B-Instruct", engine={"tensorParallelSize": 8}).misfits
        shallow = {"architecture": {"layers": 3}}
        [misfit] = sized(model=shallow, engine={"pipelineParallelSize": 4}).misfits
        assert misfit.message.startswith("spec.engine.pipelineParallelSize: 4 is more than the 3 layers")

    def test_a_misfit_sets_no_sizes(self):
        sizing = sized(LLAMA_70B, "NVIDIA-L4", engine={"tensorParallelSize": 1})
        assert (sizing.tensor_parallel_size, sizing.max_num_batched_tokens) == (None, None)

    def test_a_promise_that_is_not_kept_is_a_warning(self):
        sizing = sized(LLAMA_8B, "NVIDIA-L4", model={"maxModelLen": 8192})
        assert sizing.misfits == ()
        assert [warning.reason for warning in sizing.warnings] == ["PromiseAtRisk"]

    def test_bounds_below_the_peak_are_a_warning(self):
        sizing = sized(traffic=traffic(headroom=1.5), scaling={"maxReplicas": 2})
        assert [warning.reason for warning in sizing.warnings] == ["BoundsTooLow"]

    def test_missing_values_are_reported_where_a_plan_was_asked_for(self):
        asked, not_asked = sized(LLAMA_8B, None), sized(LLAMA_8B, None, traffic=None)
        assert asked.warnings[0].reason == "NotSized"
        assert asked.warnings[0].message.startswith("Not sized: spec.gpu.product: is not set")
        assert not_asked == Sizing()


class TestStatus:
    def test_the_plan_of_a_service(self):
        sizing = sized(traffic=CHAT_TRAFFIC, warmPool={"replicas": 1}, scaling={"maxReplicas": 4})
        assert sizing.plan is not None
        assert sizing.replica is not None
        wire = sizing.plan.wire()
        assert {key: wire[key] for key in wire if key != "assumptions"} == {
            "product": H100,
            "tensorParallelSize": 1,
            "pipelineParallelSize": 1,
            "dataParallelSize": 1,
            "kvTokensPerReplica": 441_520,
            "maxConcurrentSequences": 256,
            "replicas": {"active": 1, "warm": 1},
            "gpus": 2,
            "tokensPerMinute": 477_778,
            "tokensPerMinuteWithHeadroom": 716_667,
            "bound": "ITL",
            "timeToFirstTokenMilliseconds": 43,
            "interTokenMilliseconds": 9,
        }
        assert "profile 8b-h100, ±20 %" in wire["assumptions"]
        assert (sizing.replica.per_replica, sizing.replica.basis) == (1_783_286, "profile")

    def test_memory_is_planned_with_the_utilization_of_the_engine(self):
        sizing = sizing_of(a_spec(traffic=None), Defaults(gpu_memory_utilization_percent=80))
        assert sizing.plan is not None
        assert sizing.plan.kv_tokens_per_replica < 441_520

    def test_a_profile_of_the_cluster_is_used(self):
        profile = PerformanceProfileSpec(
            model=LLAMA_8B,
            product=H100,
            step_milliseconds=8,
            prompt_token_microseconds=20,
            sequence_microseconds=5,
            kv_token_nanoseconds=50,
        )
        sizing = sizing_of(a_spec(traffic=CHAT_TRAFFIC), profiles=[given_profile("ours", profile)])
        assert sizing.plan is not None
        assert "profile ours, ±10 %" in sizing.plan.assumptions


class TestCarrier:
    def test_replica_capacity_is_known_without_traffic(self):
        replica_capacity = known(sized(traffic=None).replica_capacity)
        assert replica_capacity.declared is None
        assert known(replica_capacity.mix_capacity(RequestLengths(500, 200))).usable == pytest.approx(0.745, abs=5e-4)

    def test_declared_lengths_are_used_until_lengths_are_learned(self):
        assert known(sized(LLAMA_8B, traffic=CHAT_TRAFFIC).replica_capacity).declared == RequestLengths(600, 260)

    def test_without_model_or_gpu_there_is_no_replica_capacity(self):
        assert sized("hf://nobody/knows-this", traffic=None).replica_capacity is None
        assert sized(LLAMA_8B, None).replica_capacity is None
