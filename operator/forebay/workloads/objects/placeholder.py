"""Placeholders as pods: what holds a replica's place, and has the engine's image pulled, until a replica takes it.

Made from the pod that would take the place, so that it fits wherever that one fits: same GPUs, CPU and memory, same
nodes, tolerations and affinity, same image. Nothing of what the engine does is in it.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from forebay.api import labels
from forebay.workloads.canonical_json import canonical_json, present, short_hash
from forebay.workloads.objects.ownership import Owner, child_metadata
from forebay.world.world import Place

HASH_LENGTH: Final = 7
COMMAND: Final = ("/bin/sh", "-c", "trap 'exit 0' TERM; sleep infinity & wait")
"""In every image with a shell; it ends at once when it is told to, so that its place is free at once."""
GRACE_SECONDS: Final = 1
"""Not 0: the object would go before its node has freed the GPUs, and the pod that takes them would be refused there."""
KEPT: Final = (
    "serviceAccountName",
    "imagePullSecrets",
    "runtimeClassName",
    "schedulerName",
    "nodeSelector",
    "tolerations",
    "affinity",
    "topologySpreadConstraints",
    "securityContext",
)
"""Of the pod that would take the place: where it may be, and what it takes to pull and run its image."""
KEPT_OF_CONTAINER: Final = ("name", "image", "imagePullPolicy", "resources", "securityContext")
SPREAD: Final[Mapping[str, Any]] = {
    "maxSkew": 1,
    "topologyKey": "kubernetes.io/hostname",
    "whenUnsatisfiable": "ScheduleAnyway",
}
"""Over nodes, where the service itself says nothing: the loss of one should not take all of them."""


def place_of(pod: Mapping[str, Any], gpus: int) -> Place:
    """The place that a pod of a revision takes; `pod` is what the revision stores of it.

    Our container is the first. Sidecars take no part: what they ask for is small beside a GPU.
    """
    spec = pod["spec"]
    engine = spec["containers"][0]
    held = {name: spec[name] for name in KEPT if name in spec}
    spread = [_unlabelled(constraint) for constraint in held.pop("topologySpreadConstraints", ())]
    data = canonical_json(
        {
            "container": {name: engine[name] for name in KEPT_OF_CONTAINER if name in engine},
            "spec": held,
            "spread": spread or [dict(SPREAD)],
        }
    )
    return Place(short_hash(data, HASH_LENGTH), gpus, data, engine.get("image", ""))


def build_placeholder(owner: Owner, place: Place, name: str, priority_class: str) -> dict[str, Any]:
    """The pod to create. Without the serving label it is in no endpoint list, and under no budget."""
    data = json.loads(place.data)
    metadata = child_metadata(owner, name)
    ours = dict(metadata["labels"])
    metadata["labels"] |= {labels.ROLE: labels.PLACEHOLDER, labels.PLACEHOLDER_SHAPE: place.hash}
    # Unlike an engine, it may be moved: where nodes are emptied, it finds another place or is made anew.
    metadata["annotations"] = {labels.SAFE_TO_EVICT: "true"}
    alike = {"matchLabels": {**ours, labels.ROLE: labels.PLACEHOLDER}}
    spec = {
        **data["spec"],
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": GRACE_SECONDS,
        "enableServiceLinks": False,
        "automountServiceAccountToken": False,
        "priorityClassName": priority_class,
        "topologySpreadConstraints": [{**constraint, "labelSelector": alike} for constraint in data["spread"]],
        "containers": [{**data["container"], "command": list(COMMAND)}],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": present(spec)}


def _unlabelled(constraint: Mapping[str, Any]) -> dict[str, Any]:
    """Placeholders are spread among themselves."""
    return {name: value for name, value in constraint.items() if name not in ("labelSelector", "matchLabelKeys")}
