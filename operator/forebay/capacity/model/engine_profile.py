"""Engine profiles: the coefficients of a vLLM engine's step time, `T = a + b·P + c·B + d·K`, for a model on a GPU.

One engine step that computes P prompt tokens and decodes B sequences over K tokens of KV cache takes T seconds. The
built-in constants come from published measurements (`data/profiles.json`). They age with vLLM versions, so rankings are
more reliable than latencies (±20 %).

The planner and the simulator read the same table. This module imports only the standard library, because the simulator
must start within a pod's first seconds.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

DATA: Final = Path(__file__).parent / "data"
REQUEST_OVERHEAD_SECONDS: Final = 0.006
"""Time of one request in vLLM's API server, tokenizer and scheduler, measured on an idle H100 (TTFT 15.0 ms at 128
tokens)."""


@dataclass(frozen=True, slots=True)
class EngineProfile:
    """Coefficients of one engine's step time, in seconds and tokens."""

    step_seconds: float
    """a: time to read the weights once, to launch kernels and to sample."""
    prompt_token_seconds: float
    """b: prefill time of one prompt token."""
    sequence_seconds: float
    """c: time of one decoding sequence."""
    kv_token_seconds: float
    """d: time to read one token of the KV cache."""
    kv_tokens: int
    """Tokens that the KV cache holds."""
    prompt_square_seconds: float = 0.0
    """e: time of attention within one prompt, in seconds per squared token. A prompt of I tokens adds e·I² over its
    chunks."""
    request_overhead_seconds: float = REQUEST_OVERHEAD_SECONDS
    """Time from a request's arrival to the engine's waiting queue."""

    def __post_init__(self) -> None:
        """Refuses coefficients with which a step would take no time, and an empty KV cache."""
        if self.step_seconds <= 0:
            raise ValueError(f"step_seconds: {self.step_seconds} is not above 0; a step must take time")
        if self.kv_tokens <= 0:
            raise ValueError(f"kv_tokens: {self.kv_tokens} is not above 0; an engine needs KV cache to serve")
        for name in ("prompt_token_seconds", "sequence_seconds", "kv_token_seconds", "prompt_square_seconds"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name}: {getattr(self, name)} is negative; use 0 or more")

    def slowed(self, factor: float) -> EngineProfile:
        """The profile with every step `factor` times as long; KV cache and request overhead stay the same."""
        if factor <= 0:
            raise ValueError(f"slow-down factor: {factor} is not above 0; use 2 for half the speed")
        return replace(
            self,
            step_seconds=self.step_seconds * factor,
            prompt_token_seconds=self.prompt_token_seconds * factor,
            sequence_seconds=self.sequence_seconds * factor,
            kv_token_seconds=self.kv_token_seconds * factor,
            prompt_square_seconds=self.prompt_square_seconds * factor,
        )

    def work_seconds(self, prompt_tokens: float, output_tokens: float) -> float:
        """GPU seconds of a request with I prompt and O answer tokens: `s = b·I + e·I² + O·(c + d·(I + O/2))`."""
        prefill = self.prompt_token_seconds * prompt_tokens + self.prompt_square_seconds * prompt_tokens**2
        kv_reads = self.kv_token_seconds * (prompt_tokens + output_tokens / 2)
        return prefill + output_tokens * (self.sequence_seconds + kv_reads)


@dataclass(frozen=True, slots=True)
class BuiltIn:
    """A profile of the built-in table, and the setups that it was measured for."""

    name: str
    models: tuple[str, ...]
    """Names of models in `data/models.json`."""
    gpus: tuple[str, ...]
    """Names of GPUs in `data/gpus.json`."""
    bits: int
    """Bits per weight."""
    tensor_parallel_size: int
    profile: EngineProfile
    error_percent: int
    """How far latencies computed from it may be off."""
    measured_with: str


def _built_in(record: Mapping[str, Any]) -> BuiltIn:
    return BuiltIn(
        name=record["name"],
        models=tuple(record["models"]),
        gpus=tuple(record["gpus"]),
        bits=record["bits"],
        tensor_parallel_size=record["tensorParallelSize"],
        profile=EngineProfile(
            step_seconds=record["stepMilliseconds"] * 1e-3,
            prompt_token_seconds=record["promptTokenMicroseconds"] * 1e-6,
            sequence_seconds=record["sequenceMicroseconds"] * 1e-6,
            kv_token_seconds=record["kvTokenMicroseconds"] * 1e-6,
            kv_tokens=record["kvTokens"],
        ),
        error_percent=record["errorPercent"],
        measured_with=record["measuredWith"],
    )


def _read() -> tuple[BuiltIn, ...]:
    records = json.loads((DATA / "profiles.json").read_text(encoding="utf-8"))["profiles"]
    return tuple(_built_in(record) for record in records)


BUILT_IN: Final[Mapping[str, BuiltIn]] = MappingProxyType({entry.name: entry for entry in _read()})
"""The built-in profiles by name, in the table's order."""
