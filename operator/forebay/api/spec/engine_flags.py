"""Flags and environment variables of the engine that Forebay sets itself, so that users may not set them.

The API server refuses them in `extraArgs` and `env`. A test compares this list with the flags and variables that
`workloads` renders.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ReservedNames:
    """Reserved names of one meaning, and what to write instead of them."""

    names: tuple[str, ...]
    instead: str
    """The rest of a sentence that begins with the name: why it is reserved, and the remedy."""


RESERVED_FLAGS = (
    ReservedNames(("--model", "--revision", "--code-revision"), "names the model; set model.source"),
    ReservedNames(("--served-model-name",), "is set by Forebay to the name clients send; remove it"),
    ReservedNames(("--tensor-parallel-size", "-tp"), "has a field; set engine.tensorParallelSize"),
    ReservedNames(("--pipeline-parallel-size", "-pp"), "has a field; set engine.pipelineParallelSize"),
    ReservedNames(
        ("--data-parallel-size", "-dp", "--data-parallel-size-local", "-dpl"),
        "has a field; set engine.dataParallelSize",
    ),
    ReservedNames(
        ("--nnodes", "-n", "--node-rank", "-r", "--master-addr", "--master-port", "--headless"),
        "is set by Forebay, which places the ranks; remove it",
    ),
    ReservedNames(
        (
            "--data-parallel-rank",
            "-dpn",
            "--data-parallel-start-rank",
            "-dpr",
            "--data-parallel-address",
            "-dpa",
            "--data-parallel-rpc-port",
            "-dpp",
            "--data-parallel-backend",
            "-dpb",
            "--data-parallel-hybrid-lb",
            "-dph",
            "--data-parallel-external-lb",
            "-dpe",
        ),
        "is set by Forebay, which places the ranks; remove it",
    ),
    ReservedNames(("--max-model-len",), "has a field; set model.maxModelLen"),
    ReservedNames(("--quantization", "-q"), "has a field; set model.quantization"),
    ReservedNames(("--kv-cache-dtype",), "has a field; set model.kvCacheDtype"),
    ReservedNames(("--gpu-memory-utilization",), "has a field; set engine.gpuMemoryUtilizationPercent"),
    ReservedNames(("--max-num-seqs",), "has a field; set engine.maxNumSeqs"),
    ReservedNames(
        ("--shutdown-timeout",),
        "follows rollout.drainTimeout, so that streams survive a drain; set rollout.drainTimeout",
    ),
    ReservedNames(
        ("--host", "--port", "--uds", "--root-path"),
        "would change the address that probes and the Service use; remove it",
    ),
    ReservedNames(
        ("--ssl-keyfile", "--ssl-certfile", "--ssl-ca-certs", "--ssl-cert-reqs"),
        "would break probes and metric scrapes, which use plain HTTP; terminate TLS in front of the Service",
    ),
    ReservedNames(("--api-key",), "would make the startup probe fail; check API keys in front of the Service"),
    ReservedNames(("--disable-log-stats",), "would turn off the metrics that scaling reads; remove it"),
    ReservedNames(("--config",), "reads flags from a file that Forebay cannot check; write them in extraArgs"),
    ReservedNames(("--download-dir",), "has a field; set model.cache"),
)

RESERVED_ENV = (
    ReservedNames(
        ("HF_HOME", "HF_HUB_CACHE", "VLLM_CACHE_ROOT"), "is where Forebay keeps weights and caches; set model.cache"
    ),
    ReservedNames(
        ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"),
        "is a credential and does not belong in a manifest; put it in a Secret and set model.secretRef",
    ),
    ReservedNames(
        ("GOOGLE_APPLICATION_CREDENTIALS",),
        "points at a file that Forebay mounts; put its content in a Secret and set model.secretRef",
    ),
    ReservedNames(
        ("VLLM_PORT", "VLLM_HOST_IP"),
        "would change the address that probes and the Service use; remove it",
    ),
    ReservedNames(("VLLM_API_KEY",), "would make the startup probe fail; check API keys in front of the Service"),
    ReservedNames(
        ("VLLM_NO_USAGE_STATS", "VLLM_SKIP_MODEL_NAME_VALIDATION", "PROMETHEUS_MULTIPROC_DIR"),
        "is set by Forebay; remove it",
    ),
    ReservedNames(("VLLM_ENGINE_READY_TIMEOUT_S",), "has a field; set engine.startupTimeout"),
    ReservedNames(
        ("VLLM_SERVER_DEV_MODE",),
        "opens endpoints that run code in the engine; remove it",
    ),
    ReservedNames(
        ("NVIDIA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"),
        "would use GPUs that belong to other pods; remove it",
    ),
)


def flag_pattern(reserved: ReservedNames) -> str:
    """A pattern that matches every spelling of these flags that vLLM accepts.

    vLLM reads `--max_num_seqs` as `--max-num-seqs`, and `-q` takes its value without a space.
    """
    spellings = ["--" + name[2:].replace("-", "[-_]") for name in reserved.names if name.startswith("--")]
    spellings += [name for name in reserved.names if not name.startswith("--") and len(name) > 2]
    attached = [name for name in reserved.names if len(name) == 2]
    patterns = [f"({'|'.join(spellings)})(=.*)?"] if spellings else []
    patterns += [f"{name}([^-].*)?" for name in attached]
    return "|".join(patterns)
