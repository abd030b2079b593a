"""Ownership: the controller reference and the labels of every child object.

Forebay never changes an object of which it is not the controller by uid, so every object it builds names its
controller.
"""

from dataclasses import dataclass
from typing import Any

from forebay.api import labels
from forebay.api.inference_service import KIND
from forebay.api.schema.base_model import API_VERSION
from forebay.api.warm_pool import WARM_POOL_KIND
from forebay.world.names import UID_CHARACTERS
from forebay.world.world import ServiceKey


@dataclass(frozen=True, slots=True)
class Owner:
    """The InferenceService, or the WarmPool, that children are built for."""

    key: ServiceKey
    """Namespace and name. A WarmPool has no namespace, so its key has the namespace of its pods."""
    uid: str
    kind: str = KIND

    @property
    def short_uid(self) -> str:
        """Part of child names. A service that is deleted and created again under its name gets new child names."""
        return self.uid.replace("-", "")[:UID_CHARACTERS]


def owner_reference(owner: Owner) -> dict[str, Any]:
    """Controller reference that blocks deletion: garbage collection removes the children, and foreground deletion waits
    for them."""
    return {
        "apiVersion": API_VERSION,
        "kind": owner.kind,
        "name": owner.key.name,
        "uid": owner.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def child_labels(owner: Owner) -> dict[str, str]:
    if owner.kind == WARM_POOL_KIND:
        return {labels.MANAGED_BY: labels.MANAGER, labels.WARM_POOL: owner.key.name}
    return {
        labels.MANAGED_BY: labels.MANAGER,
        labels.SERVICE: owner.key.name,
        labels.SERVICE_UID: owner.uid,
    }


def child_metadata(owner: Owner, name: str) -> dict[str, Any]:
    """Name, namespace, labels and controller of a child. Labels and annotations of the parent are not copied."""
    return {
        "name": name,
        "namespace": owner.key.namespace,
        "labels": child_labels(owner),
        "ownerReferences": [owner_reference(owner)],
    }


def serving_selector(owner: Owner) -> dict[str, str]:
    """Labels of the serving pods of a service, those of all ranks."""
    return {labels.SERVICE_UID: owner.uid, labels.SERVING: "true"}
