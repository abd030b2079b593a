"""A connection for commands, and the words for when there is none."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import typer

from forebay.cluster.client.access import Access, AccessError
from forebay.cluster.client.kube_api import FORBIDDEN, NO_ANSWER, NOT_FOUND, ApiError, KubeApi
from forebay.cluster.client.kubernetes_client import connect

NEEDS_TO_READ = "Reading services needs the verbs get and list on inferenceservices.forebay.dev."


@dataclass(frozen=True, slots=True)
class ClusterReader:
    api: KubeApi
    access: Access

    async def namespace(self) -> str:
        return await self.access.namespace()


@asynccontextmanager
async def cluster_reader(
    kubeconfig: Path | None, context: str | None, needs: str = NEEDS_TO_READ
) -> AsyncIterator[ClusterReader]:
    """Whatever goes wrong inside ends the command with one line and exit code 1. `needs` are the rights it takes."""
    access = Access(str(kubeconfig) if kubeconfig else None, context)
    try:
        async with await connect(access, purpose="cli") as api:
            yield ClusterReader(api, access)
    except AccessError as error:
        raise _ended(str(error)) from error
    except ApiError as error:
        raise _ended(_in_words(error, needs)) from error


def _in_words(error: ApiError, needs: str) -> str:
    if error.status == NO_ANSWER:
        return f"The API server does not answer: {error.message}"
    if error.status == NOT_FOUND:
        return f"{error.message}. Name the namespace with -n; `forebay top --once` lists all services."
    if error.status == FORBIDDEN:
        return f"{error.message}. {needs}"
    return f"The API server refused: {error}"


def _ended(message: str) -> typer.Exit:
    typer.echo(message, err=True)
    return typer.Exit(1)
