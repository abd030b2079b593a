"""Reads manifests without a cluster, as strictly as the API server reads them for `kubectl apply`."""

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from functools import cache
from typing import Any, TypeVar

import yaml
from pydantic import ValidationError

from forebay.api.inference_service import InferenceService
from forebay.api.performance_profile import PROFILE_KIND, PerformanceProfile
from forebay.api.schema.base_model import GROUP, Model
from forebay.api.schema.crds import INFERENCE_SERVICE, PERFORMANCE_PROFILE, TENANT_QUOTA, WARM_POOL, CustomKind, schema
from forebay.api.schema.structural_schema import Schema
from forebay.api.schema.validation_errors import shown_value, validation_messages
from forebay.api.tenant_quota import TENANT_QUOTA_KIND, TenantQuota
from forebay.api.warm_pool import WARM_POOL_KIND, WarmPool

OTHER_KINDS = (PROFILE_KIND, TENANT_QUOTA_KIND, WARM_POOL_KIND)
Read = TypeVar("Read", bound=Model)


class ManifestError(ValueError):
    """The problems of a manifest, one sentence each."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


def read_services(text: str) -> tuple[InferenceService, ...]:
    """Every InferenceService of a YAML text; objects of other groups are skipped. Raises ManifestError."""
    try:
        documents = list(yaml.safe_load_all(text))
    except yaml.YAMLError as error:
        raise ManifestError((f"the text is not valid YAML: {' '.join(str(error).split())}",)) from error
    ours = [document for document in documents if _is_ours(document) and document.get("kind") not in OTHER_KINDS]
    if not ours:
        raise ManifestError((f"the text contains no InferenceService of {GROUP}",))
    return tuple(read_service(document) for document in ours)


def read_service(document: Any) -> InferenceService:
    """One InferenceService. Raises ManifestError with all problems; rules over fields that are invalid by themselves
    are not checked."""
    return _read(document, INFERENCE_SERVICE, InferenceService)


def read_profile(document: Any) -> PerformanceProfile:
    """One PerformanceProfile. Raises ManifestError."""
    return _read(document, PERFORMANCE_PROFILE, PerformanceProfile)


def read_warm_pool(document: Any) -> WarmPool:
    """One WarmPool. Raises ManifestError."""
    return _read(document, WARM_POOL, WarmPool)


def read_tenant_quota(document: Any) -> TenantQuota:
    """One TenantQuota. Raises ManifestError."""
    return _read(document, TENANT_QUOTA, TenantQuota)


def _read(document: Any, kind: CustomKind, model: type[Read]) -> Read:
    if not isinstance(document, Mapping):
        raise ManifestError((f"{shown_value(document)} is not a manifest; write a map with apiVersion, kind and spec",))
    document = _without_nulls(document)
    problems = tuple(_unknown_fields(document.get("spec"), _spec_schema(kind), "spec"))
    try:
        manifest = model.model_validate(document)
    except ValidationError as error:
        raise ManifestError((*problems, *validation_messages(error))) from error
    if problems:
        raise ManifestError(problems)
    return manifest


def _is_ours(document: Any) -> bool:
    return isinstance(document, Mapping) and str(document.get("apiVersion", "")).startswith(f"{GROUP}/")


@cache
def _spec_schema(kind: CustomKind) -> Schema:
    spec: Schema = schema(kind)["properties"]["spec"]
    return spec


def _without_nulls(value: Any) -> Any:
    """The value without null fields: the API server drops them, so null means absent."""
    if isinstance(value, Mapping):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    return value if not isinstance(value, list) else [_without_nulls(item) for item in value]


def _unknown_fields(value: Any, node: Schema, path: str) -> Iterator[str]:
    """Fields that the API server would refuse under strict validation, kubectl's default."""
    if isinstance(value, list) and "items" in node:
        for position, item in enumerate(value):
            yield from _unknown_fields(item, node["items"], f"{path}[{position}]")
    if not isinstance(value, Mapping) or "properties" not in node:
        return
    known = node["properties"]
    for name, item in value.items():
        if name in known:
            yield from _unknown_fields(item, known[name], f"{path}.{name}")
            continue
        similar = get_close_matches(str(name), known, n=1)
        remedy = f"did you mean {similar[0]}?" if similar else f"use {', '.join(known)}."
        yield f"{path}.{name}: unknown field; {remedy}"
