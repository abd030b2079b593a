"""What runs in a replica: the model, the engine that serves it, and the GPUs under it."""

import re
from typing import Annotated, Literal

from pydantic import Field

from forebay.api.duration import Duration, between
from forebay.api.schema.base_model import Model
from forebay.api.schema.bounded_types import Count, EnvName, LabelValue, ListMap, NodeLabels, ObjectName, none_of, text
from forebay.api.schema.validation_rules import Obeys, Rule, matches
from forebay.api.spec.architecture_spec import ArchitectureSpec
from forebay.api.spec.engine_flags import OWNED_ENV, OWNED_FLAGS, Owned, flag_pattern
from forebay.api.spec.speculative_spec import SpeculativeSpec

MOST_GPUS_PER_POD = 16
"""The largest single machines; what needs more is spread over several of them by engine.nodes."""
MOST_NODES = 16

Quantization = Literal[
    "none",
    "awq",
    "awq_marlin",
    "bitsandbytes",
    "compressed-tensors",
    "experts_int8",
    "fbgemm_fp8",
    "fp8",
    "gguf",
    "gptq",
    "gptq_marlin",
    "inc",
    "modelopt",
    "modelopt_fp4",
    "moe_wna16",
    "mxfp4",
    "quark",
    "torchao",
]
KvCacheDtype = Literal["auto", "fp8"]

_SOURCE = "|".join(
    (
        r"hf://[A-Za-z0-9][A-Za-z0-9_.-]*/[A-Za-z0-9][A-Za-z0-9_.-]*(@[A-Za-z0-9_./-]+)?",
        r"s3://[a-z0-9][a-z0-9.-]+(/[!-~]*)?",
        r"gs://[a-z0-9][a-z0-9._-]+(/[!-~]*)?",
        r"oci://[A-Za-z0-9][A-Za-z0-9_.:-]*(/[A-Za-z0-9_.:@-]+)+",
        r"pvc://[a-z0-9][a-z0-9.-]*(/[!-~]*)?",
    )
)
ModelSource = Annotated[
    str,
    Field(max_length=512),
    Obeys(
        text(
            _SOURCE,
            "is not a model source; write hf://organization/name, hf://organization/name@revision, s3://bucket/path, "
            "gs://bucket/path, oci://registry/repository:tag or pvc://claim/path",
        ),
        Rule(
            cel=r"!self.matches('/[.][.](/|$)')",
            message='"$self" climbs out of its folder; write the path without ".."',
            holds=lambda value: re.search(r"/\.\.(/|\Z)", value) is None,
        ),
    ),
]
EngineVersion = Annotated[
    str,
    Field(max_length=16),
    Obeys(text(r"[0-9]{1,4}\.[0-9]{1,4}\.[0-9]{1,4}", "is not a version of vLLM; write it as 0.32.0")),
]
ImageReference = Annotated[
    str,
    Field(max_length=512),
    Obeys(
        text(
            r"([A-Za-z0-9.-]+(:[0-9]+)?/)?[a-z0-9._/-]+(:[A-Za-z0-9_][A-Za-z0-9_.-]*)?(@sha256:[a-f0-9]{64})?",
            "is not an image reference; write registry/repository:tag",
        )
    ),
]


class SecretRef(Model):
    """A Secret in the service's own namespace."""

    name: ObjectName
    """Name of the Secret."""


class WeightCache(Model):
    """Where weights and compile caches are kept between pods; one of the two."""

    rules = (
        Rule["WeightCache"](
            cel="has(self.pvc) != has(self.nodePath)",
            message="a cache is in one place; set pvc or nodePath, and not both",
            holds=lambda cache: (cache.pvc is None) != (cache.node_path is None),
        ),
    )

    pvc: ObjectName | None = None
    """A PersistentVolumeClaim in the service's namespace."""
    node_path: (
        Annotated[
            str,
            Field(max_length=256),
            Obeys(
                text(
                    r"(/[A-Za-z0-9_-][A-Za-z0-9_.-]*)+", 'is not a folder; write an absolute path without ".." or "//"'
                )
            ),
        ]
        | None
    ) = None
    """An absolute directory on the node."""


