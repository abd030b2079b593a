"""What a vLLM engine costs: the coefficients of `T = a + b·P + c·B + d·K` for a model on a GPU.

One engine step that computes P prompt tokens and decodes B sequences over K tokens of KV cache takes T seconds. The
constants come from published measurements (see `BUILT_IN`); they age with vLLM versions, so trust rankings more than
latencies (±20 %).
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Final

REQUEST_OVERHEAD_SECONDS: Final = 0.006
"""API server, tokenizer and scheduling hand-over of one request, seen on an idle H100 (TTFT 15.0 ms at 128 tokens)."""


@dataclass(frozen=True, slots=True)
class EngineProfile:
    """Coefficients of one engine's step time, in seconds and tokens."""

    step_seconds: float
    """a: reading the weights once, plus launch and sampling."""
    prompt_token_seconds: float
    """b: one prompt token's share of prefill compute."""
    sequence_seconds: float
    """c: one decoding sequence."""
    kv_token_seconds: float
    """d: reading one token's KV cache."""
    kv_tokens: int
    """Tokens the KV cache holds."""
    prompt_square_seconds: float = 0.0
    """e: attention within one prompt, seconds per squared token; a prompt of I tokens adds e·I² over its chunks."""
    request_overhead_seconds: float = REQUEST_OVERHEAD_SECONDS
    """From arrival to the engine's waiting queue."""

    def __post_init__(self) -> None:
        """Refuse what would stop the clock or hold nothing."""
        if self.step_seconds <= 0:
            raise ValueError(f"step_seconds: {self.step_seconds} is not above 0; a step must take time")
        if self.kv_tokens <= 0:
            raise ValueError(f"kv_tokens: {self.kv_tokens} is not above 0; an engine without KV cache serves nothing")
        for name in ("prompt_token_seconds", "sequence_seconds", "kv_token_seconds", "prompt_square_seconds"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name}: {getattr(self, name)} is negative; work cannot take time back")

    def slowed(self, factor: float) -> EngineProfile:
        """The same engine on a GPU that takes `factor` times as long for every step; KV cache and overhead stay."""
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
        """Seconds of the GPU that one request costs: `s = b·I + e·I² + O·(c + d·(I + O/2))`."""
        prefill = self.prompt_token_seconds * prompt_tokens + self.prompt_square_seconds * prompt_tokens**2
        read = self.kv_token_seconds * (prompt_tokens + output_tokens / 2)
        return prefill + output_tokens * (self.sequence_seconds + read)


def _profile(a_ms: float, b_us: float, c_us: float, d_us: float, kv_tokens: int) -> EngineProfile:
    """A profile in the units the sources print: milliseconds per step, microseconds per token or sequence."""
    return EngineProfile(
        step_seconds=a_ms * 1e-3,
        prompt_token_seconds=b_us * 1e-6,
        sequence_seconds=c_us * 1e-6,
        kv_token_seconds=d_us * 1e-6,
        kv_tokens=kv_tokens,
    )


BUILT_IN: Final[dict[str, EngineProfile]] = {
    # Rows of llm-d's workload-variant-autoscaler tutorial; BLIS's fit agrees (5.75 ms + 17.25 µs·P + 6.0 µs·B).
    "8b-h100": _profile(6.9, 17.3, 5, 0.052, 467_000),
    # Vidur's kernels; vLLM 0.15.1 measured 9.3 to 11.2 ms between tokens.
    "7b-mha-h100": _profile(7.5, 20.5, 5, 0.21, 115_056),
    # Vidur's kernels and an A100 sweep of vLLM 0.23.
    "8b-a100": _profile(12.5, 62, 10, 0.087, 467_000),
    # vLLM 0.15.1 measured 17.1 to 20.4 ms between tokens, first token after 52 to 60 ms.
    "70b-h100-tp4": _profile(16, 60, 20, 0.033, 490_000),
    # Vidur's kernels plus reductions.
    "70b-a100-tp4": _profile(30, 165, 30, 0.055, 490_000),
    # Roofline only, never measured.
    "8b-fp8-l4": _profile(38, 116, 20, 0.58, 112_000),
}

_KEYS: Final = {
    "a": "step_seconds",
    "b": "prompt_token_seconds",
    "c": "sequence_seconds",
    "d": "kv_token_seconds",
    "e": "prompt_square_seconds",
    "overhead": "request_overhead_seconds",
    "kv_tokens": "kv_tokens",
}


def parse_profile(text: str) -> EngineProfile:
    """A built-in name such as `8b-h100`, or JSON: `{"a": 0.05, "b": 2e-5, "c": 5e-6, "d": 5e-8, "kv_tokens": 20000}`.

    a to e and `overhead` are seconds; `name` starts from a built-in profile and `slow` makes every step take so many
    times as long: `{"name": "8b-h100", "slow": 10}`.
    """
    if text in BUILT_IN:
        return BUILT_IN[text]
    try:
        given = json.loads(text)
    except ValueError as fault:
        raise ValueError(f"profile: {text!r} is neither one of {', '.join(BUILT_IN)} nor JSON ({fault})") from fault
    if not isinstance(given, dict):
        raise ValueError(f'profile: {text!r} is not a JSON object; write {{"a": 0.05, "kv_tokens": 20000, …}}')
    name = given.pop("name", None)
    if name is not None and name not in BUILT_IN:
        raise ValueError(f"profile name: {name!r} is not built in; use one of {', '.join(BUILT_IN)}")
    for key, value in given.items():
        if key not in _KEYS and key != "slow":
            raise ValueError(f"profile key: {key!r} is not known; use name, slow, {', '.join(_KEYS)}")
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(f"profile {key}: {value!r} is not a number")
    missing = [key for key in ("a", "b", "c", "d", "kv_tokens") if key not in given]
    if name is None and missing:
        raise ValueError(
            f"profile: {', '.join(missing)} missing; give all of a, b, c, d, kv_tokens or start from a name"
        )
    slow = float(given.pop("slow", 1.0))
    start = BUILT_IN[name or "8b-h100"]
    kv_tokens = int(given.pop("kv_tokens", start.kv_tokens))
    changes: dict[str, float] = {_KEYS[key]: value for key, value in given.items()}
    return replace(start, kv_tokens=kv_tokens, **changes).slowed(slow)
