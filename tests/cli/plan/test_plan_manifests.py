"""Random manifests: each is planned or refused with a message, and none ends in a traceback.

CI tries a few hundred; `FOREBAY_MANIFESTS=10000` tries that many.
"""

import copy
import json
import os
from typing import Any

from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from forebay.api.schema.manifest import ManifestError, read_service
from forebay.capacity.model.model_catalogue import gpus, models
from forebay.capacity.plan.cost import Prices
from forebay.capacity.plan.regions import read_regions
from forebay.capacity.plan.remedies import MODEL_ERROR
from forebay.capacity.plan.service_plan import PlanSettings, ServiceCapacityPlan, plan_service
from forebay.cli.plan.plan_json import document
from forebay.cli.plan.plan_markdown import comment
from forebay.cli.plan.plan_schedules import planned_schedules
from forebay.cli.plan.plan_table import report
from tests.builders.manifests import a_full_spec

EXAMPLES = int(os.environ.get("FOREBAY_MANIFESTS", "300"))
QUESTIONS = PlanSettings(prices=Prices("EUR", {"NVIDIA-L40S": 0.9}), regions=read_regions("a=2,b=1"))
METHODS = ["none", "fp8", "awq", "gptq", "bitsandbytes", "compressed-tensors", "modelopt_fp4"]


def sources() -> st.SearchStrategy[str]:
    known = st.sampled_from(
        [
            "hf://meta-llama/Llama-3.1-8B-Instruct",
            "hf://meta-llama/Llama-3.1-70B-Instruct",
            "hf://mistralai/Mixtral-8x7B-v0.1",
            "hf://deepseek-ai/DeepSeek-R1",
            "hf://google/gemma-2-9b-it",
            "hf://Qwen/Qwen2.5-7B-Instruct@main",
        ]
    )
    return st.one_of(known, known, known, st.sampled_from(["hf://a/b", "s3://bucket/weights", "pvc://claim"]))


def maybe(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=fields)


def numbers(most: int) -> st.SearchStrategy[int]:
    """Small numbers, and any up to the bound; another test goes beyond the bound."""
    return st.one_of(st.integers(1, min(most, 64)), st.integers(1, most))


SHAPES = maybe(
    parameters=st.one_of(st.integers(10**6, 10**14), numbers(10**12)),
    activeParameters=st.integers(10**6, 10**12),
    layers=numbers(1000),
    attentionHeads=numbers(10_000),
    kvHeads=numbers(10_000),
    headDim=numbers(65_536),
    hiddenSize=numbers(100_000),
    mla=st.fixed_dictionaries({"kvLoraRank": numbers(65_536), "ropeDim": numbers(65_536)}),
    slidingWindow=st.fixed_dictionaries({"size": numbers(10**7), "layers": numbers(1000)}),
    experts=st.fixed_dictionaries({"count": numbers(10_000), "active": numbers(10_000)}),
    weightBits=st.integers(2, 32),
    contextTokens=numbers(10**7),
)
SPECULATION = st.fixed_dictionaries(
    {"method": st.sampled_from(["ngram", "suffix", "draft_model", "eagle", "eagle3", "mtp"])},
    optional={
        "model": st.sampled_from(["hf://meta-llama/Llama-3.2-1B", "hf://a/head"]),
        "tokens": numbers(32),
        "acceptancePercent": st.integers(0, 100),
        "draftCostPercent": st.integers(0, 100),
    },
)
SPREADS = {
    "tensorParallelSize": st.sampled_from([1, 2, 4, 8, 16]),
    "pipelineParallelSize": st.integers(1, 16),
    "dataParallelSize": st.integers(1, 4),
    "gpuMemoryUtilizationPercent": st.integers(10, 99),
    "maxNumSeqs": numbers(16_384),
}
CARDS = st.sampled_from([*(gpu.product for gpu in gpus().values()), "NVIDIA-K80", "NVIDIA-L4-SHARED"])
SPANS = st.sampled_from(["1ms", "20ms", "40ms", "500ms", "2s", "1m", "10m"])


def _name(variant: Any) -> str:
    return str(variant["name"])


