"""What a user's PodTemplate adds to the pods of a service.

Everything that Forebay sets wins; the template fills in the rest: sidecars and init containers, further volumes, mounts
and environment, resource names such as `ephemeral-storage` or RDMA devices, DNS and host settings, pod annotations.
The container called `engine` is ours, and what the template says of it is merged into it. The template's labels are not
taken: labels decide which pods are served and counted.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

_KEYS: Final[Mapping[str, str]] = {
    "containers": "name",
    "volumes": "name",
    "env": "name",
    "volumeMounts": "mountPath",
    "ports": "containerPort",
    "imagePullSecrets": "name",
}
"""Lists to which the template adds, and the field that tells entries apart; ours come first."""
_UNIONS: Final = frozenset({"tolerations", "topologySpreadConstraints", "envFrom"})
"""Lists of which both sides' entries stand."""
_WHOLE: Final = frozenset({"startupProbe", "readinessProbe", "livenessProbe", "preStop", "seccompProfile"})
"""Ours as they are: one of several kinds, and half of another kind beside it would be refused."""


def merge_template(ours: Mapping[str, Any], template: Mapping[str, Any]) -> dict[str, Any]:
    """`template` is the `template` field of a PodTemplate; `ours` is what `pod_template` built."""
    theirs = {
        "metadata": {"annotations": (template.get("metadata") or {}).get("annotations") or {}},
        "spec": template.get("spec") or {},
    }
    return _merge_mappings(ours, theirs)


def _merge_mappings(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(ours)
    for name, value in theirs.items():
        merged[name] = _merge_values(name, ours[name], value) if name in ours else value
    return merged


def _merge_values(name: str, ours: Any, theirs: Any) -> Any:
    if isinstance(ours, Mapping) and isinstance(theirs, Mapping) and name not in _WHOLE:
        return _merge_mappings(ours, theirs)
    if isinstance(ours, list) and isinstance(theirs, list):
        if name in _KEYS:
            return _merge_lists(name, ours, theirs)
        if name in _UNIONS:
            return [*ours, *(entry for entry in theirs if entry not in ours)]
    return ours


def _merge_lists(name: str, ours: Sequence[Any], theirs: Sequence[Any]) -> list[Any]:
    """Only containers are merged inside: a volume or a variable has one source, ours."""
    key = _KEYS[name]
    added = {entry[key]: entry for entry in theirs}
    merged = []
    for entry in ours:
        same = added.pop(entry[key], {})
        merged.append(_merge_mappings(entry, same) if name == "containers" else entry)
    return [*merged, *added.values()]
