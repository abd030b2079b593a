"""Manifests as Git holds them: files, folders and standard input, read into services to plan, or into what is wrong."""

import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from forebay.api.inference_service import KIND, InferenceServiceSpec
from forebay.api.performance_profile import PROFILE_KIND
from forebay.api.schema.base_model import GROUP
from forebay.api.schema.manifest import ManifestError, read_profile, read_service, read_warm_pool
from forebay.api.warm_pool import WARM_POOL_KIND, WarmPool
from forebay.capacity.model.profile_choice import GivenProfile, given_profile

STANDARD_INPUT = "-"
SUFFIXES = (".yaml", ".yml", ".json")
DEFAULT_NAMESPACE = "default"
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The C parser where PyYAML was built with it; both are safe."""


@dataclass(frozen=True, slots=True)
class BadInput:
    """What cannot be read, and where."""

    file: str
    document: int | None
    """Counted from 1; None for the file as a whole."""
    field: str
    reason: str

    def __str__(self) -> str:
        place = self.file if self.document is None else f"{self.file}: document {self.document}"
        return f"{place}: {self.field}: {self.reason}" if self.field else f"{place}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Manifest:
    """A service, and where it was found."""

    file: str
    document: int
    namespace: str
    name: str
    spec: InferenceServiceSpec

    @property
    def key(self) -> tuple[str, str]:
        return self.namespace, self.name


@dataclass(slots=True)
class Input:
    """Everything that was read."""

    manifests: list[Manifest] = field(default_factory=list)
    profiles: list[GivenProfile] = field(default_factory=list)
    warm_pools: list[WarmPool] = field(default_factory=list)
    bad: list[BadInput] = field(default_factory=list)

    def refuse(self, file: str, document: int | None, field_: str, reason: str) -> None:
        self.bad.append(BadInput(file, document, field_, reason))


def read_input(paths: Iterable[str]) -> Input:
    """All services of files, folders (with what is below them) and `-`; nothing is left out silently."""
    found = Input()
    for path in paths:
        for name, text in _texts(path, found):
            _read(name, text, found)
    _refuse_repetition(found)
    if not found.manifests and not found.bad:
        found.refuse(", ".join(paths), None, "", f"no InferenceService of {GROUP} is in it")
    return found


def read_yaml(text: str) -> Any:
    """One document. Raises yaml.YAMLError."""
    return yaml.load(text, Loader=_LOADER)


def said(error: Exception) -> str:
    """A parser's many lines as one."""
    return " ".join(str(error).split())


def _texts(path: str, found: Input) -> Iterator[tuple[str, str]]:
    if path == STANDARD_INPUT:
        yield "<stdin>", sys.stdin.read()
        return
    root = Path(path)
    if root.is_dir():
        files = sorted(file for file in root.rglob("*") if file.suffix in SUFFIXES and file.is_file())
        if not files:
            found.refuse(path, None, "", f"no file that ends with {', '.join(SUFFIXES)} is in the folder")
    else:
        files = [root]
    for file in files:
        try:
            yield str(file), file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else said(error)
            found.refuse(str(file), None, "", f"cannot be read: {reason}")


def _read(file: str, text: str, found: Input) -> None:
    position = 0
    try:
        for position, document in enumerate(yaml.load_all(text, Loader=_LOADER), start=1):
            for item in _items(document):
                if _is_ours(item):
                    _read_object(file, position, item, found)
    except (yaml.YAMLError, RecursionError) as error:
        found.refuse(file, position + 1, "", f"not YAML: {said(error)}")


def _items(document: Any) -> Iterator[Any]:
    """The objects of a List, as kubectl prints them, or the object itself."""
    if isinstance(document, Mapping) and document.get("kind") == "List" and isinstance(document.get("items"), list):
        yield from document["items"]
    else:
        yield document


def _is_ours(document: Any) -> bool:
    """Of the group, whatever the kind: one that is misspelt is refused, not passed over."""
    return isinstance(document, Mapping) and str(document.get("apiVersion", "")).startswith(f"{GROUP}/")


def _read_object(file: str, document: int, item: Mapping[str, Any], found: Input) -> None:
    kind = item.get("kind")
    try:
        if kind == KIND:
            _read_service(file, document, item, found)
        elif kind == PROFILE_KIND:
            profile = read_profile(item)
            found.profiles.append(given_profile(profile.metadata.name, profile.spec))
        elif kind == WARM_POOL_KIND:
            found.warm_pools.append(read_warm_pool(item))
        else:
            reason = f'"{kind}" is not a kind that is planned; use {KIND}, {PROFILE_KIND} or {WARM_POOL_KIND}'
            found.refuse(file, document, "kind", reason)
    except ManifestError as error:
        for problem in error.problems:
            where, separator, reason = problem.partition(": ")
            found.refuse(file, document, where if separator else "", reason if separator else problem)


def _read_service(file: str, document: int, item: Mapping[str, Any], found: Input) -> None:
    """Raises ManifestError."""
    service = read_service(item)
    metadata = item.get("metadata")
    namespace = metadata.get("namespace") if isinstance(metadata, Mapping) else None
    if namespace is not None and not isinstance(namespace, str):
        found.refuse(file, document, "metadata.namespace", f"{namespace!r} is not text; put it in quotes")
        return
    found.manifests.append(
        Manifest(file, document, namespace or DEFAULT_NAMESPACE, service.metadata.name, service.spec)
    )


def _refuse_repetition(found: Input) -> None:
    first: dict[tuple[str, str], Manifest] = {}
    for manifest in found.manifests:
        other = first.setdefault(manifest.key, manifest)
        if other is not manifest:
            where = f"{other.file}, document {other.document}"
            found.refuse(
                manifest.file,
                manifest.document,
                "metadata.name",
                f'"{manifest.namespace}/{manifest.name}" is also in {where}; keep one, or pipe the output of kustomize',
            )
    found.manifests[:] = first.values()
