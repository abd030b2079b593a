"""ControllerRevisions: the stored form of a resolved spec, from which pods are built.

The API server keeps the `data` of a ControllerRevision from changing, so a running service stays as it is under a new
operator.
"""

import json
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from forebay.api.labels import REVISION, SPEC_HASH
from forebay.api.schema.base_model import Model
from forebay.workloads.canonical_json import canonical_json
from forebay.workloads.objects.ownership import Owner, child_metadata
from forebay.workloads.objects.placeholder import place_of
from forebay.world.world import ReplicaShape, Revision


class RevisionShape(Model):
    """The shape of a replica as it is stored in a ControllerRevision."""

    pods: int
    gpus_per_pod: int
    resource_name: str
    node_selector: dict[str, str]

    def to_replica_shape(self) -> ReplicaShape:
        return ReplicaShape(
            pods=self.pods,
            gpus_per_pod=self.gpus_per_pod,
            resource_name=self.resource_name,
            node_selector=tuple(sorted(self.node_selector.items())),
        )


def revision_name(owner: Owner, revision_hash: str) -> str:
    return f"{owner.key.name}-{owner.short_uid}-{revision_hash}"


def controller_revision(owner: Owner, revision: Revision, number: int) -> dict[str, Any]:
    """The ControllerRevision to create."""
    metadata = child_metadata(owner, revision_name(owner, revision.hash))
    metadata["labels"][REVISION] = revision.hash
    metadata["annotations"] = {SPEC_HASH: revision.spec_hash}
    return {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": metadata,
        "revision": number,
        "data": json.loads(revision.data),
    }


def read_revision(
    *, name: str, labels: Mapping[str, str], annotations: Mapping[str, str], number: int, data: Mapping[str, Any]
) -> Revision | None:
    """The revision in a stored ControllerRevision; None for an object that another operator wrote."""
    revision_hash = labels.get(REVISION)
    if revision_hash is None or "pod" not in data:
        return None
    try:
        shape = RevisionShape.model_validate(data.get("shape")).to_replica_shape()
    except ValidationError:
        return None
    return Revision(
        hash=revision_hash,
        spec_hash=annotations.get(SPEC_HASH, ""),
        shape=shape,
        data=canonical_json(data),
        number=number,
        name=name,
        place=place_of(data["pod"], shape.gpus_per_pod),
        variant=str(data.get("variant", "")),
    )


def engine_version(revision: Revision) -> str:
    """The vLLM version that the revision's pods run; metric names depend on it."""
    return str(json.loads(revision.data)["engine"]["version"])
