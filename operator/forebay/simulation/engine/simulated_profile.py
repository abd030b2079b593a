"""Profiles for the simulators, given by a built-in name or as JSON on the command line."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Final

from forebay.capacity.model.engine_profile import BUILT_IN as TABLE
from forebay.capacity.model.engine_profile import EngineProfile

__all__ = ["BUILT_IN", "EngineProfile", "parse_profile"]

BUILT_IN: Final[dict[str, EngineProfile]] = {name: entry.profile for name, entry in TABLE.items()}
"""The profiles that capacity is planned with, by name."""

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
    """Parse a built-in name such as `8b-h100`, or JSON.

    In JSON such as `{"a": 0.05, "b": 2e-5, "c": 5e-6, "d": 5e-8, "kv_tokens": 20000}`, a to e and `overhead` are
    seconds. `name` starts from a built-in profile, and `slow` multiplies the time of every step:
    `{"name": "8b-h100", "slow": 10}`.
    """
    if text in BUILT_IN:
        return BUILT_IN[text]
    try:
        fields = json.loads(text)
    except ValueError as fault:
        raise ValueError(f"profile: {text!r} is neither one of {', '.join(BUILT_IN)} nor JSON ({fault})") from fault
    if not isinstance(fields, dict):
        raise ValueError(f'profile: {text!r} is not a JSON object; write {{"a": 0.05, "kv_tokens": 20000, …}}')
    name = fields.pop("name", None)
    if name is not None and name not in BUILT_IN:
        raise ValueError(f"profile name: {name!r} is not built in; use one of {', '.join(BUILT_IN)}")
    for key, value in fields.items():
        if key not in _KEYS and key != "slow":
            raise ValueError(f"profile key: {key!r} is not known; use name, slow, {', '.join(_KEYS)}")
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(f"profile {key}: {value!r} is not a number")
    missing = [key for key in ("a", "b", "c", "d", "kv_tokens") if key not in fields]
    if name is None and missing:
        raise ValueError(
            f"profile: {', '.join(missing)} missing; give all of a, b, c, d, kv_tokens or start from a name"
        )
    slow = float(fields.pop("slow", 1.0))
    start = BUILT_IN[name or "8b-h100"]
    kv_tokens = int(fields.pop("kv_tokens", start.kv_tokens))
    changes: dict[str, float] = {_KEYS[key]: value for key, value in fields.items()}
    return replace(start, kv_tokens=kv_tokens, **changes).slowed(slow)
