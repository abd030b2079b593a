"""Template merge: adds the fields of a user's PodTemplate to the pods of a service.

Fields that Forebay sets take precedence. The template adds the rest: sidecars and init containers, further volumes,
mounts and environment, resource names such as `ephemeral-storage` or RDMA devices, DNS and host settings, pod
annotations. The container `engine` is Forebay's, and the template's container of that name is merged into it. The
template's labels are ignored, because labels decide which pods serve and are counted.
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
"""Lists to which the template adds entries, and the key field of their entries. Forebay's entries come first."""
_UNIONS: Final = frozenset({"tolerations", "topologySpreadConstraints", "envFrom"})
"""Lists that keep the entries of both sides."""
_WHOLE: Final = frozenset({"startupProbe", "readinessProbe", "livenessProbe", "preStop", "seccompProfile"})
"""Fields that are taken from Forebay as a whole. Each is a choice of one kind; a mixture of two would be rejected."""


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
    """The entries of both sides. Only containers are merged field by field; of other equal entries Forebay's wins."""
    key = _KEYS[name]
    added = {entry[key]: entry for entry in theirs}
    merged = []
    for entry in ours:
        same = added.pop(entry[key], {})
        merged.append(_merge_mappings(entry, same) if name == "containers" else entry)
    return [*merged, *added.values()]
