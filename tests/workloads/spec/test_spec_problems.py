"""Specs that the schema accepts and that an engine or the API server would reject later."""

from typing import Any

import pytest

from forebay.api.reasons import Reason
from forebay.workloads.spec.resolve import resolve, warnings
from forebay.world.world import Revision
from tests.workloads.specs import CHAT, a_spec

TEMPLATE_WITH_OUR_ANNOTATION = {"metadata": {"annotations": {"forebay.dev/drain-started": "2026-03-01T10:00:00Z"}}}


def an_engine(version: str = "0.32.0", *arguments: str) -> dict[str, Any]:
    return {"engine": {"version": version, "extraArgs": list(arguments)}}


@pytest.mark.parametrize(
    ("block", "template", "reason", "words"),
    [
        pytest.param(
            an_engine("0.19.1"),
            None,
            Reason.ENGINE_VERSION_UNSUPPORTED,
            ('spec.engine.version: "0.19.1"', "0.20.0 or newer"),
            id="too old",
        ),
        pytest.param(
            an_engine("0.32.0", "--tensor-parallel=4"),
            None,
            Reason.ENGINE_FLAG_RESERVED,
            ('extraArgs: "--tensor-parallel" is short for --tensor-parallel-size', "set engine.tensorParallelSize"),
            id="the beginning of a flag of ours",
        ),
        pytest.param(
            an_engine("0.32.0", "--seed", "1", "--swap_space=4"),
            None,
            Reason.ENGINE_FLAG_UNAVAILABLE,
            ('extraArgs: "--swap-space" is not a flag of vLLM 0.32.0', "removed in vLLM 0.18", "leave it out"),
            id="a flag that was removed",
        ),
        pytest.param(
            an_engine("0.28.0", "--calculate-kv-scales"),
            None,
            Reason.ENGINE_FLAG_UNAVAILABLE,
            ('"--calculate-kv-scales" is not a flag of vLLM 0.28.0', "removed in vLLM 0.28", "KV scales"),
            id="removed in this version",
        ),
        pytest.param(
            {
                "engine": {
                    "tensorParallelSize": 2,
                    "nodes": 2,
                    "extraArgs": ["--distributed_executor_backend", "ray"],
                }
            },
            None,
            Reason.ENGINE_FLAG_INVALID,
            ('extraArgs: --distributed-executor-backend "ray"', "spec.engine.nodes 2", "leave it out"),
            id="ray on several nodes",
        ),
        pytest.param(
            an_engine("0.31.2", "--log-level", "debug"),
            None,
            Reason.ENGINE_FLAG_UNAVAILABLE,
            ('"--log-level" is not a flag of vLLM 0.31.2', "added in vLLM 0.32", "VLLM_LOGGING_LEVEL"),
            id="not added yet",
        ),
        pytest.param(
            an_engine("0.32.0", "--speculative-config", "{method: ngram}"),
            None,
            Reason.ENGINE_FLAG_INVALID,
            (
                "--speculative-config is given '{method: ngram}', which is not JSON",
                '--speculative-config={"key": "value"}',
            ),
            id="invalid JSON",
        ),
        pytest.param(
            {"model": {"source": "hf://org/name", "quantization": "bitsandbytes"}},
            None,
            Reason.FORMAT_UNAVAILABLE,
            ('spec.model.quantization: "bitsandbytes"', "vLLM 0.32.0", "removed in vLLM 0.28", "awq, gptq or fp8"),
            id="a quantization that was removed",
        ),
        pytest.param(
            an_engine("0.24.0", "--load-format", "gguf"),
            None,
            Reason.FORMAT_UNAVAILABLE,
            ('extraArgs: --load-format: "gguf"', "vLLM 0.24.0", "removed in vLLM 0.24", "safetensors"),
            id="a load format that was removed",
        ),
        pytest.param(
            an_engine("0.28.0", "--load_format=bitsandbytes"),
            None,
            Reason.FORMAT_UNAVAILABLE,
            ('extraArgs: --load-format: "bitsandbytes"', "vLLM 0.28.0", "removed in vLLM 0.28", "awq, gptq or fp8"),
            id="another load format that was removed",
        ),
        pytest.param(
            {"pod": {"templateRef": "gpu-pods"}},
            None,
            Reason.POD_TEMPLATE_NOT_FOUND,
            ('spec.pod.templateRef: there is no PodTemplate "gpu-pods"', "create it"),
            id="no such template",
        ),
        pytest.param(
            {"pod": {"templateRef": "gpu-pods"}},
            TEMPLATE_WITH_OUR_ANNOTATION,
            Reason.ANNOTATION_RESERVED,
            ('spec.pod.templateRef: the annotation "forebay.dev/drain-started" of PodTemplate "gpu-pods"', "prefix"),
            id="a template that would drain its pods",
        ),
    ],
)
def test_invalid_specs_have_one_problem_that_names_field_value_and_remedy(block, template, reason, words):
    problems = resolve(a_spec(**block), CHAT, template=template)
    assert isinstance(problems, tuple)
    (problem,) = problems
    assert problem.reason == reason
    assert all(part in problem.message for part in words), problem.message


