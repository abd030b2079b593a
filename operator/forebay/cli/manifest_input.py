"""Reads manifests as Git holds them: files, folders and standard input.

Every document becomes a service, a profile, a WarmPool or a TenantQuota, or a `BadInput` that says where it is and what
is wrong.
"""

import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from forebay.api.inference_service import KIND, InferenceServiceSpec
from forebay.api.performance_profile import PROFILE_KIND
from forebay.api.schema.base_model import GROUP
from forebay.api.schema.manifest import ManifestError, read_profile, read_service, read_tenant_quota, read_warm_pool
from forebay.api.tenant_quota import TENANT_QUOTA_KIND, TenantQuota
from forebay.api.warm_pool import WARM_POOL_KIND, WarmPool
from forebay.capacity.model.profile_choice import GivenProfile, given_profile

STANDARD_INPUT = "-"
SUFFIXES = (".yaml", ".yml", ".json")
DEFAULT_NAMESPACE = "default"
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The C parser where PyYAML was built with it; both are safe."""


@dataclass(frozen=True, slots=True)
class BadInput:
    """Something that cannot be read, and where it is."""

    file: str
    document: int | None
    """Its number in the file, from 1; None for the file as a whole."""
    field: str
    reason: str

    def __str__(self) -> str:
        place = self.file if self.document is None else f"{self.file}: document {self.document}"
        return f"{place}: {self.field}: {self.reason}" if self.field else f"{place}: {self.reason}"


@dataclass(frozen=True, slots=True)
class ServiceManifest:
    """A service, and the document that declares it."""

    file: str
    document: int
    namespace: str
    name: str
    spec: InferenceServiceSpec

    @property
    def key(self) -> tuple[str, str]:
        return self.namespace, self.name


@dataclass(slots=True)
class ManifestInput:
    """All objects and all faults of the manifests."""

    services: list[ServiceManifest] = field(default_factory=list)
    profiles: list[GivenProfile] = field(default_factory=list)
    warm_pools: list[WarmPool] = field(default_factory=list)
    tenant_quotas: list[TenantQuota] = field(default_factory=list)
    bad: list[BadInput] = field(default_factory=list)

    def refuse(self, file: str, document: int | None, field_: str, reason: str) -> None:
        self.bad.append(BadInput(file, document, field_, reason))


def read_input(paths: Iterable[str]) -> ManifestInput:
    """Read files, folders (recursively) and `-`. What cannot be read is in `bad`; nothing is left out silently."""
    result = ManifestInput()
    for path in paths:
        for name, text in _texts(path, result):
            _read(name, text, result)
    _refuse_duplicates(result)
    if not result.services and not result.bad:
        result.refuse(", ".join(paths), None, "", f"it contains no InferenceService of {GROUP}")
    return result


def read_yaml(text: str) -> Any:
    """Parse one document. Raises yaml.YAMLError."""
    return yaml.load(text, Loader=_LOADER)


def on_one_line(error: Exception) -> str:
    """The message of a parser, which may have several lines."""
    return " ".join(str(error).split())


def _texts(path: str, result: ManifestInput) -> Iterator[tuple[str, str]]:
    if path == STANDARD_INPUT:
        yield "<stdin>", sys.stdin.read()
        return
    root = Path(path)
    if root.is_dir():
        files = sorted(file for file in root.rglob("*") if file.suffix in SUFFIXES and file.is_file())
        if not files:
            result.refuse(path, None, "", f"the folder contains no file that ends with {', '.join(SUFFIXES)}")
    else:
        files = [root]
    for file in files:
        try:
            yield str(file), file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else on_one_line(error)
            result.refuse(str(file), None, "", f"cannot be read: {reason}")


def _read(file: str, text: str, result: ManifestInput) -> None:
    position = 0
    try:
        for position, document in enumerate(yaml.load_all(text, Loader=_LOADER), start=1):
            for item in _items(document):
                if _is_ours(item):
                    _read_object(file, position, item, result)
    except (yaml.YAMLError, RecursionError) as error:
        result.refuse(file, position + 1, "", f"not YAML: {on_one_line(error)}")


def _items(document: Any) -> Iterator[Any]:
    """The objects of a List, which kubectl prints, or the object itself."""
    if isinstance(document, Mapping) and document.get("kind") == "List" and isinstance(document.get("items"), list):
        yield from document["items"]
    else:
        yield document


def _is_ours(document: Any) -> bool:
    """Whether an object is of our API group. A misspelt kind counts, so that it is refused and not skipped."""
    return isinstance(document, Mapping) and str(document.get("apiVersion", "")).startswith(f"{GROUP}/")


def _read_object(file: str, document: int, item: Mapping[str, Any], result: ManifestInput) -> None:
    kind = item.get("kind")
    try:
        if kind == KIND:
            _read_service(file, document, item, result)
        elif kind == PROFILE_KIND:
            profile = read_profile(item)
            result.profiles.append(given_profile(profile.metadata.name, profile.spec))
        elif kind == WARM_POOL_KIND:
            result.warm_pools.append(read_warm_pool(item))
        elif kind == TENANT_QUOTA_KIND:
            result.tenant_quotas.append(read_tenant_quota(item))
        else:
            known = f"{KIND}, {PROFILE_KIND}, {WARM_POOL_KIND} or {TENANT_QUOTA_KIND}"
            reason = f'"{kind}" cannot be planned; use {known}'
            result.refuse(file, document, "kind", reason)
    except ManifestError as error:
        for problem in error.problems:
            where, separator, reason = problem.partition(": ")
            result.refuse(file, document, where if separator else "", reason if separator else problem)


def _read_service(file: str, document: int, item: Mapping[str, Any], result: ManifestInput) -> None:
    """Add a service. Raises ManifestError."""
    service = read_service(item)
    metadata = item.get("metadata")
    namespace = metadata.get("namespace") if isinstance(metadata, Mapping) else None
    if namespace is not None and not isinstance(namespace, str):
        result.refuse(file, document, "metadata.namespace", f"{namespace!r} is not text; put it in quotes")
        return
    result.services.append(
        ServiceManifest(file, document, namespace or DEFAULT_NAMESPACE, service.metadata.name, service.spec)
    )


def _refuse_duplicates(result: ManifestInput) -> None:
    first: dict[tuple[str, str], ServiceManifest] = {}
    for service in result.services:
        earlier = first.setdefault(service.key, service)
        if earlier is not service:
            where = f"{earlier.file}, document {earlier.document}"
            result.refuse(
                service.file,
                service.document,
                "metadata.name",
                f'"{service.namespace}/{service.name}" is also in {where}; keep one, or pipe the output of kustomize',
            )
    result.services[:] = first.values()
