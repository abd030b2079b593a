"""Strings, numbers and maps of the API, each with its bounds.

The API server estimates the cost of CEL rules from these bounds and refuses a CRD whose cost is too high. Names follow
the rules that Kubernetes has for the same field of a pod, so that a pod built from them is not refused later.
"""

import re
from collections.abc import Callable
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, GetCoreSchemaHandler, GetJsonSchemaHandler, Strict
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from forebay.api.schema.validation_rules import CheckedBy, Rule, literal, matches

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_NAME_PART = "[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_QUALIFIED = f"({_SUBDOMAIN}/)?{_NAME_PART}"


def text(pattern: str, is_not: str) -> Rule[str]:
    """A rule that the whole text matches `pattern`; its message is the quoted value followed by `is_not`."""
    compiled = re.compile(pattern)
    return Rule(
        cel=matches(pattern), message=f'"$self" {is_not}', holds=lambda value: compiled.fullmatch(value) is not None
    )


Count = Annotated[int, Strict()]
"""A whole number, never text; each field adds its bounds."""
Number = Annotated[float, Strict(), Field(allow_inf_nan=False)]
"""A number that may have a fraction, never text; each field adds its bounds."""
Flag = Annotated[bool, Strict()]

ObjectName = Annotated[
    str,
    Field(max_length=253),
    CheckedBy(text(_SUBDOMAIN, "is not the name of an object; use lower case letters, digits, '-' and '.'")),
]
VolumeName = Annotated[
    str,
    Field(max_length=63),
    CheckedBy(text(_LABEL, "is not the name of a volume; use lower case letters, digits and '-'")),
]
LabelKey = Annotated[
    str,
    Field(max_length=317),
    CheckedBy(text(_QUALIFIED, "is not a label key; write name or domain/name, such as topology.kubernetes.io/zone")),
]
LabelValue = Annotated[
    str,
    Field(max_length=63),
    CheckedBy(text(f"({_NAME_PART})?", "is not a label value; use letters, digits, '-', '_' and '.'")),
]
EnvName = Annotated[
    str,
    Field(max_length=128),
    CheckedBy(
        text("[A-Za-z_][A-Za-z0-9_]*", "is not the name of an environment variable; use letters, digits and '_'"),
    ),
]
Quantity = Annotated[
    str,
    Field(max_length=24),
    CheckedBy(
        text(
            r"[0-9]+(\.[0-9]+)?(m|k|M|G|T|P|Ki|Mi|Gi|Ti|Pi)?",
            "is not a quantity; write a number with a unit, such as 500m, 4 or 16Gi",
        )
    ),
]

LABEL_KEYS = Rule[dict[str, str]](
    cel=f"self.all(key, size(key) <= 317 && {matches(_QUALIFIED, 'key')})",
    message="a key is not a label key; write name or domain/name, such as topology.kubernetes.io/zone",
    holds=lambda value: all(len(key) <= 317 and re.fullmatch(_QUALIFIED, key) for key in value),
)

NodeLabels = Annotated[dict[str, LabelValue], Field(max_length=16), CheckedBy(LABEL_KEYS)]
"""Labels that a node must have, as in a pod's nodeSelector."""


class ListMap:
    """A list whose items have a unique key, so that server-side apply merges them; duplicate keys are refused."""

    def __init__(self, key: str) -> None:
        self.key = key

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(
            unique_by(lambda item: getattr(item, self.key)), handler(source)
        )

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return handler(schema) | {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [self.key]}


class Unique:
    """A list of scalars without duplicates."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(unique_by(lambda item: item), handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return handler(schema) | {"x-kubernetes-list-type": "set"}


def unique_by(key: Callable[[Any], Any]) -> Callable[[tuple[Any, ...]], tuple[Any, ...]]:
    """A validator that refuses a second item with the same key."""

    def check(items: tuple[Any, ...]) -> tuple[Any, ...]:
        keys = set()
        for item in items:
            item_key = key(item)
            if item_key in keys:
                raise PydanticCustomError("duplicate", '"{key}" appears twice; keep one', {"key": str(item_key)})
            keys.add(item_key)
        return items

    return check


def truncated(longest: int) -> BeforeValidator:
    """Cuts a text to its bound, so that a long explanation does not prevent the status from being written."""

    def clip(value: Any) -> Any:
        return value[: longest - 1] + "…" if isinstance(value, str) and len(value) > longest else value

    return BeforeValidator(clip)


def none_of(names: tuple[str, ...], because: str) -> Rule[str]:
    """A rule that the text is none of `names`."""
    listed = ", ".join(literal(name) for name in names)
    return Rule(cel=f"!(self in [{listed}])", message=f'"$self" {because}', holds=lambda value: value not in names)
