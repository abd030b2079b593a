"""Converts pydantic models to the structural schemas that Kubernetes needs: inlined, typed at every node, no unions.

A model's default never becomes a schema default: the API server would write it into the stored object, and GitOps tools
would show that as drift. The description says what an absent field means.
"""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

Schema = dict[str, Any]

_ORDER = (
    "description",
    "type",
    "format",
    "enum",
    "pattern",
    "minLength",
    "maxLength",
    "minimum",
    "exclusiveMinimum",
    "maximum",
    "exclusiveMaximum",
    "multipleOf",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "required",
    "properties",
    "additionalProperties",
    "items",
    "x-kubernetes-validations",
)
"""Keywords that these structural schemas may have, in the order in which they are written."""
_DROPPED = ("title", "default", "$defs")


class NotStructuralError(TypeError):
    """A model uses something that structural schemas cannot express: a mistake in the model, never in a manifest."""


def structural_schema(model: type[BaseModel], *, describe_defaults: bool = True) -> Schema:
    """The structural schema of a model. Raises NotStructuralError, naming the path, for unions, fixed tuples and
    recursion."""
    document = model.model_json_schema(by_alias=True, mode="validation")
    return _Inliner(document.get("$defs", {}), describe_defaults).node(document, model.__name__, ())


class _Inliner:
    def __init__(self, definitions: Mapping[str, Schema], describe_defaults: bool) -> None:
        self._definitions = definitions
        self._describe_defaults = describe_defaults

    def node(self, node: Schema, path: str, inside: tuple[str, ...]) -> Schema:
        node, inside = self._resolved(node, path, inside)
        schema = {key: value for key, value in node.items() if key not in _DROPPED}
        if "const" in schema:
            schema["enum"] = [schema.pop("const")]
        for key, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
            if key in schema:
                schema[bound], schema[key] = schema[key], True
        if schema.pop("uniqueItems", False):
            schema["x-kubernetes-list-type"] = "set"
        if schema.get("type") == "array":
            schema.setdefault("x-kubernetes-list-type", "atomic")
        if schema.get("additionalProperties") is False:
            del schema["additionalProperties"]
        self._describe(schema, node)
        self._inline_children(schema, path, inside)
        unknown = schema.keys() - set(_ORDER)
        if unknown:
            raise NotStructuralError(f"{path}: a structural schema has no {', '.join(sorted(unknown))}")
        return {key: schema[key] for key in _ORDER if key in schema}

    def _resolved(self, node: Schema, path: str, inside: tuple[str, ...]) -> tuple[Schema, tuple[str, ...]]:
        """The node with its references followed and its Optional unwrapped; keywords beside them take precedence."""
        while True:
            rest = {key: value for key, value in node.items() if key not in ("$ref", "anyOf", "allOf")}
            if "$ref" in node:
                name = node["$ref"].removeprefix("#/$defs/")
                if name in inside:
                    raise NotStructuralError(f"{path}: {name} contains itself")
                inside = (*inside, name)
                node = self._definitions[name] | rest
            elif "anyOf" in node or "allOf" in node:
                options: list[Schema] = node["anyOf"] if "anyOf" in node else node["allOf"]
                choices = [option for option in options if option.get("type") != "null"]
                if len(choices) != 1:
                    raise NotStructuralError(f"{path}: a union of {len(choices)} types; a structural schema has one")
                node = choices[0] | rest
            else:
                return node, inside

    def _describe(self, schema: Schema, node: Schema) -> None:
        text = "\n\n".join(" ".join(part.split()) for part in schema.get("description", "").split("\n\n"))
        default = node.get("default")
        if self._describe_defaults and isinstance(default, str | int | bool) and default != "":
            shown = str(default).lower() if isinstance(default, bool) else default
            text = f"{text} Default: {shown}.".strip()
        if text:
            schema["description"] = text

    def _inline_children(self, schema: Schema, path: str, inside: tuple[str, ...]) -> None:
        if "properties" in schema:
            schema["properties"] = {
                name: self.node(child, f"{path}.{name}", inside) for name, child in schema["properties"].items()
            }
        if isinstance(schema.get("additionalProperties"), dict):
            schema["additionalProperties"] = self.node(schema["additionalProperties"], f"{path}.*", inside)
        if "items" in schema:
            schema["items"] = self.node(schema["items"], f"{path}[]", inside)
