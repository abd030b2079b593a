"""The PodDisruptionBudget of an InferenceService. An eviction of a serving pod becomes a request to Forebay."""

from collections.abc import Mapping
from typing import Any, Final

from forebay.api.inference_service import InferenceServiceSpec
from forebay.workloads.objects.ownership import Owner, child_metadata, serving_selector
from forebay.world.world import ReplicaShape

DISRUPTION_BUDGET: Final = "PodDisruptionBudget"


def disruption_budget_body(owner: Owner, min_available: int) -> dict[str, Any]:
    """The budget. No serving pod can be evicted, since there are never more than `min_available` of them.

    Forebay answers an eviction itself: it creates a replacement, drains the pod and deletes it. Pods that are not Ready
    may be evicted.
    """
    return {
        "apiVersion": "policy/v1",
        "kind": DISRUPTION_BUDGET,
        "metadata": child_metadata(owner, owner.key.name),
        "spec": {
            "selector": {"matchLabels": serving_selector(owner)},
            "minAvailable": min_available,
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
        },
    }


def min_available(spec: InferenceServiceSpec, shape: ReplicaShape) -> int:
    """The most pods that can ever serve at once, so that none of them can be evicted."""
    return (spec.scaling.max_replicas + spec.rollout.max_surge) * shape.pods


def disruption_budget_fields(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a PodDisruptionBudget that Forebay sets."""
    names = ("selector", "minAvailable", "unhealthyPodEvictionPolicy")
    return {name: spec.get(name) for name in names}