class ModelSpec(Model):
    """Which weights to serve, where they come from, and in what precision."""

    rules = (
        Rule["ModelSpec"](
            cel="!(has(self.secretRef) && self.source.startsWith('pvc://'))",
            message='secretRef has no use with "$source", a claim that is mounted without credentials; remove it',
            holds=lambda model: model.secret_ref is None or not model.source.startswith("pvc://"),
            at="secretRef",
        ),
    )

    source: ModelSource
    """`hf://org/name[@revision]`, `s3://bucket/path`, `gs://bucket/path`, `oci://registry/repository:tag` or
    `pvc://claim/path`."""
    secret_ref: SecretRef | None = None
    """Credentials for the source. Keys by scheme: hf `HF_TOKEN`; s3 `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY`;
    gs `credentials.json`; oci a pull secret."""
    cache: WeightCache | None = None
    """Keeps weights and compile caches between pods, so that later pods start sooner. Absent: every pod loads anew."""
    architecture: ArchitectureSpec | None = None
    """The shape of the model, for the capacity plan. Absent: that of the built-in catalogue, by the source."""
    quantization: Quantization | None = None
    """How the weights are quantized. Absent: read from the checkpoint, which is right for nearly all."""
    kv_cache_dtype: KvCacheDtype | None = None
    """`fp8` halves the KV cache of every request. Absent: the engine's own choice."""
    max_model_len: Annotated[Count, Field(ge=1, le=10_000_000)] | None = None
    """Longest prompt and answer together, in tokens. Absent: what the checkpoint states."""


def _free_env(owned: Owned) -> Rule[str]:
    return none_of(owned.names, owned.instead)


def _free_flag(owned: Owned) -> Rule[str]:
    compiled = re.compile(flag_pattern(owned))
    return Rule(
        cel=f"!{matches(flag_pattern(owned))}",
        message=f'"$self" {owned.instead}',
        holds=lambda value: compiled.fullmatch(value) is None,
    )


class EnvVar(Model):
    """One environment variable of the engine, in plain text; secrets come through pod.envFrom or model.secretRef."""

    name: Annotated[EnvName, Obeys(*(_free_env(owned) for owned in OWNED_ENV))]
    """Name of the variable; those that Forebay sets are refused."""
    value: Annotated[str, Field(max_length=4096)] = ""
    """Its value."""


ExtraArgs = Annotated[
    tuple[Annotated[str, Field(max_length=2048), Obeys(*(_free_flag(owned) for owned in OWNED_FLAGS))], ...],
    Field(max_length=64),
    Obeys(
        Rule(
            cel="size(self) == 0 || self[0].startsWith('-')",
            message="the first argument is not a flag and would be read as the model; begin with a flag such as "
            "--enforce-eager",
            holds=lambda value: not value or value[0].startswith("-"),
        )
    ),
]


TensorParallelSize = Annotated[
    Count,
    Field(ge=1, le=MOST_GPUS_PER_POD),
    Obeys(
        Rule(
            cel="self in [1, 2, 4, 8, 16]",
            message="$self does not divide the attention heads of common models and strands GPUs of a node; "
            "use 1, 2, 4, 8 or 16",
            holds=lambda value: value in (1, 2, 4, 8, 16),
        )
    ),
]


