"""Objects that are refused, each with the expected message and a corrected one that is accepted.

One table for two judges: the API server, and `forebay` reading the same manifest without one.
"""

from __future__ import annotations

import copy
import re
from dataclasses import dataclass
from typing import Any

Manifest = dict[str, Any]

SOURCE = "hf://meta-llama/Llama-3.1-8B-Instruct"
_STEP = re.compile(r"[^.\[\]]+|\[\d+\]")


@dataclass(frozen=True, slots=True)
class Case:
    """`field` of a small, valid service set to `wrong` and then to `right`."""

    id: str
    field: str
    wrong: Any
    right: Any
    says: str
    """Part of the API server's message."""
    offline: str | None = None
    """Part of the message without an API server, if it differs: for bounds, types and enums."""
    at: str | None = None
    """The field that the message names, if it is not `field`."""

    @property
    def refused(self) -> Manifest:
        return with_field(self.field, self.wrong)

    @property
    def accepted(self) -> Manifest:
        return with_field(self.field, self.right)

    @property
    def named(self) -> str:
        return self.at or self.field

    def __str__(self) -> str:
        return self.id


@dataclass(frozen=True, slots=True)
class QuotaCase(Case):
    """`field` of a small, valid TenantQuota set to `wrong` and then to `right`."""

    @property
    def refused(self) -> Manifest:
        return with_field(self.field, self.wrong, a_quota())

    @property
    def accepted(self) -> Manifest:
        return with_field(self.field, self.right, a_quota())

    def __str__(self) -> str:
        return self.id


def a_manifest(name: str = "chat") -> Manifest:
    """The smallest spec that is accepted."""
    return {
        "apiVersion": "forebay.dev/v1alpha1",
        "kind": "InferenceService",
        "metadata": {"name": name},
        "spec": {"model": {"source": SOURCE}},
    }


def a_quota(name: str = "support") -> Manifest:
    """The smallest quota that is accepted."""
    return {
        "apiVersion": "forebay.dev/v1alpha1",
        "kind": "TenantQuota",
        "metadata": {"name": name},
        "spec": {},
    }


def with_field(path: str, value: Any, manifest: Manifest | None = None) -> Manifest:
    """The smallest manifest with one field set; lists on the path are filled with empty objects."""
    manifest = manifest or a_manifest()
    node: Any = manifest
    steps = _STEP.findall(path)
    for step in steps[:-1]:
        node = node.setdefault(step, {})
    node[steps[-1]] = copy.deepcopy(value)
    return manifest


def a_volume(**fields: Any) -> Manifest:
    return {"name": "adapters", "mountPath": "/adapters", "pvc": "adapters"} | fields


def volume_from(**source: Any) -> list[Manifest]:
    return [{"name": "adapters", "mountPath": "/adapters", **source}]


def node_affinity(**requirement: Any) -> Manifest:
    terms = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", **requirement}]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
