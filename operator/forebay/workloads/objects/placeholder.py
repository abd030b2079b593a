"""Placeholder: a pod that reserves the GPUs of a replica, and pulls the engine's image, until a replica preempts it.

It is derived from the replica's pod, so it fits on the same nodes: same GPUs, CPU and memory, same node selector,
tolerations and affinity, same image. It does not run the engine.
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
"""Runs in every image with a shell and ends at once on SIGTERM, so that the GPUs are free at once."""
GRACE_SECONDS: Final = 1
"""Not 0: the object would be gone before its node has freed the GPUs, and the node would reject the pod that takes
them."""
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
"""Fields copied from the pod of the replica: its scheduling constraints, and what is needed to pull and run its
image."""
KEPT_OF_CONTAINER: Final = ("name", "image", "imagePullPolicy", "resources", "securityContext")
SPREAD: Final[Mapping[str, Any]] = {
    "maxSkew": 1,
    "topologyKey": "kubernetes.io/hostname",
    "whenUnsatisfiable": "ScheduleAnyway",
}
"""Spread over nodes where the service has no constraint of its own, so that the loss of one node does not take all
placeholders."""


def place_of(pod: Mapping[str, Any], gpus: int) -> Place:
    """The resources and constraints that a pod of a revision needs; `pod` is the stored pod template of the revision.

    The engine's container is the first. Sidecars are left out: their requests are small beside a GPU.
    """
    spec = pod["spec"]
    engine = spec["containers"][0]
    kept = {name: spec[name] for name in KEPT if name in spec}
    spread = [_unlabelled(constraint) for constraint in kept.pop("topologySpreadConstraints", ())]
    data = canonical_json(
        {
            "container": {name: engine[name] for name in KEPT_OF_CONTAINER if name in engine},
            "spec": kept,
            "spread": spread or [dict(SPREAD)],
        }
    )
    return Place(short_hash(data, HASH_LENGTH), gpus, data, engine.get("image", ""))


def build_placeholder(owner: Owner, place: Place, name: str, priority_class: str) -> dict[str, Any]:
    """The pod to create. It lacks the serving label, so it is in no endpoint list and under no disruption budget."""
    data = json.loads(place.data)
    metadata = child_metadata(owner, name)
    ours = dict(metadata["labels"])
    metadata["labels"] |= {labels.ROLE: labels.PLACEHOLDER, labels.PLACEHOLDER_SHAPE: place.hash}
    # Unlike an engine, it may be evicted: when a node is drained, a new placeholder is created on another node.
    metadata["annotations"] = {labels.SAFE_TO_EVICT: "true"}
    selector = {"matchLabels": {**ours, labels.ROLE: labels.PLACEHOLDER}}
    spec = {
        **data["spec"],
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": GRACE_SECONDS,
        "enableServiceLinks": False,
        "automountServiceAccountToken": False,
        "priorityClassName": priority_class,
        "topologySpreadConstraints": [{**constraint, "labelSelector": selector} for constraint in data["spread"]],
        "containers": [{**data["container"], "command": list(COMMAND)}],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": present(spec)}


def _unlabelled(constraint: Mapping[str, Any]) -> dict[str, Any]:
    """The constraint without its selectors. Placeholders get their own, so they are spread among themselves."""
    return {name: value for name, value in constraint.items() if name not in ("labelSelector", "matchLabelKeys")}
