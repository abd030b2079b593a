"""Who a child belongs to: the controller reference and the labels that every child carries.

Objects that are not ours by controller uid are never touched, so everything built here names its controller.
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
    """Of a WarmPool the namespace of its pods; it has none itself."""
    uid: str
    kind: str = KIND

    @property
    def short_uid(self) -> str:
        """In names: a service made again under its old name meets no name of its predecessor."""
        return self.uid.replace("-", "")[:UID_CHARACTERS]


def owner_reference(owner: Owner) -> dict[str, Any]:
    """Controller and blocking, so that garbage collection removes children and foreground deletion waits for them."""
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
    """Name, namespace, labels and controller of a child; nothing of the parent's own labels or annotations."""
    return {
        "name": name,
        "namespace": owner.key.namespace,
        "labels": child_labels(owner),
        "ownerReferences": [owner_reference(owner)],
    }
