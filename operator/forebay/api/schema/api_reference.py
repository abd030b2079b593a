"""The API reference page docs/api.md, made from the same schemas as the CRDs."""

from collections.abc import Iterator

from forebay.api.schema.base_model import API_VERSION
from forebay.api.schema.crds import KINDS, CustomKind, schema
from forebay.api.schema.structural_schema import Schema

_INTRODUCTION = f"""\
# API reference

<!-- Made by `forebay crds --docs` from the models in operator/forebay/api; edit those. -->

Group and version `{API_VERSION}`. The API server refuses whatever breaks a bound or a rule on this page and says why;
`forebay` reads manifests by the same rules without a cluster. No default is written into stored objects: a field that a
manifest leaves out stays absent, and the description says what that means.
"""


def page() -> str:
    """The whole page as Markdown."""
    parts = [_INTRODUCTION]
    for kind in KINDS:
        parts.extend(_kind(kind))
    return "\n".join(parts)


def _kind(kind: CustomKind) -> Iterator[str]:
    root = schema(kind)
    yield f"## {kind.kind}\n\n{root['description']}\n"
    yield (
        f"Short name `{kind.short_names[0]}`, category `forebay`, {kind.scope.lower()}. {_rules(root)}".rstrip() + "\n"
    )
    for name in ("spec", "status") if kind.status else ("spec",):
        yield from _section(root["properties"][name], name)
    yield "### Columns of `kubectl get`\n\n| column | path | meaning |\n|---|---|---|"
    for column in kind.columns:
        yield f"| {column.name}{' (wide)' if column.wide else ''} | `{column.path}` | {column.description} |"
    yield ""


def _section(node: Schema, path: str) -> Iterator[str]:
    """A table for one object, then one for each object inside it."""
    yield f"### {path}\n\n{node['description']}\n"
    if rules := _rules(node):
        yield f"{rules}\n"
    yield "| field | type | meaning |\n|---|---|---|"
    required = node.get("required", [])
    objects: list[tuple[Schema, str]] = []
    for name, child in node["properties"].items():
        title = f"`{name}`{' (required)' if name in required else ''}"
        target, suffix = (child["items"], "[]") if child["type"] == "array" else (child, "")
        child_rules = [_rules(child), _item_rules(child)]
        if "properties" in target:
            objects.append((target | {"description": target.get("description", child["description"])}, name + suffix))
            child_rules = [_rules(child)] if suffix else []
        meaning = " ".join(part for part in (child["description"], *child_rules) if part)
        yield f"| {title} | {_type(child)} | {meaning.replace('|', '&#124;')} |"
    yield ""
    for target, name in objects:
        yield from _section(target, f"{path}.{name}")


def _type(node: Schema) -> str:
    if "enum" in node:
        return ", ".join(f"`{value}`" for value in node["enum"])
    if node["type"] == "array":
        item = "object" if "properties" in node["items"] else _type(node["items"])
        return f"list of {item}, at most {node['maxItems']}"
    if node["type"] in ("integer", "number"):
        return f"{node['type']}, {node['minimum']} to {node['maximum']}"
    if node["type"] == "string":
        return f"string, at most {node['maxLength']} characters"
    if "additionalProperties" in node:
        return f"map to {_type(node['additionalProperties'])}, at most {node['maxProperties']}"
    return str(node["type"])


def _rules(node: Schema) -> str:
    messages = [rule["message"].replace("<value>", "…") for rule in node.get("x-kubernetes-validations", [])]
    return f"Refused when: {'; or when: '.join(messages)}." if messages else ""


def _item_rules(node: Schema) -> str:
    item = node.get("items") or node.get("additionalProperties")
    return _rules(item) if item else ""
