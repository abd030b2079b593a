"""Validation errors as sentences that name the field, its value, the reason and the remedy.

Rules give the same sentences as the API server; pydantic's own messages are translated. They serve where no API server
checks the object: manifests that the command line reads, and stored objects that another version of the API accepted.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

from pydantic import ValidationError

from forebay.api.schema.validation_rules import RULE_ERROR

_LONGEST_SHOWN = 80


def validation_messages(error: ValidationError, under: str = "") -> tuple[str, ...]:
    """One sentence for each fault, beginning with the field's path; `under` is the model's path, such as `spec`."""
    faults = error.errors(include_url=False)
    return tuple(
        f"{_path((under, *fault['loc']))}: {_sentence(fault)}." for fault in faults if not _is_consequence(fault)
    )


def shown_value(value: Any) -> str:
    """A value as its manifest writes it, cut when it is long."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[: _LONGEST_SHOWN - 1]}…"


def _path(location: tuple[int | str, ...]) -> str:
    path = ""
    for part in location:
        if isinstance(part, int):
            path += f"[{part}]"
        elif part:
            path += f".{part}" if path else part
    return path or "<root>"


def _is_consequence(fault: Mapping[str, Any]) -> bool:
    """Whether a list is only called too short because of invalid items, which have faults of their own."""
    return bool(fault["type"] == "too_short" and len(fault["input"]) >= fault["ctx"]["min_length"])


def _sentence(fault: Mapping[str, Any]) -> str:
    translate = _TRANSLATIONS.get(fault["type"])
    return translate(fault["input"], fault.get("ctx", {})) if translate else fault["msg"]


def _choices(value: Any, context: Mapping[str, Any]) -> str:
    return f"{shown_value(value)} is not supported; use {context['expected']}"


def _not_a(kind: str) -> Callable[[Any, Mapping[str, Any]], str]:
    return lambda value, context: f"{shown_value(value)} is not {kind}"


def _bound(number: int | float) -> str:
    return str(int(number) if number == int(number) else number)


def _length(value: Any, context: Mapping[str, Any]) -> str:
    return f"{len(value)} characters are too many; use at most {context['max_length']}"


def _most_items(value: Any, context: Mapping[str, Any]) -> str:
    return f"{len(value)} entries are too many; use at most {context['max_length']}"


def _fewest_items(value: Any, context: Mapping[str, Any]) -> str:
    return f"{len(value)} entries are too few; use at least {context['min_length']}"


_TRANSLATIONS: Mapping[str, Callable[[Any, Mapping[str, Any]], str]] = {
    RULE_ERROR: lambda value, context: str(context["sentence"]),
    "missing": lambda value, context: "is required",
    "literal_error": _choices,
    "enum": _choices,
    "greater_than_equal": lambda value, context: (
        f"{shown_value(value)} is too small; use {_bound(context['ge'])} or more"
    ),
    "less_than_equal": lambda value, context: f"{shown_value(value)} is too large; use {_bound(context['le'])} or less",
    "string_too_long": _length,
    "too_long": _most_items,
    "too_short": _fewest_items,
    "int_type": _not_a("a whole number; write it without quotes"),
    "int_from_float": _not_a("a whole number"),
    "float_type": _not_a("a number; write it without quotes"),
    "finite_number": _not_a("a number"),
    "bool_type": _not_a("true or false; write it without quotes"),
    "string_type": _not_a("text; put it in quotes"),
    "tuple_type": _not_a("a list"),
    "dict_type": _not_a("a map"),
    "model_type": _not_a("a map of fields"),
}
