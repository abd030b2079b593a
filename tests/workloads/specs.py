"""Builders of specs, revisions and pods."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from forebay.api.inference_service import InferenceServiceSpec
from forebay.workloads.objects.ownership import Owner
from forebay.workloads.objects.pod import build_pod
from forebay.workloads.spec.engine_versions import Defaults
from forebay.workloads.spec.resolve import resolve
from forebay.world.names import pod_names
from forebay.world.world import Revision, ServiceKey

GOLDEN = Path(__file__).parent / "golden"
CHAT = Owner(ServiceKey("team-a", "chat"), "0f4c1d2e-5b6a-4c3d-9e8f-a1b2c3d4e5f6")
MODEL = {"source": "hf://Qwen/Qwen2.5-7B-Instruct"}


def a_spec(text: str = "", /, **blocks: Any) -> InferenceServiceSpec:
    """A spec from YAML or keyword blocks, with a default model."""
    return InferenceServiceSpec.model_validate({"model": MODEL} | (yaml.safe_load(text) or {}) | blocks)


def a_revision(
    spec: InferenceServiceSpec,
    restarted_at: str | None = None,
    defaults: Defaults | None = None,
    template: Mapping[str, Any] | None = None,
    owner: Owner = CHAT,
) -> Revision:
    resolved = resolve(spec, owner, restarted_at, defaults, template)
    assert isinstance(resolved, Revision), resolved
    return resolved


def a_pod(
    spec: InferenceServiceSpec,
    template: Mapping[str, Any] | None = None,
    avoid_nodes: Sequence[str] = (),
    owner: Owner = CHAT,
    rank: int = 0,
) -> dict[str, Any]:
    """The pod of that rank of the first replica."""
    revision = a_revision(spec, template=template, owner=owner)
    name = pod_names(owner.key, owner.uid, revision, 0)[rank]
    return build_pod(owner, revision, 0, rank, name, avoid_nodes)


def engine_of(pod: Mapping[str, Any]) -> Mapping[str, Any]:
    """The pod's engine container."""
    engine: Mapping[str, Any] = next(entry for entry in pod["spec"]["containers"] if entry["name"] == "engine")
    return engine


def arguments_of(spec: InferenceServiceSpec) -> list[str]:
    return list(engine_of(a_pod(spec))["args"])
