"""What Forebay sets on an engine itself: the flags and the environment that a user's extras may not touch.

The API server refuses them in `extraArgs` and `env`; `workloads` renders them. One list, so that neither can drift.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Owned:
    """Names that mean the same thing, and what to write instead of them."""

    names: tuple[str, ...]
    instead: str
    """The rest of a sentence that begins with the name: why it is taken, and the way out."""


OWNED_FLAGS = (
    Owned(("--model", "--revision", "--code-revision"), "names the model; set model.source"),
    Owned(("--served-model-name",), "is set by Forebay to the name clients send; remove it"),
    Owned(("--tensor-parallel-size", "-tp"), "has a field; set engine.tensorParallelSize"),
    Owned(("--pipeline-parallel-size", "-pp"), "has a field; set engine.pipelineParallelSize"),
    Owned(
        ("--data-parallel-size", "-dp", "--data-parallel-size-local", "-dpl"),
        "has a field; set engine.dataParallelSize",
    ),
    Owned(
        ("--nnodes", "-n", "--node-rank", "-r", "--master-addr", "--master-port", "--headless"),
        "places ranks, which Forebay does; remove it",
    ),
    Owned(
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
        "places ranks, which Forebay does; remove it",
    ),
    Owned(("--max-model-len",), "has a field; set model.maxModelLen"),
    Owned(("--quantization", "-q"), "has a field; set model.quantization"),
    Owned(("--kv-cache-dtype",), "has a field; set model.kvCacheDtype"),
    Owned(("--gpu-memory-utilization",), "has a field; set engine.gpuMemoryUtilizationPercent"),
    Owned(("--max-num-seqs",), "has a field; set engine.maxNumSeqs"),
    Owned(
        ("--shutdown-timeout",),
        "decides whether streams survive a drain and follows rollout.drainTimeout; set that",
    ),
    Owned(
        ("--host", "--port", "--uds", "--root-path"),
        "would move the engine away from its probes and its Service; remove it",
    ),
    Owned(
        ("--ssl-keyfile", "--ssl-certfile", "--ssl-ca-certs", "--ssl-cert-reqs"),
        "would hide the engine from probes and metrics, which use plain HTTP; end TLS in front of the Service",
    ),
    Owned(("--api-key",), "would shut out the startup probe; check keys in front of the Service"),
    Owned(("--disable-log-stats",), "would silence the metrics that scaling reads; remove it"),
    Owned(("--config",), "reads flags from a file, past these checks; write them in extraArgs"),
    Owned(("--download-dir",), "has a field; set model.cache"),
)

OWNED_ENV = (
    Owned(("HF_HOME", "HF_HUB_CACHE", "VLLM_CACHE_ROOT"), "is where Forebay keeps weights and caches; set model.cache"),
    Owned(
        ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"),
        "is a credential, and manifests are read by many; put it in a Secret and set model.secretRef",
    ),
    Owned(
        ("GOOGLE_APPLICATION_CREDENTIALS",),
        "points at a file that Forebay mounts; put its content in a Secret and set model.secretRef",
    ),
    Owned(
        ("VLLM_PORT", "VLLM_HOST_IP"),
        "would move the engine away from its probes and its Service; remove it",
    ),
    Owned(("VLLM_API_KEY",), "would shut out the startup probe; check keys in front of the Service"),
    Owned(
        ("VLLM_NO_USAGE_STATS", "VLLM_SKIP_MODEL_NAME_VALIDATION", "PROMETHEUS_MULTIPROC_DIR"),
        "is set by Forebay; remove it",
    ),
    Owned(("VLLM_ENGINE_READY_TIMEOUT_S",), "has a field; set engine.startupTimeout"),
    Owned(
        ("VLLM_SERVER_DEV_MODE",),
        "opens endpoints that run code in the engine; remove it",
    ),
    Owned(
        ("NVIDIA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"),
        "would take GPUs that were given to other pods; remove it",
    ),
)


def flag_pattern(owned: Owned) -> str:
    """A pattern for an argument that is one of these flags, however vLLM lets it be written.

    vLLM reads `--max_num_seqs` as `--max-num-seqs`, and `-q` takes its value without a space.
    """
    spellings = ["--" + name[2:].replace("-", "[-_]") for name in owned.names if name.startswith("--")]
    spellings += [name for name in owned.names if not name.startswith("--") and len(name) > 2]
    attached = [name for name in owned.names if len(name) == 2]
    patterns = [f"({'|'.join(spellings)})(=.*)?"] if spellings else []
    patterns += [f"{name}([^-].*)?" for name in attached]
    return "|".join(patterns)
