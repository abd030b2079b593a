"""The Service of an InferenceService: one address in front of all serving replicas."""

from collections.abc import Mapping
from typing import Any, Final

from forebay.api.labels import RANK
from forebay.workloads.objects.ownership import Owner, child_metadata, serving_selector

SERVICE: Final = "Service"
SERVICE_PORT: Final = 80


def service_body(owner: Owner) -> dict[str, Any]:
    """The Service. It selects serving pods; of a replica of several pods it selects rank 0, which serves the API."""
    return {
        "apiVersion": "v1",
        "kind": SERVICE,
        "metadata": child_metadata(owner, owner.key.name),
        "spec": {
            "type": "ClusterIP",
            "selector": {**serving_selector(owner), RANK: "0"},
            "ports": [{"name": "http", "port": SERVICE_PORT, "protocol": "TCP", "targetPort": "http"}],
            "publishNotReadyAddresses": False,
        },
    }


def service_fields(spec: Mapping[str, Any], port: int = SERVICE_PORT) -> dict[str, Any]:
    """The fields of a Service that Forebay sets. Only its own port counts; other owners may add further ports."""
    ports = [entry for entry in spec.get("ports") or () if entry.get("port") == port]
    return {
        "type": spec.get("type"),
        "headless": spec.get("clusterIP") == "None",
        "selector": spec.get("selector"),
        "ports": [{name: entry.get(name) for name in ("name", "port", "protocol", "targetPort")} for entry in ports],
        "publishNotReadyAddresses": spec.get("publishNotReadyAddresses", False),
    }