class EngineSpec(Model):
    """How vLLM is run."""

    rules = (
        Rule["EngineSpec"](
            cel="$tensorParallelSize:1 * $pipelineParallelSize:1 * $dataParallelSize:1"
            f" <= {MOST_GPUS_PER_POD} * $nodes",
            message="tensorParallelSize $tensorParallelSize:1 × pipelineParallelSize $pipelineParallelSize:1 × "
            f"dataParallelSize $dataParallelSize:1 is more than {MOST_GPUS_PER_POD} GPUs in each of $nodes pods; lower "
            "one of them or raise nodes",
            holds=lambda engine: engine.gpus <= MOST_GPUS_PER_POD * engine.nodes,
        ),
        Rule["EngineSpec"](
            cel="$nodes == 1 || has(self.tensorParallelSize)"
            " && $tensorParallelSize:1 * $pipelineParallelSize:1 % $nodes == 0",
            message="tensorParallelSize $tensorParallelSize:1 × pipelineParallelSize $pipelineParallelSize:1 cannot be "
            "spread evenly over nodes $nodes; set tensorParallelSize to the GPUs of one node and pipelineParallelSize "
            "to the number of nodes",
            holds=lambda engine: (
                engine.nodes == 1
                or (
                    engine.tensor_parallel_size is not None
                    and engine.tensor_parallel_size * (engine.pipeline_parallel_size or 1) % engine.nodes == 0
                )
            ),
            at="nodes",
        ),
        Rule["EngineSpec"](
            cel="$nodes == 1 || $dataParallelSize:1 == 1",
            message="dataParallelSize $dataParallelSize:1 makes whole copies of the model, which need no nodes $nodes; "
            "leave it out and raise the number of replicas instead",
            holds=lambda engine: engine.nodes == 1 or (engine.data_parallel_size or 1) == 1,
            at="dataParallelSize",
        ),
        Rule["EngineSpec"](
            cel="!(has(self.speculative) && has(self.extraArgs))"
            " || !self.extraArgs.exists(arg, arg.startsWith('--spec'))",
            message="speculative and a --spec… flag in extraArgs both set up speculative decoding; keep one of them",
            holds=lambda engine: (
                engine.speculative is None or not any(arg.startswith("--spec") for arg in engine.extra_args)
            ),
            at="speculative",
        ),
    )

    image: ImageReference | None = None
    """Container image that answers to `vllm serve`. Absent: the image of the version."""
    version: EngineVersion | None = None
    """vLLM version, such as 0.32.0: decides flags and metric names. Absent: that of the image's tag, else the
    operator's default."""
    tensor_parallel_size: TensorParallelSize | None = None
    """GPUs over which each layer is split. Absent: the smallest number that fits, where the capacity plan knows model
    and GPU; else 1."""
    pipeline_parallel_size: Annotated[Count, Field(ge=1, le=MOST_GPUS_PER_POD)] | None = None
    """Stages into which the layers are split, each on GPUs of its own. Absent: 1, or what the plan needs when
    tensorParallelSize is absent too."""
    data_parallel_size: Annotated[Count, Field(ge=1, le=MOST_GPUS_PER_POD)] | None = None
    """Whole copies of the model in one pod, each on GPUs of its own. Absent: 1."""
    nodes: Annotated[Count, Field(ge=1, le=MOST_NODES)] = 1
    """Nodes over which one replica is spread: one pod on each, with an equal share of tensorParallelSize ×
    pipelineParallelSize GPUs. Above 1, tensorParallelSize has to be given, and nodes has to divide the product."""
    gpu_memory_utilization_percent: Annotated[Count, Field(ge=10, le=99)] | None = None
    """Share of each GPU's memory that the engine takes. Absent: 92."""
    max_num_seqs: Annotated[Count, Field(ge=1, le=16_384)] = 256
    """Most sequences decoded at once by one engine; what is above waits in the queue that scaling watches."""
    speculative: SpeculativeSpec | None = None
    """Speculative decoding. Absent: none."""
    startup_timeout: Annotated[Duration, between("1s", "6h")] = Duration("20m")
    """How long a pod may take from its start to its first completion before it counts as failed."""
    extra_args: ExtraArgs = ()
    """More arguments for `vllm serve`, one per item, passed on as they are; flags that Forebay sets are refused."""
    env: Annotated[tuple[EnvVar, ...], Field(max_length=64), ListMap("name")] = ()
    """More environment variables for the engine."""

    @property
    def gpus(self) -> int:
        """Of one replica, where sizes that are left open are 1."""
        return (self.tensor_parallel_size or 1) * (self.pipeline_parallel_size or 1) * (self.data_parallel_size or 1)


class GpuSpec(Model):
    """Which GPUs. How many each pod gets follows from the parallel sizes."""

    rules = (
        Rule["GpuSpec"](
            cel="!has(self.product) || !has(self.nodeSelector)",
            message='product "$product" and nodeSelector both choose the nodes; keep one, and when both are '
            "needed put nvidia.com/gpu.product into nodeSelector",
            holds=lambda gpu: gpu.product is None or gpu.node_selector is None,
            at="nodeSelector",
        ),
    )

    product: LabelValue | None = None
    """Value of the node label `nvidia.com/gpu.product`, such as NVIDIA-H100-80GB-HBM3."""
    node_selector: NodeLabels | None = None
    """Labels of the nodes to use, where the product does not say enough."""
    resource_name: Annotated[
        str,
        Field(max_length=128),
        Obeys(
            text(
                r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?",
                "is not an extended resource; write domain/name, such as nvidia.com/gpu",
            )
        ),
    ] = "nvidia.com/gpu"
    """What a pod asks for: the extended resource of the device plugin."""
