"""Engine arguments: the command line and the environment of one vLLM server.

Every flag rendered here is listed in `api.spec.engine_flags`, so `engine.extraArgs` cannot repeat it, with four
exceptions. `--load-format`, `--max-num-batched-tokens` and `--distributed-executor-backend` are left out if the user
gives them, and `--speculative-config` is rejected only together with `engine.speculative`.
"""

from typing import Any, Final

from forebay.api.inference_service import InferenceServiceSpec
from forebay.api.spec.pod_paths import CACHE, TEMPORARY
from forebay.workloads.canonical_json import canonical_json
from forebay.workloads.objects.ranks import OWN_ADDRESS, shared_arguments
from forebay.workloads.spec.engine_versions import ResolvedEngine
from forebay.workloads.spec.lifetimes import drain_seconds, startup_seconds
from forebay.workloads.spec.model_source import SourceParts
from forebay.world.world import ServiceKey

PORT: Final = 8000
COMMAND: Final = ("vllm", "serve")


def engine_arguments(
    spec: InferenceServiceSpec, key: ServiceKey, engine: ResolvedEngine, source: SourceParts
) -> list[str]:
    """Arguments of `vllm serve`; the user's extra arguments come last."""
    extra = spec.engine.extra_args
    return [
        source.model,
        *_unless_given(source.arguments, extra),
        f"--served-model-name={public_name(key)}",
        "--host=0.0.0.0",
        f"--port={PORT}",
        *_parallel_sizes(engine),
        *_unless_given(tuple(shared_arguments(engine)), extra),
        *_model_flags(spec),
        f"--gpu-memory-utilization={engine.gpu_memory_utilization_percent / 100:.2f}",
        f"--max-num-seqs={spec.engine.max_num_seqs}",
        *_unless_given(_step_flags(engine), extra),
        *_speculative_flags(spec),
        f"--shutdown-timeout={drain_seconds(spec)}",
        *extra,
    ]


def public_name(key: ServiceKey) -> str:
    """Model name that clients use without a ModelRoute. It has the namespace, so no team can take another's traffic."""
    return f"{key.namespace}/{key.name}"


def engine_environment(spec: InferenceServiceSpec, engine: ResolvedEngine, source: SourceParts) -> list[dict[str, Any]]:
    """Forebay's variables, then the source's credentials, then the user's. A later value of a name replaces an earlier
    one."""
    ours = {
        "HOME": TEMPORARY,
        "USER": "forebay",  # torch asks for a user name, and the image knows none for our uid
        "HF_HOME": f"{CACHE}/huggingface",
        "VLLM_CACHE_ROOT": f"{CACHE}/vllm",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_SKIP_MODEL_NAME_VALIDATION": "1",
        "VLLM_ENGINE_READY_TIMEOUT_S": str(startup_seconds(spec)),
    }
    variables: list[dict[str, Any]] = [{"name": name, "value": value} for name, value in ours.items()]
    variables.extend([dict(OWN_ADDRESS)] if engine.nodes > 1 else [])
    variables.extend(source.env)
    variables.extend({"name": variable.name, "value": variable.value} for variable in spec.engine.env)
    by_name = {variable["name"]: variable for variable in variables}
    return list(by_name.values())


def flag_name(argument: str) -> str | None:
    """The flag that an argument sets, as vLLM spells it; None for a value.

    vLLM reads `--a_b` as `--a-b`, and `--a.key value` as one entry of the JSON given to `--a`.
    """
    if not argument.startswith("-") or argument.lstrip("-")[:1].isdigit():
        return None
    name = argument.partition("=")[0]
    if name.startswith("--"):
        return "--" + name[2:].partition(".")[0].rstrip("+").replace("_", "-")
    return name


def _parallel_sizes(engine: ResolvedEngine) -> list[str]:
    flags = [f"--tensor-parallel-size={engine.tensor_parallel_size}"]
    if engine.pipeline_parallel_size > 1:
        flags.append(f"--pipeline-parallel-size={engine.pipeline_parallel_size}")
    if engine.data_parallel_size > 1:
        flags.append(f"--data-parallel-size={engine.data_parallel_size}")
    return flags


def _model_flags(spec: InferenceServiceSpec) -> list[str]:
    """Flags that the spec sets. The others are left to the checkpoint and vLLM: most quantized checkpoints name their
    method."""
    flags = []
    if spec.model.max_model_len is not None:
        flags.append(f"--max-model-len={spec.model.max_model_len}")
    if spec.model.quantization not in (None, "none"):
        flags.append(f"--quantization={spec.model.quantization}")
    if spec.model.kv_cache_dtype is not None:
        flags.append(f"--kv-cache-dtype={spec.model.kv_cache_dtype}")
    return flags


def _step_flags(engine: ResolvedEngine) -> tuple[str, ...]:
    if engine.max_num_batched_tokens is None:
        return ()
    return (f"--max-num-batched-tokens={engine.max_num_batched_tokens}",)


def _speculative_flags(spec: InferenceServiceSpec) -> list[str]:
    speculative = spec.engine.speculative
    if speculative is None:
        return []
    config: dict[str, str | int] = {"method": speculative.method, "num_speculative_tokens": speculative.tokens}
    if speculative.model is not None:
        config["model"] = speculative.model.removeprefix("hf://")
    return [f"--speculative-config={canonical_json(config)}"]


def _unless_given(arguments: tuple[str, ...], extra: tuple[str, ...]) -> list[str]:
    given = {flag_name(argument) for argument in extra}
    return [argument for argument in arguments if flag_name(argument) not in given]
