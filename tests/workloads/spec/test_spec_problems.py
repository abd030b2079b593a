"""Specs that the schema accepts and that an engine or the API server would reject later."""

from typing import Any

import pytest

from forebay.api.reasons import Reason
from forebay.workloads.spec.resolve import resolve, warnings
from forebay.world.world import Revision, SpecProblem
from tests.workloads.specs import CHAT, a_spec

TEMPLATE_WITH_OUR_ANNOTATION = {"metadata": {"annotations": {"forebay.dev/drain-started": "2026-03-01T10:00:00Z"}}}


def an_engine(version: str = "0.32.0", *arguments: str) -> dict[str, Any]:
    return {"engine": {"version": version, "extraArgs": list(arguments)}}


@pytest.mark.parametrize(
    ("block", "template", "problem"),
    [
        pytest.param(
            an_engine("0.19.1"),
            None,
            SpecProblem(
                Reason.ENGINE_VERSION_UNSUPPORTED,
                'spec.engine.version: "0.19.1" is older than 0.20.0, the oldest that Forebay can drain and measure; '
                "use 0.20.0 or newer, or state the version here when the image's tag counts something else.",
            ),
            id="too old",
        ),
        pytest.param(
            an_engine("0.32.0", "--tensor-parallel=4"),
            None,
            SpecProblem(
                Reason.ENGINE_FLAG_RESERVED,
                'spec.engine.extraArgs: "--tensor-parallel" is short for --tensor-parallel-size, which has a field; '
                "set engine.tensorParallelSize.",
            ),
            id="the beginning of a flag of ours",
        ),
        pytest.param(
            an_engine("0.32.0", "--seed", "1", "--swap_space=4"),
            None,
            SpecProblem(
                Reason.ENGINE_FLAG_UNAVAILABLE,
                'spec.engine.extraArgs: "--swap-space" is not a flag of vLLM 0.32.0: it was removed by vLLM 0.18; '
                "leave it out; vLLM recomputes preempted requests.",
            ),
            id="a flag that is gone",
        ),
        pytest.param(
            an_engine("0.28.0", "--calculate-kv-scales"),
            None,
            SpecProblem(
                Reason.ENGINE_FLAG_UNAVAILABLE,
                'spec.engine.extraArgs: "--calculate-kv-scales" is not a flag of vLLM 0.28.0: it was removed by '
                "vLLM 0.28; use a checkpoint that carries KV scales.",
            ),
            id="gone in this version",
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
            SpecProblem(
                Reason.ENGINE_FLAG_INVALID,
                'spec.engine.extraArgs: --distributed-executor-backend "ray" cannot place the ranks of '
                "spec.engine.nodes 2; leave it out, which means mp.",
            ),
            id="ray on several nodes",
        ),
        pytest.param(
            an_engine("0.31.2", "--log-level", "debug"),
            None,
            SpecProblem(
                Reason.ENGINE_FLAG_UNAVAILABLE,
                'spec.engine.extraArgs: "--log-level" is not a flag of vLLM 0.31.2: it came with vLLM 0.32; '
                "set VLLM_LOGGING_LEVEL in spec.engine.env.",
            ),
            id="not there yet",
        ),
        pytest.param(
            an_engine("0.32.0", "--speculative-config", "{method: ngram}"),
            None,
            SpecProblem(
                Reason.ENGINE_FLAG_INVALID,
                "spec.engine.extraArgs: --speculative-config is given '{method: ngram}', which is not JSON (Expecting "
                "property name enclosed in double quotes: line 1 column 2 (char 1)); write it as "
                '--speculative-config={"key": "value"}, quoted as a whole.',
            ),
            id="JSON that is none",
        ),
        pytest.param(
            {"model": {"source": "hf://org/name", "quantization": "bitsandbytes"}},
            None,
            SpecProblem(
                Reason.FORMAT_UNAVAILABLE,
                'spec.model.quantization: "bitsandbytes" is not supported by vLLM 0.32.0: it left with vLLM 0.28; '
                "use a checkpoint quantized with awq, gptq or fp8.",
            ),
            id="a quantization that left",
        ),
        pytest.param(
            an_engine("0.24.0", "--load-format", "gguf"),
            None,
            SpecProblem(
                Reason.FORMAT_UNAVAILABLE,
                'spec.engine.extraArgs: --load-format: "gguf" is not supported by vLLM 0.24.0: it left with vLLM 0.24; '
                "convert the checkpoint to safetensors, or use an image with the gguf plugin.",
            ),
            id="a load format that left",
        ),
        pytest.param(
            an_engine("0.28.0", "--load_format=bitsandbytes"),
            None,
            SpecProblem(
                Reason.FORMAT_UNAVAILABLE,
                'spec.engine.extraArgs: --load-format: "bitsandbytes" is not supported by vLLM 0.28.0: it left with '
                "vLLM 0.28; use a checkpoint quantized with awq, gptq or fp8.",
            ),
            id="another load format that left",
        ),
        pytest.param(
            {"pod": {"templateRef": "gpu-pods"}},
            None,
            SpecProblem(
                Reason.POD_TEMPLATE_NOT_FOUND,
                'spec.pod.templateRef: there is no PodTemplate "gpu-pods" in the namespace of the service; create it, '
                "or leave the field out.",
            ),
            id="no such template",
        ),
        pytest.param(
            {"pod": {"templateRef": "gpu-pods"}},
            TEMPLATE_WITH_OUR_ANNOTATION,
            SpecProblem(
                Reason.ANNOTATION_RESERVED,
                'spec.pod.templateRef: the annotation "forebay.dev/drain-started" of PodTemplate "gpu-pods" is how '
                "Forebay remembers drains; choose another prefix.",
            ),
            id="a template that would drain its pods",
        ),
    ],
)
def test_refused(block, template, problem):
    assert resolve(a_spec(**block), CHAT, template=template) == (problem,)


