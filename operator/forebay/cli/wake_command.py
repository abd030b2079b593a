"""`forebay wake SERVICE`: asks for a replica of a service that has scaled to zero, with the caller's own rights.

The call is an annotation on the service. Whoever may patch InferenceServices of the namespace may wake them, and the
API server's audit log says who did.
"""

import asyncio
import time
from pathlib import Path

import typer

from forebay.api.instants import rfc3339
from forebay.api.labels import WAKE_REQUESTED_AT
from forebay.cli.cluster_connection import cluster_reader
from forebay.cli.service_reading import ServiceReading, read_service
from forebay.cluster.client.kube_api import INFERENCE_SERVICES, KubeApi


def wake(service: str, namespace: str | None, kubeconfig: Path | None, context: str | None) -> int:
    """Ask, and say what comes of it; the exit code."""

    async def ask() -> str:
        needs = "Waking a service needs the verbs get and patch on inferenceservices.forebay.dev."
        async with cluster_reader(kubeconfig, context, needs) as reader:
            return await wake_service(reader.api, namespace or await reader.namespace(), service, time.time())

    typer.echo(asyncio.run(ask()))
    return 0


async def wake_service(api: KubeApi, namespace: str, name: str, now: float) -> str:
    """The answer to who asked. A service that never goes to zero is left alone. Raises ApiError."""
    reading = await read_service(api, namespace, name)
    if reading.spec is not None and reading.spec.scaling.min_replicas > 0:
        return (
            f"{namespace}/{name} never goes to zero (minReplicas is {reading.spec.scaling.min_replicas}), "
            "so there is nothing to wake."
        )
    asked_at = rfc3339(now)
    patch = {"metadata": {"annotations": {WAKE_REQUESTED_AT: asked_at}}}
    await api.patch(INFERENCE_SERVICES, namespace, name, patch)
    return _answer(reading, asked_at)


def _answer(reading: ServiceReading, asked_at: str) -> str:
    called = f"{reading.namespace}/{reading.name}"
    after = reading.spec.scaling.scale_to_zero_after if reading.spec is not None else None
    stays = f" for {after}" if after is not None else ""
    watch = f"`forebay explain {reading.name} -n {reading.namespace}` says how far it is."
    if reading.status is not None and reading.status.replicas.ready > 0:
        return f"{called} serves already, and keeps a replica{stays} from now ({asked_at})."
    return f"{called} is asked for a replica ({asked_at}); once ready, it stays{stays}. {watch}"
