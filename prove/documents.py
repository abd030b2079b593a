"""Changes to YAML, found by the kind of the document and the way of keys to a value; the template around it stays."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

from prove.fault import MisfitError

MASK = "~"
"""Stands for each character of a Helm expression, so that what is left can be read and keeps its place."""


@dataclass(frozen=True, slots=True)
class Item:
    """The item of a list that mentions a word."""

    word: str


@dataclass(frozen=True, slots=True)
class YamlChange:
    folder: str
    kind: str
    keys: tuple[str | Item, ...]
    new: str

    def rewritten(self, root: Path) -> tuple[Path, str]:
        found = [
            (path, text, node)
            for path in sorted(root.joinpath(self.folder).rglob("*.yaml"))
            for text in [path.read_text()]
            if self.kind in text
            for document in yaml.compose_all(_masked(text), yaml.SafeLoader)
            if document is not None and self.kind in _kinds(document)
            for node in _reached(document, self.keys)
        ]
        if len(found) != 1:
            keys = ".".join(str(key) for key in self.keys)
            raise MisfitError(f"{self.kind} in {self.folder} has {keys} {len(found)} times instead of once")
        path, text, node = found[0]
        return path, text[: node.start_mark.index] + self.new + text[node.end_mark.index :]


def in_yaml(folder: str, kind: str, *keys: str | Item, new: str) -> YamlChange:
    """Put `new` (YAML in one line) where the keys lead, in the one document of the kind where they lead anywhere."""
    return YamlChange(folder, kind, keys, new)


def _masked(text: str) -> str:
    """Lines that only steer Helm are blank."""

    def mask(found: re.Match[str]) -> str:
        filler = " " if found["line"] is not None else MASK
        return re.sub(r"[^\n]", filler, found[0])

    return re.sub(r"(?m)(?P<line>^[ \t]*\{\{.*\}\}[ \t]*$)|\{\{.*?\}\}", mask, text)


def _kinds(document: yaml.Node) -> Iterator[str]:
    return (str(node.value).strip(MASK) for node in _reached(document, ("kind",)))


def _reached(node: yaml.Node, keys: tuple[str | Item, ...]) -> Iterator[yaml.Node]:
    if not keys:
        yield node
        return
    key, *rest = keys
    if isinstance(key, Item) and isinstance(node, yaml.SequenceNode):
        inner = [item for item in node.value if key.word in yaml.serialize(item)]
    elif isinstance(node, yaml.MappingNode):
        inner = [item for own, item in node.value if own.value == key]
    else:
        inner = []
    for item in inner:
        yield from _reached(item, tuple(rest))
