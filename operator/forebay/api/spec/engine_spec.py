"""The spec of a replica: the model, the engine that serves it, and its GPUs."""

import re
from typing import Annotated, Literal

from pydantic import Field

from forebay.api.duration import Duration, between
from forebay.api.schema.base_model import Model
from forebay.api.schema.bounded_types import Count, EnvName, LabelValue, ListMap, NodeLabels, ObjectName, none_of, text
from forebay.api.schema.validation_rules import CheckedBy, Rule, matches
from forebay.api.spec.architecture_spec import ArchitectureSpec
from forebay.api.spec.engine_flags import RESERVED_ENV, RESERVED_FLAGS, ReservedNames, flag_pattern
from forebay.api.spec.speculative_spec import SpeculativeSpec

MOST_GPUS_PER_POD = 16
"""GPUs of the largest machines; engine.nodes spreads a larger replica over several of them."""
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
    CheckedBy(
        text(
            _SOURCE,
            "is not a model source; write hf://organization/name, hf://organization/name@revision, s3://bucket/path, "
            "gs://bucket/path, oci://registry/repository:tag or pvc://claim/path",
        ),
        Rule(
            cel=r"!self.matches('/[.][.](/|$)')",
            message='"$self" leaves its bucket or volume; write the path without ".."',
            holds=lambda value: re.search(r"/\.\.(/|\Z)", value) is None,
        ),
    ),
]
EngineVersion = Annotated[
    str,
    Field(max_length=16),
    CheckedBy(text(r"[0-9]{1,4}\.[0-9]{1,4}\.[0-9]{1,4}", "is not a version of vLLM; write it as 0.32.0")),
]
ImageReference = Annotated[
    str,
    Field(max_length=512),
    CheckedBy(
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
    """Where weights and compile caches are kept between pods: on a claim or on the node."""

    rules = (
        Rule["WeightCache"](
            cel="has(self.pvc) != has(self.nodePath)",
            message="a cache needs exactly one of pvc and nodePath; set one of them",
            holds=lambda cache: (cache.pvc is None) != (cache.node_path is None),
        ),
    )

    pvc: ObjectName | None = None
    """A PersistentVolumeClaim in the service's namespace."""
    node_path: (
        Annotated[
            str,
            Field(max_length=256),
            CheckedBy(
                text(
                    r"(/[A-Za-z0-9_-][A-Za-z0-9_.-]*)+", 'is not a folder; write an absolute path without ".." or "//"'
                )
            ),
        ]
        | None
    ) = None
    """An absolute directory on the node."""


class ModelSpec(Model):
    """The weights to serve, their source and their precision."""

    rules = (
        Rule["ModelSpec"](
            cel="!(has(self.secretRef) && self.source.startsWith('pvc://'))",
            message='secretRef has no effect with "$source": a claim is mounted without credentials; remove it',
            holds=lambda model: model.secret_ref is None or not model.source.startswith("pvc://"),
            at="secretRef",
        ),
    )

    source: ModelSource
    """Where the weights come from: `hf://org/name[@revision]`, `s3://bucket/path`, `gs://bucket/path`,
    `oci://registry/repository:tag` or `pvc://claim/path`."""
    secret_ref: SecretRef | None = None
    """Credentials for the source. Keys by scheme: hf `HF_TOKEN`; s3 `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY`;
    gs `credentials.json`; oci a pull secret."""
    cache: WeightCache | None = None
    """Keeps weights and compile caches between pods, so that later pods start sooner. Absent: every pod downloads the
    weights again."""
    architecture: ArchitectureSpec | None = None
    """The shape of the model, for the capacity plan. Absent: the catalogue's entry for the source."""
    quantization: Quantization | None = None
    """How the weights are quantized. Absent: the engine reads it from the checkpoint, which is right for nearly all."""
    kv_cache_dtype: KvCacheDtype | None = None
    """Precision of the KV cache; `fp8` halves the cache of every request. Absent: the engine's own choice."""
    max_model_len: Annotated[Count, Field(ge=1, le=10_000_000)] | None = None
    """Most tokens of a request, prompt and output together. Absent: the limit in the checkpoint."""


def _not_reserved_env(reserved: ReservedNames) -> Rule[str]:
    return none_of(reserved.names, reserved.instead)


def _not_reserved_flag(reserved: ReservedNames) -> Rule[str]:
    compiled = re.compile(flag_pattern(reserved))
    return Rule(
        cel=f"!{matches(flag_pattern(reserved))}",
        message=f'"$self" {reserved.instead}',
        holds=lambda value: compiled.fullmatch(value) is None,
    )


class EnvVar(Model):
    """One environment variable of the engine, in plain text; secrets come through pod.envFrom or model.secretRef."""

    name: Annotated[EnvName, CheckedBy(*(_not_reserved_env(reserved) for reserved in RESERVED_ENV))]
    """Name of the variable; names that Forebay sets are refused."""
    value: Annotated[str, Field(max_length=4096)] = ""
    """Value of the variable."""


ExtraArgs = Annotated[
    tuple[
        Annotated[
            str, Field(max_length=2048), CheckedBy(*(_not_reserved_flag(reserved) for reserved in RESERVED_FLAGS))
        ],
        ...,
    ],
    Field(max_length=64),
    CheckedBy(
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
    CheckedBy(
        Rule(
            cel="self in [1, 2, 4, 8, 16]",
            message="$self does not divide the attention heads of common models and leaves GPUs of a node idle; "
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
            message="dataParallelSize $dataParallelSize:1 cannot be combined with nodes $nodes; leave it out and raise "
            "the number of replicas instead",
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
    """Container image that provides `vllm serve`. Absent: the image of the version."""
    version: EngineVersion | None = None
    """vLLM version, such as 0.32.0, which determines flags and metric names. Absent: the version in the image's tag,
    else the operator's default."""
    tensor_parallel_size: TensorParallelSize | None = None
    """GPUs over which each layer is split. Absent: the smallest number that fits if the capacity plan knows the model
    and the GPU, else 1."""
    pipeline_parallel_size: Annotated[Count, Field(ge=1, le=MOST_GPUS_PER_POD)] | None = None
    """Stages into which the layers are split, each on GPUs of its own. Absent: 1, or as many as the plan needs if
    tensorParallelSize is absent too."""
    data_parallel_size: Annotated[Count, Field(ge=1, le=MOST_GPUS_PER_POD)] | None = None
    """Whole copies of the model in one pod, each on GPUs of its own. Absent: 1."""
    nodes: Annotated[Count, Field(ge=1, le=MOST_NODES)] = 1
    """Nodes over which one replica is spread: one pod on each, with an equal share of tensorParallelSize ×
    pipelineParallelSize GPUs. Above 1, tensorParallelSize is required, and nodes must divide the product."""
    gpu_memory_utilization_percent: Annotated[Count, Field(ge=10, le=99)] | None = None
    """Share of each GPU's memory that the engine uses. Absent: 92."""
    max_num_seqs: Annotated[Count, Field(ge=1, le=16_384)] = 256
    """Sequences that one engine decodes at once, at most. Further requests wait in the queue that scaling reads."""
    speculative: SpeculativeSpec | None = None
    """Speculative decoding. Absent: none."""
    startup_timeout: Annotated[Duration, between("1s", "6h")] = Duration("20m")
    """Time from a pod's start to its first completion, after which the pod counts as failed."""
    extra_args: ExtraArgs = ()
    """More arguments for `vllm serve`, one per item, passed on unchanged; flags that Forebay sets are refused."""
    env: Annotated[tuple[EnvVar, ...], Field(max_length=64), ListMap("name")] = ()
    """More environment variables for the engine."""

    @property
    def gpus(self) -> int:
        """GPUs of one replica; absent sizes count as 1."""
        return (self.tensor_parallel_size or 1) * (self.pipeline_parallel_size or 1) * (self.data_parallel_size or 1)


class GpuSpec(Model):
    """The GPUs to use. The parallel sizes determine how many each pod gets."""

    rules = (
        Rule["GpuSpec"](
            cel="!has(self.product) || !has(self.nodeSelector)",
            message='product "$product" and nodeSelector both choose the nodes; keep one, or put '
            "nvidia.com/gpu.product into nodeSelector if both are needed",
            holds=lambda gpu: gpu.product is None or gpu.node_selector is None,
            at="nodeSelector",
        ),
    )

    product: LabelValue | None = None
    """Value of the node label `nvidia.com/gpu.product`, such as NVIDIA-H100-80GB-HBM3."""
    node_selector: NodeLabels | None = None
    """Labels of the nodes to use, if the product alone does not select them."""
    resource_name: Annotated[
        str,
        Field(max_length=128),
        CheckedBy(
            text(
                r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?",
                "is not an extended resource; write domain/name, such as nvidia.com/gpu",
            )
        ),
    ] = "nvidia.com/gpu"
    """Extended resource of the device plugin that pods request."""
