"""The headless Service through which the pods of a replica of several pods find each other."""

from typing import Any, Final

from forebay.api.labels import SERVICE_UID
from forebay.workloads.objects.ownership import Owner, child_metadata
from forebay.workloads.objects.service import SERVICE

RENDEZVOUS_PORT: Final = 29501
"""Port on which rank 0 waits for the other ranks: vLLM's own default."""


def ranks_service_body(owner: Owner) -> dict[str, Any]:
    """The Service. It gives each pod a DNS name, even before the pod is ready, since ranks connect before that."""
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
    """The name contains the uid, so that no other Service of the namespace can have it."""
    return f"{owner.key.name}-{owner.short_uid}-ranks"
