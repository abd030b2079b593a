"""The flags in `engine.extraArgs` that a plan reads."""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from forebay.capacity.model.gpu_memory import Adapters

DEFAULT_LORA_SLOTS: Final = 1
DEFAULT_LORA_RANK: Final = 16
"""vLLM's own defaults of `--max-loras` and `--max-lora-rank`."""


def flags_of(arguments: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """The flags with their values, in the spelling with dashes."""
    for position, argument in enumerate(arguments):
        if argument.startswith("--"):
            name, separator, value = argument.partition("=")
            following = arguments[position + 1 : position + 2]
            yield name.replace("_", "-"), value if separator else next(iter(following), "")


def adapters_of(flags: Mapping[str, str]) -> Adapters | None:
    """The slots for LoRA adapters that the flags reserve."""
    if "--enable-lora" not in flags:
        return None
    return Adapters(
        slots=whole_number(flags.get("--max-loras")) or DEFAULT_LORA_SLOTS,
        rank=whole_number(flags.get("--max-lora-rank")) or DEFAULT_LORA_RANK,
    )


def whole_number(text: str | None) -> int | None:
    """A positive number of at most nine digits; None for any other text."""
    return int(text) if text and re.fullmatch("[0-9]{1,9}", text) and int(text) else None
