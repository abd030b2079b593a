"""Engine versions: the default vLLM version and image, and the flags and formats that a version does not have.

vLLM exits on an unknown flag at start, after minutes of waiting for a GPU. So flags that are known to be removed, or
not added yet, are rejected before any pod exists. Flags in no table are passed on: the tables list changes, not vLLM's
whole command line.

The tables were compiled from the sources of vLLM 0.20 to 0.33. A change found in 0.N, where the version before was not
examined, is dated 0.N.
"""

import re
from dataclasses import dataclass
from typing import Final

from forebay.api.inference_service import EngineSpec

OLDEST: Final = (0, 20)
"""Oldest supported version. All later ones take the same command line; drains need `--shutdown-timeout`, which exists
since 0.18."""
NEWEST: Final = (0, 33)
"""Newest version whose command line was examined; later ones are treated alike, with a warning."""

_VERSION = re.compile(r"(\d+)\.(\d+)\.\d+")
_VLLM_IMAGE = re.compile(r"(?:^|/)[^/:@]*vllm[^/:@]*:v?(\d+\.\d+\.\d+)[^/:@]*(?:@[^/]+)?$")


@dataclass(frozen=True, slots=True)
class Defaults:
    """Values that the operator fills in. A new release may change these; running pods keep those of their revision."""

    engine_version: str = "0.32.0"
    image: str = "docker.io/vllm/vllm-openai:v{version}"
    """`{version}` stands for the engine's version."""
    gpu_memory_utilization_percent: int = 92
    """vLLM's own default since 0.20. It is set explicitly, so that the memory plan and the engine cannot differ."""

    def __post_init__(self) -> None:
        """Raises ValueError for an invalid version, which can only come from the operator's own flags."""
        minor(self.engine_version)


@dataclass(frozen=True, slots=True)
class ResolvedEngine:
    """One vLLM server with everything decided that the spec left open."""

    version: str
    image: str
    tensor_parallel_size: int
    pipeline_parallel_size: int
    data_parallel_size: int
    gpu_memory_utilization_percent: int
    nodes: int = 1
    """Pods of one replica; each has the same number of GPUs."""
    max_num_batched_tokens: int | None = None
    """Tokens that one step may compute; None for vLLM's own default."""

    @property
    def gpus(self) -> int:
        """GPUs of one replica."""
        return self.tensor_parallel_size * self.pipeline_parallel_size * self.data_parallel_size

    @property
    def gpus_per_pod(self) -> int:
        return self.gpus // self.nodes


@dataclass(frozen=True, slots=True)
class VersionChange:
    """A flag, or a value of a flag, that a version added or removed."""

    name: str
    version: tuple[int, int]
    way_out: str


REMOVED_FLAGS: Final = (
    VersionChange("--swap-space", (0, 18), "leave it out; vLLM recomputes preempted requests"),
    VersionChange(
        "--disable-log-requests", (0, 18), "leave it out; requests are logged only with --enable-log-requests"
    ),
    VersionChange("--num-scheduler-steps", (0, 10), "leave it out; scheduling is asynchronous by default"),
    VersionChange("--use-v2-block-manager", (0, 10), "leave it out"),
    VersionChange("--enable-reasoning", (0, 10), "use --reasoning-parser alone"),
    VersionChange("--preemption-mode", (0, 12), "leave it out; vLLM recomputes preempted requests"),
    VersionChange("--guided-decoding-backend", (0, 12), "use --structured-outputs-config"),
    VersionChange("--max-seq-len-to-capture", (0, 12), "use --compilation-config"),
    VersionChange("--rope-scaling", (0, 12), "use --hf-overrides"),
    VersionChange("--task", (0, 15), "use --runner"),
    VersionChange("--calculate-kv-scales", (0, 28), "use a checkpoint that carries KV scales"),
    VersionChange("--max-num-partial-prefills", (0, 28), "leave it out"),
)
ADDED_FLAGS: Final = (
    VersionChange("--spec-method", (0, 22), "use --speculative-config"),
    VersionChange("--spec-model", (0, 22), "use --speculative-config"),
    VersionChange("--spec-tokens", (0, 22), "use --speculative-config"),
    VersionChange("--data-parallel-multi-port-external-lb", (0, 22), "leave it out"),
    VersionChange("--enable-cumem-allocator", (0, 22), "leave it out"),
    VersionChange("--device-ids", (0, 24), "leave it out; the container sees its own GPUs only"),
    VersionChange("--max-num-queued-reqs", (0, 29), "leave it out"),
    VersionChange("--max-num-queued-tokens", (0, 29), "leave it out"),
    VersionChange("--custom-histogram-buckets", (0, 32), "leave it out"),
    VersionChange("--max-num-active-seqs", (0, 32), "set spec.engine.maxNumSeqs"),
    VersionChange("--log-level", (0, 32), "set VLLM_LOGGING_LEVEL in spec.engine.env"),
    VersionChange("--device-memory-utilization", (0, 32), "set spec.engine.gpuMemoryUtilizationPercent"),
)
REMOVED_FORMATS: Final = (
    VersionChange("gguf", (0, 24), "convert the checkpoint to safetensors, or use an image with the gguf plugin"),
    VersionChange("bitsandbytes", (0, 28), "use a checkpoint quantized with awq, gptq or fp8"),
)
"""Formats that vLLM removed from its core, both from `--quantization` and from `--load-format`."""

JSON_FLAGS: Final = frozenset(
    {
        "--speculative-config",
        "--compilation-config",
        "--kv-transfer-config",
        "--model-loader-extra-config",
        "--hf-overrides",
    }
)
"""Flags of all known versions that take JSON."""

ANY_MODEL_NAME_SINCE: Final = (0, 21)
"""First version with VLLM_SKIP_MODEL_NAME_VALIDATION, which lets an engine answer to the names of routes."""


def minor(version: str) -> tuple[int, int]:
    """Major and minor number of a version. Raises ValueError for a text that is not a version."""
    match = _VERSION.fullmatch(version)
    if match is None:
        raise ValueError(
            f'engine version: "{version}" is not a version of vLLM; write all three numbers, such as 0.32.0'
        )
    return int(match[1]), int(match[2])


def version_of_image(image: str) -> str | None:
    """The version in an image's tag, such as 0.29.0 for `registry/vllm:v0.29.0-cu129`; None when there is none.

    The tag of an image without vllm in its name is not a vLLM version.
    """
    match = _VLLM_IMAGE.search(image)
    return match[1] if match else None


def resolve_engine(spec: EngineSpec, defaults: Defaults) -> ResolvedEngine:
    """Decide what the spec leaves open.

    The version comes from the spec, else from the image's tag, else from the operator; the image follows the version.
    """
    version = spec.version or (spec.image and version_of_image(spec.image)) or defaults.engine_version
    return ResolvedEngine(
        version=version,
        image=spec.image or defaults.image.replace("{version}", version),
        tensor_parallel_size=spec.tensor_parallel_size or 1,
        pipeline_parallel_size=spec.pipeline_parallel_size or 1,
        data_parallel_size=spec.data_parallel_size or 1,
        nodes=spec.nodes,
        gpu_memory_utilization_percent=spec.gpu_memory_utilization_percent or defaults.gpu_memory_utilization_percent,
    )