SPECS = st.fixed_dictionaries(
    {
        "model": st.fixed_dictionaries(
            {"source": sources()},
            optional={
                "architecture": st.one_of(st.just({}), SHAPES),
                "quantization": st.sampled_from(METHODS),
                "kvCacheDtype": st.sampled_from(["auto", "fp8"]),
                "maxModelLen": st.one_of(st.integers(1000, 20_000), numbers(10_000_000)),
            },
        ),
        "gpu": st.fixed_dictionaries({"product": CARDS}),
    },
    optional={
        "engine": maybe(
            **SPREADS,
            speculative=SPECULATION,
            extraArgs=st.sampled_from(
                [
                    [],
                    ["--enable-lora", "--max-loras=8", "--max_lora_rank", "256"],
                    ["--max-num-batched-tokens", "1"],
                    ["--max-num-batched-tokens=many"],
                    ["--enable-lora", "--max-loras"],
                ]
            ),
        ),
        "traffic": st.fixed_dictionaries(
            {
                "requestsPerMonth": st.one_of(st.integers(1, 10**8), numbers(10**12)),
                "promptTokens": st.one_of(st.integers(1, 4000), numbers(10**7)),
                "outputTokens": st.one_of(st.integers(1, 1000), numbers(10**7)),
            },
            optional={
                "peakFactor": st.one_of(st.floats(1, 10), st.floats(1, 1000)),
                "headroom": st.one_of(st.floats(1, 3), st.floats(1, 100)),
            },
        ),
        "slo": maybe(
            timeToFirstToken=maybe(p95=SPANS),
            interTokenLatency=maybe(mean=SPANS),
            endToEnd=st.fixed_dictionaries({"p95": SPANS}),
        ),
        "scaling": maybe(minReplicas=numbers(1000), maxReplicas=numbers(1000)),
        "warmPool": maybe(replicas=st.integers(0, 20)),
        "variants": st.lists(
            st.fixed_dictionaries(
                {"name": st.sampled_from(["one", "two", "three"])},
                optional={"gpu": maybe(product=CARDS), "engine": maybe(**SPREADS)},
            ),
            max_size=2,
            unique_by=_name,
        ),
    },
)


def a_manifest(spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "forebay.dev/v1alpha1",
        "kind": "InferenceService",
        "metadata": {"name": "chat", "namespace": "team-a"},
        "spec": spec,
    }


def judge(manifest: dict[str, Any]) -> ServiceCapacityPlan | None:
    """The plan of a manifest, written in every format; None for a manifest that is refused with a message."""
    try:
        service = read_service(manifest)
    except ManifestError as error:
        sentences = error.problems
    else:
        return written(plan_service("team-a", service.metadata.name, service.spec, QUESTIONS))
    assert sentences
    assert all(len(sentence) > 10 for sentence in sentences)
    return None


def written(plan: ServiceCapacityPlan) -> ServiceCapacityPlan:
    """The plan, after writing it in every format."""
    assert plan.plan is not None or plan.problems
    schedules = planned_schedules([plan], 0.0)
    text = json.dumps(document([plan], [], None, schedules), allow_nan=False)
    assert json.loads(text)["services"][0]["name"] == "chat"
    assert list(report([plan], None, schedules, napkin=True, details=True))
    assert list(comment([plan], [], None, schedules, napkin=True))
    return plan


def consistent(plan: ServiceCapacityPlan) -> None:
    """The invariants of every plan."""
    found = plan.plan
    if found is None or found.fleet is None or found.throughput is None or plan.demand is None:
        return
    fleet = found.fleet
    assert fleet.active >= 1
    assert fleet.active >= fleet.exact * (1 - 1e-6)
    assert fleet.gpus == fleet.total * found.replica.sizes.gpus
    assert 0 < found.throughput.capacity.usable <= 1
    assert 0 <= fleet.kv_fraction <= 1
    assert fleet.expected.first_token_p50 <= fleet.expected.first_token_p95
    if fleet.expected.inter_token_mean > found.plan_input.promise.inter_token_latency * MODEL_ERROR:
        assert "spec.slo.interTokenLatency.mean" in {problem.field for problem in found.problems}


@given(SPECS)
@settings(
    max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
def test_random_manifests(spec: dict[str, Any]):
    plan = judge(a_manifest(spec))
    if plan is None:
        event("refused by the schema")
        return
    event("unknown" if plan.unknown else "does not fit" if plan.problems else "fits")
    consistent(plan)


_JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(max_size=40),
    st.just([]),
    st.just({}),
    st.just([{}]),
)


def leaves(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of all nodes below the root."""
    if isinstance(value, dict):
        inner = [leaf for key, item in value.items() for leaf in leaves(item, (*path, key))]
    elif isinstance(value, list):
        inner = [leaf for position, item in enumerate(value) for leaf in leaves(item, (*path, position))]
    else:
        inner = []
    return [path, *inner] if path else inner


@given(path=st.sampled_from(leaves(a_manifest(a_full_spec()))), junk=_JUNK)
@settings(max_examples=EXAMPLES, deadline=None)
def test_a_full_manifest_with_one_value_broken(path: tuple[Any, ...], junk: Any):
    manifest = copy.deepcopy(a_manifest(a_full_spec()))
    node: Any = manifest
    for step in path[:-1]:
        node = node[step]
    node[path[-1]] = junk
    plan = judge(manifest)
    if plan is not None:
        consistent(plan)


def test_every_model_on_every_card():
    for name, model in models().items():
        for gpu in gpus().values():
            spec = {
                "model": {"source": "s3://bucket/weights", "architecture": _shape(model.architecture)},
                "gpu": {"product": gpu.product},
                "traffic": {"requestsPerMonth": 10**6, "promptTokens": 500, "outputTokens": 200},
            }
            plan = judge(a_manifest(spec))
            assert plan is not None, (name, gpu.name)
            consistent(plan)


def _shape(architecture: Any) -> dict[str, Any]:
    return {
        "parameters": architecture.parameters,
        "layers": architecture.layers,
        "attentionHeads": architecture.attention_heads,
        "kvHeads": architecture.kv_heads,
        "headDim": architecture.head_dim,
        "contextTokens": architecture.context_tokens,
    }
