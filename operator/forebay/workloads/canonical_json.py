"""Canonical JSON and short hashes: equal content gives equal text, whatever the order of its keys."""

import hashlib
import json
from typing import Any, Final

SAFE_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
"""DNS-safe, spells no words, and never reads as a number in YAML (no `0`, `1`, `3` or vowels, so no `1e5` either)."""


def canonical_json(value: Any) -> str:
    """Sorted keys, no spaces, plain ASCII."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def short_hash(text: str, length: int) -> str:
    """`length` characters of `SAFE_ALPHABET` from the text's SHA-256; 4.75 bits a character."""
    number = int.from_bytes(hashlib.sha256(text.encode()).digest(), "big")
    characters = []
    for _ in range(length):
        number, digit = divmod(number, len(SAFE_ALPHABET))
        characters.append(SAFE_ALPHABET[digit])
    return "".join(characters)


def without_empty(value: Any) -> Any:
    """The value without None, `{}` and `[]` at any depth: an empty block means the same as an absent one."""
    if isinstance(value, dict):
        pruned = {key: without_empty(item) for key, item in value.items()}
        return {key: item for key, item in pruned.items() if item is not None and item != {} and item != []}
    if isinstance(value, list | tuple):
        return [without_empty(item) for item in value]
    return value


def present(mapping: dict[str, Any]) -> dict[str, Any]:
    """The entries that are not empty. Only this level is checked: a nested empty `emptyDir: {}` has a meaning."""
    return {key: item for key, item in mapping.items() if item is not None and item != {} and item != []}
