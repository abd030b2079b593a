"""The command line of `vllm serve`, as strict as vLLM's own: an unknown flag ends the process with status 2.

Flags that change the simulated engine are read. The others are checked but have no effect, since the profile already
states how fast the model runs and how many tokens its KV cache holds.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, NoReturn

from forebay.simulation.engine.replica_engine import EngineLimits
from forebay.simulation.engine.simulated_profile import EngineProfile

DEFAULT_BATCHED_TOKENS: Final = 8192
DEFAULT_SEQUENCES: Final = 1024
"""vLLM's defaults on GPUs of 70 GiB and more, except the A100."""
LONGEST_DEFAULT_CONTEXT: Final = 131_072

_SCALES: Final = {"k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


@dataclass(frozen=True, slots=True)
class ServeArguments:
    """The arguments that change the simulated server."""

    model: str
    served_model_names: tuple[str, ...]
    host: str
    port: int
    api_keys: tuple[str, ...]
    max_model_len: int | None
    max_num_seqs: int
    max_num_batched_tokens: int
    block_size: int
    block_size_given: bool
    kv_blocks: int | None
    kv_cache_dtype: str
    kv_cache_memory_bytes: int | None
    gpu_memory_utilization: float
    enable_prefix_caching: bool
    data_parallel_size: int
    shutdown_timeout: float
    max_queued_requests: int | None
    max_queued_tokens: int | None
    track_load: bool
    force_usage: bool
    headless: bool

    def limits(self, profile: EngineProfile) -> EngineLimits:
        """The scheduler settings of one engine.

        Raises ValueError, as vLLM does, if the KV cache is too small for the longest request.
        """
        blocks = self.kv_blocks or profile.kv_tokens // self.block_size
        available = (blocks - 1) * self.block_size
        context = min(LONGEST_DEFAULT_CONTEXT, available) if self.max_model_len is None else self.max_model_len
        if context > available:
            raise ValueError(
                f"To serve at least one request with the model's max seq len ({context}), {context} tokens of KV cache "
                f"are needed, which is more than the available {available}. Try increasing `gpu_memory_utilization` or "
                "decreasing `max_model_len` when initializing the engine."
            )
        return EngineLimits(
            max_num_seqs=self.max_num_seqs,
            max_num_batched_tokens=self.max_num_batched_tokens,
            block_size=self.block_size,
            kv_blocks=blocks,
            max_model_len=context,
        )


def _tokens(text: str) -> int:
    """Parse a whole number, which may be written 16k (thousands) or 16K (multiples of 1,024)."""
    scale = _SCALES.get(text[-1:], 1)
    number = text[:-1] if scale > 1 else text
    return int(float(number) * scale) if scale > 1 else int(number)


_tokens.__name__ = "human_readable_int"


def _context(text: str) -> int:
    return -1 if text == "auto" else _tokens(text)


def _json_object(text: str) -> dict[str, Any]:
    value = json.loads(text)
    if not isinstance(value, dict):
        raise ValueError(text)
    return value


_json_object.__name__ = "json"

_INTEGER_FLAGS: Final = (
    *("api-server-count", "data-parallel-rank", "data-parallel-rpc-port", "data-parallel-size-local"),
    *("data-parallel-start-rank", "max-cpu-loras", "max-logprobs", "max-lora-rank", "max-loras", "max-num-active-seqs"),
    *("max-parallel-loading-workers", "master-port", "nnodes", "node-rank", "num-gpu-blocks-override"),
    *("optimization-level", "seed", "spec-tokens", "stream-interval"),
)
_TEXT_FLAGS: Final = (
    *("allowed-origins", "chat-template", "code-revision", "config-format", "data-parallel-address"),
    *("data-parallel-backend", "distributed-executor-backend", "dtype", "generation-config"),
    *(
        "hf-config-path",
        "hf-token",
        "ignore-patterns",
        "log-level",
        "logits-processors",
        "master-addr",
        "mm-encoder-tp",
    ),
    *("model-impl", "moe-backend", "pipeline-parallel-layout", "reasoning-parser", "response-role", "revision"),
    *("root-path", "runner", "spec-method", "spec-model", "tokenizer", "tokenizer-mode", "tokenizer-revision"),
    *("tool-call-parser", "tool-parser-plugin", "uvicorn-log-level", "attention-backend", "download-dir"),
)
_JSON_FLAGS: Final = (
    *("additional-config", "compilation-config", "custom-histogram-buckets", "default-chat-template-kwargs"),
    *("eplb-config", "hf-overrides", "kv-events-config", "kv-transfer-config", "limit-mm-per-prompt"),
    *("model-loader-extra-config", "override-generation-config", "override-pooler-config", "mm-processor-kwargs"),
    *("profiler-config", "speculative-config", "structured-outputs-config"),
)
_SWITCH_FLAGS: Final = (
    *(
        "async-scheduling",
        "data-parallel-external-lb",
        "data-parallel-hybrid-lb",
        "data-parallel-multi-port-external-lb",
        "disable-custom-all-reduce",
    ),
    *("disable-hybrid-kv-cache-manager", "disable-log-stats", "disable-sliding-window", "disable-uvicorn-access-log"),
    *("enable-auto-tool-choice", "enable-chunked-prefill", "enable-cumem-allocator", "enable-dbo", "enable-eplb"),
    *("enable-expert-parallel", "enable-log-outputs", "enable-log-requests", "enable-lora", "enable-lora-bias"),
    *("enable-prompt-tokens-details", "enable-request-id-headers", "enable-sleep-mode", "enforce-eager"),
    *("fully-sharded-loras", "language-model-only", "return-tokens-as-token-ids", "skip-tokenizer-init"),
    *("trust-remote-code", "use-tqdm-on-load", "enable-mfu-metrics", "kv-cache-metrics"),
)
_CHOICE_FLAGS: Final[dict[str, tuple[str, ...]]] = {
    "load-format": (
        *("auto", "hf", "safetensors", "fastsafetensors", "instanttensor", "ipc_cache", "mistral", "modelexpress"),
        *("npcache", "pt", "dummy", "runai_streamer", "runai_streamer_sharded", "sharded_state", "tensorizer"),
    ),
    "quantization": (
        *(
            "awq",
            "auto_awq",
            "awq_marlin",
            "gptq",
            "auto_gptq",
            "gptq_marlin",
            "fp8",
            "fp8_per_tensor",
            "fp8_per_block",
        ),
        *("fp8_per_channel", "fbgemm_fp8", "modelopt", "modelopt_fp4", "modelopt_mixed", "compressed-tensors", "mxfp4"),
        *("mxfp8", "quark", "torchao", "moe_wna16", "experts_int8", "inc", "humming"),
    ),
    "kv-cache-dtype": (
        *("auto", "float16", "bfloat16", "fp8", "fp8_e4m3", "fp8_e5m2", "fp8_inc", "fp8_ds_mla", "nvfp4"),
        *("int8_per_token_head", "fp8_per_token_head"),
    ),
    "scheduling-policy": ("fcfs", "priority"),
}
_SHORT_FLAGS: Final = {
    "tensor-parallel-size": "-tp",
    "pipeline-parallel-size": "-pp",
    "data-parallel-size": "-dp",
    "data-parallel-size-local": "-dpl",
    "data-parallel-address": "-dpa",
    "data-parallel-rpc-port": "-dpp",
    "data-parallel-rank": "-dpn",
    "data-parallel-start-rank": "-dpr",
    "data-parallel-backend": "-dpb",
    "data-parallel-hybrid-lb": "-dph",
    "data-parallel-external-lb": "-dpe",
    "quantization": "-q",
    "compilation-config": "-cc",
    "speculative-config": "-sc",
    "optimization-level": "-O",
    "nnodes": "-n",
    "node-rank": "-r",
}


class _Parser(argparse.ArgumentParser):
    """A parser whose errors carry vLLM's name, whatever the simulator's process is called."""

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(2, f"vllm: error: {message}\n")


@cache
def _parser() -> _Parser:
    parser = _Parser(prog="vllm serve", usage="vllm serve [model_tag] [options]", allow_abbrev=False)
    parser.add_argument("model_tag", nargs="?")

    def flag(name: str, **settings: Any) -> None:
        names = [f"--{name}", *([_SHORT_FLAGS[name]] if name in _SHORT_FLAGS else [])]
        parser.add_argument(*names, **settings)

    for name in _INTEGER_FLAGS:
        flag(name, type=int)
    for name in _TEXT_FLAGS:
        flag(name)
    for name in _JSON_FLAGS:
        flag(name, type=_json_object)
    for name in _SWITCH_FLAGS:
        flag(name, action=argparse.BooleanOptionalAction)
    for name, choices in _CHOICE_FLAGS.items():
        flag(name, choices=choices, default="auto" if name == "kv-cache-dtype" else None)
    for name in ("tensor-parallel-size", "pipeline-parallel-size", "data-parallel-size"):
        flag(name, type=int, default=1)
    for name in ("lora-modules", "served-model-name", "api-key", "middleware", "device-ids"):
        flag(name, nargs="+", default=[])
    for name in ("device-memory-utilization", "cpu-offload-gb", "kv-offloading-size"):
        flag(name, type=float)
    flag("host", default="0.0.0.0")  # noqa: S104 - vLLM's default; a pod listens for its Service
    flag("port", type=int, default=8000)
    flag("max-model-len", type=_context, default=-1)
    flag("max-num-seqs", type=int, default=DEFAULT_SEQUENCES)
    flag("max-num-batched-tokens", type=_tokens)
    flag("max-num-queued-reqs", type=int)
    flag("max-num-queued-tokens", type=_tokens)
    flag("block-size", type=int)
    flag("gpu-memory-utilization", type=float, default=0.92)
    flag("kv-cache-memory-bytes", type=_tokens)
    flag("shutdown-timeout", type=int, default=0)
    flag("enable-prefix-caching", action=argparse.BooleanOptionalAction, default=True)
    for name in ("enable-server-load-tracking", "enable-force-include-usage"):
        flag(name, action=argparse.BooleanOptionalAction, default=False)
    parser.add_argument("--headless", action="store_true")
    return parser


def _normalized(arguments: Sequence[str]) -> list[str]:
    """Arguments in the form that the parser knows.

    As in vLLM, `--a_b` means `--a-b`, and `--a.key value` sets one entry of the JSON argument `--a`. `--model NAME` is
    moved to the front, where `serve` expects the model.
    """
    normalized: list[str] = []
    rest = iter(arguments)
    for argument in rest:
        name, equals, value = argument.partition("=")
        if not name.startswith("--"):
            normalized.append(argument)
            continue
        name, dot, _ = name.replace("_", "-").rstrip("+").partition(".")
        if name == "--model":
            print("WARNING With `vllm serve`, you should provide the model as a positional argument.", file=sys.stderr)
            normalized.insert(0, value if equals else next(rest, ""))
        elif dot and name.removeprefix("--") in _JSON_FLAGS:
            if not equals:
                next(rest, "")
        else:
            normalized.append(name + dot + equals + value)
    return normalized


def parse_serve(arguments: Sequence[str]) -> ServeArguments:
    """Parse the arguments after `vllm serve`. Like vLLM, it ends the process when it does not understand them."""
    parser = _parser()
    given = parser.parse_args(_normalized(arguments))
    if not given.model_tag:
        parser.error("the following arguments are required: model_tag")
    if not 0 < given.gpu_memory_utilization <= 1:
        parser.error(f"argument --gpu-memory-utilization: {given.gpu_memory_utilization} is not in (0, 1]")
    if given.shutdown_timeout < 0:
        parser.error(f"argument --shutdown-timeout: {given.shutdown_timeout} is negative")
    if given.data_parallel_size < 1:
        parser.error(f"argument --data-parallel-size: {given.data_parallel_size} is below 1")
    return ServeArguments(
        model=given.model_tag,
        served_model_names=tuple(given.served_model_name) or (given.model_tag,),
        host=given.host,
        port=given.port,
        api_keys=tuple(given.api_key),
        max_model_len=None if given.max_model_len < 0 else given.max_model_len,
        max_num_seqs=given.max_num_seqs,
        max_num_batched_tokens=given.max_num_batched_tokens or max(DEFAULT_BATCHED_TOKENS, given.max_num_seqs),
        block_size=given.block_size or 16,
        block_size_given=given.block_size is not None,
        kv_blocks=given.num_gpu_blocks_override,
        kv_cache_dtype=given.kv_cache_dtype,
        kv_cache_memory_bytes=given.kv_cache_memory_bytes,
        gpu_memory_utilization=given.gpu_memory_utilization,
        enable_prefix_caching=given.enable_prefix_caching,
        data_parallel_size=given.data_parallel_size,
        shutdown_timeout=given.shutdown_timeout,
        max_queued_requests=given.max_num_queued_reqs,
        max_queued_tokens=given.max_num_queued_tokens,
        track_load=given.enable_server_load_tracking,
        force_usage=given.enable_force_include_usage,
        headless=given.headless,
    )
