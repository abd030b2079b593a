"""From pydantic models to the structural schemas that Kubernetes takes: inlined, typed at every node, without unions.

No default of a model becomes a schema default: the API server would write it into the stored object, where every GitOps
tool shows it as drift. The description says what an absent field means instead.
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
"""Keywords that a structural schema of ours may have, in the order in which people read them."""
_DROPPED = ("title", "default", "$defs")


class NotStructuralError(TypeError):
    """A model uses something that structural schemas cannot say; a mistake in the model, never in a manifest."""


def structural(model: type[BaseModel], *, tell_defaults: bool = True) -> Schema:
    """The structural schema of a model. Raises NotStructuralError, naming the path, for unions, fixed tuples and
    recursion."""
    document = model.model_json_schema(by_alias=True, mode="validation")
    return _Inliner(document.get("$defs", {}), tell_defaults).node(document, model.__name__, ())


class _Inliner:
    def __init__(self, definitions: Mapping[str, Schema], tell_defaults: bool) -> None:
        self._definitions = definitions
        self._tell_defaults = tell_defaults

    def node(self, node: Schema, path: str, inside: tuple[str, ...]) -> Schema:
        node, inside = self._resolved(node, path, inside)
        found = {key: value for key, value in node.items() if key not in _DROPPED}
        if "const" in found:
            found["enum"] = [found.pop("const")]
        for key, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
            if key in found:
                found[bound], found[key] = found[key], True
        if found.pop("uniqueItems", False):
            found["x-kubernetes-list-type"] = "set"
        if found.get("type") == "array":
            found.setdefault("x-kubernetes-list-type", "atomic")
        if found.get("additionalProperties") is False:
            del found["additionalProperties"]
        self._describe(found, node)
        self._children(found, path, inside)
        unknown = found.keys() - set(_ORDER)
        if unknown:
            raise NotStructuralError(f"{path}: a structural schema has no {', '.join(sorted(unknown))}")
        return {key: found[key] for key in _ORDER if key in found}

    def _resolved(self, node: Schema, path: str, inside: tuple[str, ...]) -> tuple[Schema, tuple[str, ...]]:
        """Follow references and take the one choice of an Optional; what is said beside them wins."""
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

    def _describe(self, found: Schema, node: Schema) -> None:
        text = "\n\n".join(" ".join(part.split()) for part in found.get("description", "").split("\n\n"))
        default = node.get("default")
        if self._tell_defaults and isinstance(default, str | int | bool) and default != "":
            shown = str(default).lower() if isinstance(default, bool) else default
            text = f"{text} Default: {shown}.".strip()
        if text:
            found["description"] = text

    def _children(self, found: Schema, path: str, inside: tuple[str, ...]) -> None:
        if "properties" in found:
            found["properties"] = {
                name: self.node(child, f"{path}.{name}", inside) for name, child in found["properties"].items()
            }
        if isinstance(found.get("additionalProperties"), dict):
            found["additionalProperties"] = self.node(found["additionalProperties"], f"{path}.*", inside)
        if "items" in found:
            found["items"] = self.node(found["items"], f"{path}[]", inside)
