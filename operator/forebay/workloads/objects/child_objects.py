"""Child objects: the Services and the PodDisruptionBudget of an InferenceService, and how a change to them is detected.

All are written by server-side apply. The planner compares fingerprints of what Forebay would write and of the same
fields of the live object. Defaults of the API server and fields of other owners make no difference.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from forebay.api.labels import MANAGED_BY, SERVICE_UID
from forebay.api.labels import SERVICE as SERVICE_NAME
from forebay.workloads.canonical_json import canonical_json, short_hash
from forebay.workloads.objects.disruption_budget import (
    DISRUPTION_BUDGET,
    disruption_budget_body,
    disruption_budget_fields,
    min_available,
)
from forebay.workloads.objects.ownership import Owner
from forebay.workloads.objects.ranks_service import RENDEZVOUS_PORT, ranks_service_body
from forebay.workloads.objects.service import SERVICE, SERVICE_PORT, service_body, service_fields
from forebay.world.world import ChildView, ReplicaShape, ServiceView

FINGERPRINT_LENGTH: Final = 13


def wanted_children(service: ServiceView) -> tuple[ChildView, ...]:
    """The child objects that the cluster should have; none for a service that cannot run or is being deleted."""
    if service.spec is None or service.wanted is None or service.deleting:
        return ()
    owner = Owner(service.key, service.uid)
    shape = widest(service, service.wanted.shape)
    bodies = child_bodies(owner, min_available(service.spec, shape), groups=shape.pods > 1)
    return tuple(
        ChildView(
            kind=body["kind"],
            namespace=owner.key.namespace,
            name=body["metadata"]["name"],
            owner_uid=owner.uid,
            fingerprint=fingerprint(body["kind"], body["metadata"]["labels"], body["spec"]),
            body=body,
        )
        for body in bodies
    )


def child_bodies(owner: Owner, min_available: int, *, groups: bool) -> tuple[dict[str, Any], ...]:
    """All objects of a service except pods and revisions. `groups`: its replicas have several pods each."""
    bodies = (service_body(owner), disruption_budget_body(owner, min_available))
    return (*bodies, ranks_service_body(owner)) if groups else bodies


def widest(service: ServiceView, own: ReplicaShape) -> ReplicaShape:
    """The shape with the most pods, of the service's own shape `own` and those of its variants."""
    shapes = (own, *(variant.wanted.shape for variant in service.variants))
    return max(shapes, key=lambda shape: shape.pods)


def fingerprint(kind: str, labels: Mapping[str, str], spec: Mapping[str, Any]) -> str:
    """Hash of exactly the labels and fields that Forebay sets, of a live object or of one to be written."""
    ours = {name: labels.get(name) for name in _OUR_LABELS}
    return short_hash(canonical_json({"labels": ours, "spec": _OUR_FIELDS[kind](spec)}), FINGERPRINT_LENGTH)


def _service_fields(spec: Mapping[str, Any]) -> dict[str, Any]:
    headless = spec.get("clusterIP") == "None"
    return service_fields(spec, RENDEZVOUS_PORT if headless else SERVICE_PORT)


_OUR_LABELS: Final = (MANAGED_BY, SERVICE_NAME, SERVICE_UID)
_OUR_FIELDS: Final[Mapping[str, Callable[[Mapping[str, Any]], dict[str, Any]]]] = {
    SERVICE: _service_fields,
    DISRUPTION_BUDGET: disruption_budget_fields,
}
