"""Checks that a schema may become a CRD: structural, bounded everywhere, and every field described.

The API server checks the structure but not the bounds, until a CEL rule over an unbounded field costs too much and is
refused far from that field. The lint reports each missing bound at its own path.
"""

from collections.abc import Callable, Iterator
from typing import Any

from forebay.api.schema.structural_schema import Schema

LONGEST_MESSAGE = 2048
_FORBIDDEN = (
    "$ref",
    "$defs",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "const",
    "default",
    "title",
    "nullable",
    "patternProperties",
    "prefixItems",
    "propertyNames",
    "x-kubernetes-embedded-resource",
    "x-kubernetes-int-or-string",
    "x-kubernetes-preserve-unknown-fields",
)
_SCALARS = ("string", "integer", "number", "boolean")


def lint(schema: Schema, path: str = "") -> tuple[str, ...]:
    """All problems as `path: problem`; empty for a schema that may be published."""
    return tuple(f"{path or '<root>'}: {problem}" for path, problem in _problems(schema, path))


def _problems(node: Schema, path: str) -> Iterator[tuple[str, str]]:
    for key in _FORBIDDEN:
        if key in node:
            yield path, f"has {key}"
    check = _CHECKS.get(node.get("type", ""))
    if check is None:
        yield path, f"has type {node.get('type')!r}"
    else:
        for problem in check(node):
            yield path, problem
    for problem in _rule_problems(node):
        yield path, problem
    for name, child in node.get("properties", {}).items():
        inner = f"{path}.{name}" if path else name
        if not child.get("description"):
            yield inner, "has no description"
        yield from _problems(child, inner)
    if isinstance(node.get("additionalProperties"), dict):
        yield from _problems(node["additionalProperties"], f"{path}.*")
    if isinstance(node.get("items"), dict):
        yield from _problems(node["items"], f"{path}[]")


def _string(node: Schema) -> Iterator[str]:
    if "maxLength" not in node and "enum" not in node:
        yield "is a string without maxLength"


def _number(node: Schema) -> Iterator[str]:
    for bound in ("minimum", "maximum"):
        if bound not in node and "enum" not in node:
            yield f"is a number without {bound}"


def _array(node: Schema) -> Iterator[str]:
    if "maxItems" not in node:
        yield "is a list without maxItems"
    if not isinstance(node.get("items"), dict):
        yield "is a list without items"
        return
    kind, item = node.get("x-kubernetes-list-type"), node["items"]
    if kind not in ("atomic", "set", "map"):
        yield f"is a list of type {kind!r}; say atomic, set or map"
    if kind == "set" and item.get("type") not in _SCALARS:
        yield "is a set of things that are no scalars"
    if kind == "map":
        keys = node.get("x-kubernetes-list-map-keys", [])
        if not keys or not set(keys) <= set(item.get("required", [])):
            yield f"is a list map whose keys {keys} are not required of its items"


def _object(node: Schema) -> Iterator[str]:
    properties, more = node.get("properties"), node.get("additionalProperties")
    if (properties is None) == (more is None):
        yield "is an object that needs either properties or additionalProperties"
    if more is not None and "maxProperties" not in node:
        yield "is a map without maxProperties"
    if more is not None and not isinstance(more, dict):
        yield "is a map of anything"
    missing = set(node.get("required", [])) - set(properties or {})
    if missing:
        yield f"requires {sorted(missing)}, which it does not have"


def _boolean(node: Schema) -> Iterator[str]:
    return iter(())


_CHECKS: dict[str, Callable[[Schema], Iterator[str]]] = {
    "array": _array,
    "boolean": _boolean,
    "integer": _number,
    "number": _number,
    "object": _object,
    "string": _string,
}


def _rule_problems(node: Schema) -> Iterator[str]:
    for rule in node.get("x-kubernetes-validations", []):
        message = rule.get("message", "")
        if not message or not message.isprintable() or len(message) > LONGEST_MESSAGE:
            yield f"has a rule whose message is not one line of at most {LONGEST_MESSAGE} characters: {rule['rule']}"
        if "fieldPath" in rule and not _leads_somewhere(node, rule["fieldPath"]):
            yield f"has a rule about {rule['fieldPath']}, which does not exist"


def _leads_somewhere(node: Any, path: str) -> bool:
    for name in path.removeprefix(".").split("."):
        node = node.get("properties", {}).get(name)
        if node is None:
            return False
    return True
