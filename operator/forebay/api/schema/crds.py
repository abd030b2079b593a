"""The custom resource definitions, made from the models.

The output is the same text every time, so that Git shows only real changes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from forebay.api.inference_service import (
    KIND,
    InferenceService,
    InferenceServiceSpec,
    InferenceServiceStatus,
)
from forebay.api.performance_profile import PROFILE_KIND, PerformanceProfile, PerformanceProfileSpec
from forebay.api.schema.base_model import GROUP, VERSION, Model
from forebay.api.schema.structural_schema import Schema, structural_schema
from forebay.api.warm_pool import WARM_POOL_KIND, PoolSpec, PoolStatus, WarmPool

HEADER = "# Made by `forebay crds` from the models in operator/forebay/api; edit those.\n"


@dataclass(frozen=True, slots=True)
class Column:
    """A column of `kubectl get`; a `wide` column needs `-o wide`."""

    name: str
    path: str
    description: str
    kind: str = "string"
    wide: bool = False

    def manifest(self) -> dict[str, Any]:
        column: dict[str, Any] = {
            "name": self.name,
            "type": self.kind,
            "jsonPath": self.path,
            "description": self.description,
        }
        return column | ({"priority": 1} if self.wide else {})


@dataclass(frozen=True, slots=True)
class CustomKind:
    """One kind of the API."""

    kind: str
    plural: str
    short_names: tuple[str, ...]
    root: type[Model]
    spec: type[Model]
    status: type[Model] | None
    """None for a kind without a status."""
    columns: tuple[Column, ...]
    scope: str = "Namespaced"

    @property
    def name(self) -> str:
        return f"{self.plural}.{GROUP}"

    @property
    def file_name(self) -> str:
        return f"{GROUP}_{self.plural}.yaml"


READY = '.status.conditions[?(@.type=="Ready")]'

INFERENCE_SERVICE = CustomKind(
    kind=KIND,
    plural="inferenceservices",
    short_names=("infs",),
    root=InferenceService,
    spec=InferenceServiceSpec,
    status=InferenceServiceStatus,
    columns=(
        Column("Ready", f"{READY}.status", "Whether the service answers."),
        Column("Desired", ".status.replicas.desired", "Replicas that scaling decided on.", "integer"),
        Column("Model", ".spec.model.source", "Where the weights come from."),
        Column("Queue", ".status.load.queue", "Waiting requests of all replicas.", "integer"),
        Column("KV%", ".status.load.kvPercent", "Used share of the KV cache.", "integer"),
        # People look this table up to learn why there are so many replicas; the rule says it.
        Column("Reason", ".status.decision.rule", "The rule that decided how many replicas there are."),
        Column("Age", ".metadata.creationTimestamp", "Time since creation.", "date"),
        Column("Serving", ".status.replicas.ready", "Replicas that serve.", "integer", wide=True),
        Column(
            "Loading", ".status.replicas.loading", "Replicas that were created and do not serve yet.", "integer", True
        ),
        Column("Draining", ".status.replicas.draining", "Replicas that finish their streams.", "integer", wide=True),
        Column(
            "TPM", ".status.capacity.tokensPerMinute", "Tokens per minute that serving replicas carry.", "integer", True
        ),
        Column("State", f"{READY}.reason", "Why the service answers or does not.", wide=True),
        Column("Because", ".status.decision.because", "The reason for the decision.", wide=True),
    ),
)

PERFORMANCE_PROFILE = CustomKind(
    kind=PROFILE_KIND,
    plural="performanceprofiles",
    short_names=("perf",),
    root=PerformanceProfile,
    spec=PerformanceProfileSpec,
    status=None,
    columns=(
        Column("Model", ".spec.model", "The measured model."),
        Column("GPU", ".spec.product", "The GPU that it was measured on."),
        Column("TP", ".spec.tensorParallelSize", "GPUs over which each layer is split.", "integer"),
        Column("Bits", ".spec.weightBits", "Bits per weight.", "integer"),
        Column("Engine", ".spec.engineVersion", "Minor version of vLLM."),
        Column("Age", ".metadata.creationTimestamp", "Time since creation.", "date"),
    ),
    scope="Cluster",
)

WARM_POOL = CustomKind(
    kind=WARM_POOL_KIND,
    plural="warmpools",
    short_names=("warm",),
    root=WarmPool,
    spec=PoolSpec,
    status=PoolStatus,
    columns=(
        Column("GPU", ".spec.gpu.product", "The GPU that placeholders hold."),
        Column("Each", ".spec.gpusPerPod", "GPUs of one placeholder.", "integer"),
        Column("Wanted", ".status.wanted", "Placeholders to hold.", "integer"),
        Column("Ready", ".status.ready", "Placeholders that hold their GPUs.", "integer"),
        Column("Age", ".metadata.creationTimestamp", "Time since creation.", "date"),
    ),
    scope="Cluster",
)

KINDS = (INFERENCE_SERVICE, PERFORMANCE_PROFILE, WARM_POOL)


def definition(kind: CustomKind) -> dict[str, Any]:
    """The CustomResourceDefinition of a kind."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": kind.name},
        "spec": {
            "group": GROUP,
            "names": {
                "categories": ["forebay"],
                "kind": kind.kind,
                "listKind": f"{kind.kind}List",
                "plural": kind.plural,
                "shortNames": list(kind.short_names),
                "singular": kind.kind.lower(),
            },
            "scope": kind.scope,
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    **({"subresources": {"status": {}}} if kind.status else {}),
                    "additionalPrinterColumns": [column.manifest() for column in kind.columns],
                    "schema": {"openAPIV3Schema": schema(kind)},
                }
            ],
        },
    }


def schema(kind: CustomKind) -> Schema:
    """The schema of a whole object. Of `metadata`, the API server allows a CRD to restrict only the name."""
    root = structural_schema(kind.root, describe_defaults=False)
    name = root["properties"]["metadata"]["properties"]["name"]
    properties: Schema = {
        "apiVersion": {"description": f"Always {GROUP}/{VERSION}.", "type": "string"},
        "kind": {"description": f"Always {kind.kind}.", "type": "string"},
        "metadata": {"type": "object", "properties": {"name": {"type": "string", "maxLength": name["maxLength"]}}},
        "spec": _described(structural_schema(kind.spec), root, "spec"),
    }
    if kind.status is not None:
        properties["status"] = _described(structural_schema(kind.status, describe_defaults=False), root, "status")
    root["properties"] = properties
    root["required"] = ["spec"]
    return root


def text(kind: CustomKind) -> str:
    """The definition as a file."""
    return HEADER + yaml.dump(definition(kind), Dumper=_Dumper, sort_keys=False, width=120, allow_unicode=True)


def files() -> Mapping[str, str]:
    """Every CRD by file name."""
    return {kind.file_name: text(kind) for kind in KINDS}


def _described(part: Schema, root: Schema, name: str) -> Schema:
    return part | {"description": root["properties"][name]["description"]}


class _Dumper(yaml.SafeDumper):
    """Indents lists under their key and writes repeated values without anchors."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)
