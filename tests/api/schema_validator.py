"""Validates manifests against structural schemas and CEL as the API server does, without an API server.

It does not use the models, so that property tests can compare models and schema on thousands of manifests.
"""

from collections.abc import Iterator
from functools import cache
from typing import Any

import cel

from forebay.api.schema.structural_schema import Schema

_TYPES: dict[str, type | tuple[type, ...]] = {
    "array": list,
    "boolean": bool,
    "integer": int,
    "number": (int, float),
    "object": dict,
    "string": str,
}


def violations(schema: Schema, value: Any, path: str = "") -> tuple[str, ...]:
    """Paths at which the value breaks the schema. As in the API server, rules are checked only if types and bounds
    hold."""
    structural = tuple(_structural(schema, value, path))
    return structural or tuple(_rules(schema, value, path))


def _structural(node: Schema, value: Any, path: str) -> Iterator[str]:
    kind: str = node["type"]
    if not isinstance(value, _TYPES[kind]) or (kind != "boolean" and isinstance(value, bool)):
        yield f"{path}: type"
        return
    if "enum" in node and value not in node["enum"]:
        yield f"{path}: enum"
    if kind in ("integer", "number") and not node["minimum"] <= value <= node["maximum"]:
        yield f"{path}: bounds"
    if isinstance(value, str) and len(value) > node.get("maxLength", len(value)):
        yield f"{path}: maxLength"
    if isinstance(value, list):
        yield from _list(node, value, path)
    if isinstance(value, dict):
        yield from _object(node, value, path)


def _list(node: Schema, value: list[Any], path: str) -> Iterator[str]:
    if not node.get("minItems", 0) <= len(value) <= node["maxItems"]:
        yield f"{path}: items"
    keys = node.get("x-kubernetes-list-map-keys")
    if node["x-kubernetes-list-type"] != "atomic" and all(isinstance(item, dict) or not keys for item in value):
        identities = [repr([item.get(key) for key in keys] if keys else item) for item in value]
        if len(set(identities)) < len(identities):
            yield f"{path}: duplicate"
    for position, item in enumerate(value):
        yield from _structural(node["items"], item, f"{path}[{position}]")


def _object(node: Schema, value: dict[str, Any], path: str) -> Iterator[str]:
    if len(value) > node.get("maxProperties", len(value)):
        yield f"{path}: maxProperties"
    for name in node.get("required", []):
        if name not in value:
            yield f"{path}.{name}: required"
    for name, item in value.items():
        if (child := _child(node, name)) is not None:
            yield from _structural(child, item, f"{path}.{name}")
        else:
            yield f"{path}.{name}: unknown"


def _rules(node: Schema, value: Any, path: str) -> Iterator[str]:
    for rule in node.get("x-kubernetes-validations", []):
        if not _program(rule["rule"]).execute({"self": value}):
            yield f"{path}: {rule['rule']}"
    if isinstance(value, list):
        for position, item in enumerate(value):
            yield from _rules(node["items"], item, f"{path}[{position}]")
    if isinstance(value, dict):
        for name, item in value.items():
            child = _child(node, name)
            assert child is not None
            yield from _rules(child, item, f"{path}.{name}")


def _child(node: Schema, name: str) -> Schema | None:
    child: Schema | None = node.get("properties", {}).get(name, node.get("additionalProperties"))
    return child


@cache
def _program(rule: str) -> cel.Program:
    return cel.compile(rule)
