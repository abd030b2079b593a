"""Pods of a replica, built from a stored revision and the few fields that differ between pods."""

import json
from collections.abc import Sequence
from typing import Any

from forebay.api import labels
from forebay.workloads.objects.ownership import Owner, child_metadata
from forebay.workloads.objects.ranks import HOSTNAME_LABEL, set_rank_fields
from forebay.world.names import pod_names
from forebay.world.world import Revision


def build_pod(
    owner: Owner, revision: Revision, ordinal: int, rank: int, name: str, avoid_nodes: Sequence[str] = ()
) -> dict[str, Any]:
    """The pod to create. `avoid_nodes` are hostname labels of nodes on which replicas of the service failed."""
    resolved = json.loads(revision.data)
    template = resolved["worker" if rank else "pod"]
    metadata = child_metadata(owner, name)
    metadata["labels"] |= {
        labels.REVISION: revision.hash,
        labels.ORDINAL: str(ordinal),
        labels.RANK: str(rank),
        labels.SERVING: "true",
    }
    if revision.variant:
        metadata["labels"][labels.VARIANT] = revision.variant
    metadata["annotations"] = template["metadata"]["annotations"]
    spec = template["spec"]
    if revision.shape.pods > 1:
        set_rank_fields(spec, owner, revision, ordinal, rank, pod_names(owner.key, owner.uid, revision, ordinal))
    if avoid_nodes:
        spec["affinity"] = _avoiding(spec.get("affinity") or {}, sorted(set(avoid_nodes)))
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _avoiding(affinity: dict[str, Any], nodes: list[str]) -> dict[str, Any]:
    """The affinity with the nodes excluded. Terms are alternatives, so the exclusion is added to each of them."""
    exclusion = {"key": HOSTNAME_LABEL, "operator": "NotIn", "values": nodes}
    node_affinity = affinity.get("nodeAffinity") or {}
    required = node_affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    terms = [
        {**term, "matchExpressions": [*(term.get("matchExpressions") or []), exclusion]}
        for term in required.get("nodeSelectorTerms") or [{}]
    ]
    required = {**required, "nodeSelectorTerms": terms}
    node_affinity = {**node_affinity, "requiredDuringSchedulingIgnoredDuringExecution": required}
    return {**affinity, "nodeAffinity": node_affinity}
