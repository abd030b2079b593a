"""Durations as people write them in manifests: `90s`, `500ms`, `1h30m`.

A duration keeps the user's text beside its seconds and writes the text back unchanged: GitOps tools would report a
rewritten value as drift.
"""

import re
from typing import Any, Self

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from forebay.api.schema.validation_rules import CheckedBy, Rule, literal, matches

PATTERN = r"([0-9]{1,6}(ms|s|m|h))+"
"""Each part has at most six digits, so the longest text within `MAX_LENGTH` stays below the 292 years that a CEL
duration can hold."""
MAX_LENGTH = 16
_PART = re.compile(r"([0-9]+)(ms|s|m|h)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


class Duration:
    """A span of time: `seconds` for arithmetic, `text` as the user wrote it."""

    __slots__ = ("seconds", "text")

    def __init__(self, text: str) -> None:
        """Raises ValueError when `text` is not a list of whole numbers with units ms, s, m or h."""
        if len(text) > MAX_LENGTH or not re.fullmatch(PATTERN, text):
            raise ValueError(
                f'"{text}" is not a duration; write whole numbers with units, such as 500ms, 90s, 5m or 1h30m'
            )
        self.text = text
        self.seconds = sum(int(number) * _SECONDS[unit] for number, unit in _PART.findall(text))

    def __repr__(self) -> str:
        return f"Duration({self.text!r})"

    def __str__(self) -> str:
        return self.text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Duration) and other.text == self.text

    def __hash__(self) -> int:
        return hash(self.text)

    @classmethod
    def _validate(cls, value: Any) -> Self:
        if isinstance(value, cls):
            return value
        if not isinstance(value, str):
            raise PydanticCustomError("duration", "write a duration as text with a unit, such as 90s")
        try:
            return cls(value)
        except ValueError as error:
            raise PydanticCustomError("duration", "{sentence}", {"sentence": str(error)}) from error

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            cls._validate, serialization=core_schema.to_string_ser_schema()
        )

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"type": "string", "maxLength": MAX_LENGTH}


def between(shortest: str, longest: str) -> CheckedBy:
    """A duration from `shortest` to `longest`, both included."""
    low, high = Duration(shortest).seconds, Duration(longest).seconds
    return CheckedBy(
        Rule[Duration](
            cel=f"{matches(PATTERN)} && duration(self) >= duration({literal(shortest)})"
            f" && duration(self) <= duration({literal(longest)})",
            message=f'"$self" is not a duration from {shortest} to {longest}; '
            "write whole numbers with units, such as 500ms, 90s or 1h30m",
            holds=lambda value: low <= value.seconds <= high,
        )
    )
