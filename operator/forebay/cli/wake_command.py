"""`forebay wake SERVICE`: asks for a replica of a service that has scaled to zero, with the caller's own rights.

The request is an annotation on the service. Whoever may patch InferenceServices of the namespace may wake them, and the
API server's audit log records who did.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path

import typer

from forebay.api.instants import rfc3339
from forebay.api.labels import WAKE_REQUESTED_AT
from forebay.cli.cluster_connection import cluster_reader
from forebay.cli.service_reading import ServiceReading, read_service
from forebay.cluster.client.kube_api import INFERENCE_SERVICES, KubeApi


def wake(service: str, namespace: str | None, kubeconfig: Path | None, context: str | None) -> int:
    """Request a replica, print the outcome and return the exit code."""

    async def request() -> str:
        rights = "Waking a service requires the verbs get and patch on inferenceservices.forebay.dev."
        async with cluster_reader(kubeconfig, context, rights) as reader:
            return await wake_service(reader.api, namespace or await reader.namespace(), service, reader.clock.now)

    typer.echo(asyncio.run(request()))
    return 0


async def wake_service(api: KubeApi, namespace: str, name: str, now: Callable[[], float]) -> str:
    """The sentence to print. A service that never goes to zero is left as it is. Raises ApiError.

    `now` is asked after the API server has answered, whose clock it follows.
    """
    reading = await read_service(api, namespace, name)
    if reading.spec is not None and reading.spec.scaling.min_replicas > 0:
        return (
            f"{namespace}/{name} never goes to zero (minReplicas is {reading.spec.scaling.min_replicas}), "
            "so there is nothing to wake."
        )
    requested_at = rfc3339(now())
    patch = {"metadata": {"annotations": {WAKE_REQUESTED_AT: requested_at}}}
    await api.patch(INFERENCE_SERVICES, namespace, name, patch)
    return _outcome(reading, requested_at)


def _outcome(reading: ServiceReading, requested_at: str) -> str:
    service = f"{reading.namespace}/{reading.name}"
    after = reading.spec.scaling.scale_to_zero_after if reading.spec is not None else None
    duration = f" for {after}" if after is not None else ""
    progress = f"`forebay explain {reading.name} -n {reading.namespace}` shows the progress."
    if reading.status is not None and reading.status.replicas.ready > 0:
        return f"{service} already serves; it keeps a replica{duration} from now ({requested_at})."
    return f"A replica of {service} is requested ({requested_at}); once ready, it stays{duration}. {progress}"
