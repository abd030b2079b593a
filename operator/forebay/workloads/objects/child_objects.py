"""The Services and the PodDisruptionBudget of an InferenceService, and how to see that a live one was changed.

Both are written by server-side apply. The planner compares fingerprints: of what we would write, and of the same fields
read back, so that defaults filled in by the API server, and fields that others own, are no difference.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from forebay.api.inference_service import InferenceServiceSpec
from forebay.api.labels import MANAGED_BY, RANK, SERVICE_UID, SERVING
from forebay.api.labels import SERVICE as SERVICE_NAME
from forebay.workloads.canonical_json import canonical_json, short_hash
from forebay.workloads.objects.ownership import Owner, child_metadata
from forebay.world.world import ChildView, ReplicaShape, ServiceView

SERVICE: Final = "Service"
DISRUPTION_BUDGET: Final = "PodDisruptionBudget"
SERVICE_PORT: Final = 80
RENDEZVOUS_PORT: Final = 29501
"""Where rank 0 waits for the other ranks: vLLM's own default."""
FINGERPRINT_LENGTH: Final = 13


def service_body(owner: Owner) -> dict[str, Any]:
    """Selects serving pods, and of a replica of several pods the one that answers, rank 0."""
    return {
        "apiVersion": "v1",
        "kind": SERVICE,
        "metadata": child_metadata(owner, owner.key.name),
        "spec": {
            "type": "ClusterIP",
            "selector": {**_serving(owner), RANK: "0"},
            "ports": [{"name": "http", "port": SERVICE_PORT, "protocol": "TCP", "targetPort": "http"}],
            "publishNotReadyAddresses": False,
        },
    }


def ranks_service_body(owner: Owner) -> dict[str, Any]:
    """Gives each pod of a replica of several a name in DNS. Ranks meet before any of them is ready."""
    return {
        "apiVersion": "v1",
        "kind": SERVICE,
        "metadata": child_metadata(owner, ranks_service_name(owner)),
        "spec": {
            "type": "ClusterIP",
            "clusterIP": "None",
            "selector": {SERVICE_UID: owner.uid},
            "ports": [
                {"name": "rendezvous", "port": RENDEZVOUS_PORT, "protocol": "TCP", "targetPort": RENDEZVOUS_PORT}
            ],
            "publishNotReadyAddresses": True,
        },
    }


def ranks_service_name(owner: Owner) -> str:
    """With the uid in it, so that no other service of the namespace can be called so."""
    return f"{owner.key.name}-{owner.short_uid}-ranks"


def child_bodies(owner: Owner, min_available: int, *, groups: bool) -> tuple[dict[str, Any], ...]:
    """All objects of a service besides pods and revisions; `groups`: its replicas are of several pods."""
    bodies = (service_body(owner), disruption_budget_body(owner, min_available))
    return (*bodies, ranks_service_body(owner)) if groups else bodies


def disruption_budget_body(owner: Owner, min_available: int) -> dict[str, Any]:
    """Lets nobody evict a serving pod, since there are never more than `min_available`.

    An eviction is a request that Forebay fulfils: it replaces, drains and deletes. Pods that are not Ready may go.
    """
    return {
        "apiVersion": "policy/v1",
        "kind": DISRUPTION_BUDGET,
        "metadata": child_metadata(owner, owner.key.name),
        "spec": {
            "selector": {"matchLabels": _serving(owner)},
            "minAvailable": min_available,
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
        },
    }


def min_available(spec: InferenceServiceSpec, shape: ReplicaShape) -> int:
    """Of the budget, in pods: as many as can ever serve at once, so that none of them is evicted."""
    return (spec.scaling.max_replicas + spec.rollout.max_surge) * shape.pods


def widest(service: ServiceView, own: ReplicaShape) -> ReplicaShape:
    """Of the shapes of a service the one of the most pods; `own` is the service's own."""
    shapes = (own, *(variant.wanted.shape for variant in service.variants))
    return max(shapes, key=lambda shape: shape.pods)


def wanted_children(service: ServiceView) -> tuple[ChildView, ...]:
    """What the planner is to find in the cluster; nothing for a service that cannot run or is being deleted."""
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


def fingerprint(kind: str, labels: Mapping[str, str], spec: Mapping[str, Any]) -> str:
    """Of exactly the fields we set, in a live object as in one we would write."""
    ours = {name: labels.get(name) for name in _OUR_LABELS}
    return short_hash(canonical_json({"labels": ours, "spec": _OUR_FIELDS[kind](spec)}), FINGERPRINT_LENGTH)


def _serving(owner: Owner) -> dict[str, str]:
    return {SERVICE_UID: owner.uid, SERVING: "true"}


def _service_fields(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Our port alone: another one, added by someone who owns it, is theirs to keep."""
    headless = spec.get("clusterIP") == "None"
    ours = RENDEZVOUS_PORT if headless else SERVICE_PORT
    ports = [port for port in spec.get("ports") or () if port.get("port") == ours]
    return {
        "type": spec.get("type"),
        "headless": headless,
        "selector": spec.get("selector"),
        "ports": [{name: port.get(name) for name in ("name", "port", "protocol", "targetPort")} for port in ports],
        "publishNotReadyAddresses": spec.get("publishNotReadyAddresses", False),
    }


def _disruption_budget_fields(spec: Mapping[str, Any]) -> dict[str, Any]:
    names = ("selector", "minAvailable", "unhealthyPodEvictionPolicy")
    return {name: spec.get(name) for name in names}


_OUR_LABELS: Final = (MANAGED_BY, SERVICE_NAME, SERVICE_UID)
_OUR_FIELDS: Final[Mapping[str, Callable[[Mapping[str, Any]], dict[str, Any]]]] = {
    SERVICE: _service_fields,
    DISRUPTION_BUDGET: _disruption_budget_fields,
}