@pytest.mark.parametrize(
    "block",
    [
        pytest.param(an_engine("0.20.0"), id="the oldest version"),
        pytest.param(an_engine("0.32.0", "--seed=1"), id="a flag that no table names"),
        pytest.param(an_engine("0.26.0", "--calculate-kv-scales"), id="before the flag was removed"),
        pytest.param(an_engine("0.32.0", "--log-level", "debug"), id="since the flag was added"),
        pytest.param(an_engine("0.23.0", "--load-format", "gguf"), id="before the format was removed"),
        pytest.param(an_engine("0.32.0", '--speculative-config={"method": "ngram"}'), id="JSON"),
        pytest.param(an_engine("0.32.0", "--speculative-config.method", "ngram"), id="one entry of JSON"),
        pytest.param(
            {"model": {"source": "hf://org/name", "quantization": "gguf"}, "engine": {"version": "0.23.0"}},
            id="before the quantization was removed",
        ),
        pytest.param(an_engine("0.28.0", "--load-format", "tensorizer"), id="a format that is still supported"),
        pytest.param(an_engine("0.99.0"), id="newer than the newest known"),
    ],
)
def test_valid_specs_resolve_to_a_revision(block):
    assert isinstance(resolve(a_spec(**block), CHAT), Revision)


def test_all_problems_are_reported_at_once():
    problems = resolve(a_spec(**an_engine("0.32.0", "--tensor-par", "--swap-space")), CHAT)
    assert isinstance(problems, tuple)
    assert [problem.reason for problem in problems] == ["EngineFlagReserved", "EngineFlagUnavailable"]


@pytest.mark.parametrize(
    ("version", "reasons"),
    [
        pytest.param("0.20.2", ["EngineChecksModelName"], id="answers to one name only"),
        pytest.param("0.21.0", [], id="known"),
        pytest.param("0.33.0", [], id="the newest known"),
        pytest.param("0.34.0", ["EngineVersionUnknown"], id="unknown"),
    ],
)
def test_versions_that_only_cause_warnings(version, reasons):
    assert [warning.reason for warning in warnings(a_spec(**an_engine(version)))] == reasons


def test_an_invalid_schedule_is_only_a_warning():
    schedule = {"name": "leap", "start": "0 8 30 2 *", "duration": "1h", "floor": {"replicas": 1}}
    spec = a_spec(schedules=[schedule])
    assert isinstance(resolve(spec, CHAT), Revision)
    warning = warnings(spec)[0]
    assert warning.reason == Reason.SCHEDULE_UNREADABLE
    assert warning.message.startswith('spec.schedules[leap].start: "0 8 30 2 *"')


@pytest.mark.parametrize(
    ("least", "reasons"),
    [
        pytest.param(0, [], id="it takes effect"),
        pytest.param(1, ["ScaleToZeroInactive"], id="a minimum keeps the last replica"),
    ],
)
def test_scale_to_zero_after_beside_a_minimum_gives_a_warning(least, reasons):
    given = warnings(a_spec(scaling={"minReplicas": least, "scaleToZeroAfter": "15m"}))
    assert [warning.reason for warning in given] == reasons


def test_the_warning_about_scale_to_zero_after_says_what_to_change():
    (warning,) = warnings(a_spec(scaling={"minReplicas": 2, "maxReplicas": 4, "scaleToZeroAfter": "15m"}))
    assert warning.message.startswith('spec.scaling.scaleToZeroAfter: "15m"')
    assert "minReplicas is 2; set minReplicas to 0, or remove scaleToZeroAfter" in warning.message