@pytest.mark.parametrize(
    "block",
    [
        pytest.param(an_engine("0.20.0"), id="the oldest version"),
        pytest.param(an_engine("0.32.0", "--seed=1"), id="a flag that no table names"),
        pytest.param(an_engine("0.26.0", "--calculate-kv-scales"), id="before it went"),
        pytest.param(an_engine("0.32.0", "--log-level", "debug"), id="once it came"),
        pytest.param(an_engine("0.23.0", "--load-format", "gguf"), id="before the format left"),
        pytest.param(an_engine("0.32.0", '--speculative-config={"method": "ngram"}'), id="JSON"),
        pytest.param(an_engine("0.32.0", "--speculative-config.method", "ngram"), id="one entry of JSON"),
        pytest.param(
            {"model": {"source": "hf://org/name", "quantization": "gguf"}, "engine": {"version": "0.23.0"}},
            id="before the quantization left",
        ),
        pytest.param(an_engine("0.28.0", "--load-format", "tensorizer"), id="a format that stayed"),
        pytest.param(an_engine("0.99.0"), id="newer than what is known"),
    ],
)
def test_accepted(block):
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
def test_warnings(version, reasons):
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
        pytest.param(0, [], id="it acts"),
        pytest.param(1, ["ScaleToZeroInactive"], id="a minimum keeps the last replica"),
    ],
)
def test_scale_to_zero_after_beside_a_minimum_gives_a_warning(least, reasons):
    given = warnings(a_spec(scaling={"minReplicas": least, "scaleToZeroAfter": "15m"}))
    assert [warning.reason for warning in given] == reasons


def test_the_warning_about_scale_to_zero_after_says_what_to_change():
    (warning,) = warnings(a_spec(scaling={"minReplicas": 2, "maxReplicas": 4, "scaleToZeroAfter": "15m"}))
    assert warning.message == (
        'spec.scaling.scaleToZeroAfter: "15m" does not act while minReplicas is 2; set minReplicas to 0, or remove '
        "scaleToZeroAfter."
    )
