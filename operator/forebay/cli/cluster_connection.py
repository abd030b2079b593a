"""The connection of a command to the cluster, and the error messages for when it fails."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import typer

from forebay.cluster.client.access import Access, AccessError
from forebay.cluster.client.kube_api import FORBIDDEN, NO_ANSWER, NOT_FOUND, ApiError, KubeApi
from forebay.cluster.client.kubernetes_client import connect
from forebay.cluster.client.server_clock import ServerClock

RIGHTS_TO_READ = "Reading services requires the verbs get and list on inferenceservices.forebay.dev."


@dataclass(frozen=True, slots=True)
class ClusterReader:
    """An API client, the kubeconfig that it came from, and the time of the API server."""

    api: KubeApi
    access: Access
    clock: ServerClock

    async def namespace(self) -> str:
        return await self.access.namespace()


@asynccontextmanager
async def cluster_reader(
    kubeconfig: Path | None, context: str | None, rights: str = RIGHTS_TO_READ
) -> AsyncIterator[ClusterReader]:
    """A client for the body of the `with`. An error of the API ends the command with one line and exit code 1.

    `rights` is the sentence that is added when the API server answers that the user lacks them.
    """
    access = Access(str(kubeconfig) if kubeconfig else None, context)
    try:
        clock = ServerClock()
        async with await connect(access, purpose="cli", server_clock=clock) as api:
            yield ClusterReader(api, access, clock)
    except AccessError as error:
        raise _exit(str(error)) from error
    except ApiError as error:
        raise _exit(_message(error, rights)) from error


def _message(error: ApiError, rights: str) -> str:
    if error.status == NO_ANSWER:
        return f"The API server does not answer: {error.message}"
    if error.status == NOT_FOUND:
        return f"{error.message}. Set the namespace with -n; `forebay top --once` lists all services."
    if error.status == FORBIDDEN:
        return f"{error.message}. {rights}"
    return f"The API server refused: {error}"


def _exit(message: str) -> typer.Exit:
    typer.echo(message, err=True)
    return typer.Exit(1)
