"""Shared by the suites of the cluster package: a namespace with the CRDs, and waiting inside an event loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

from e2e.harness import ControlPlane, eventually

CRDS = Path(__file__).parents[2] / "crds"


@contextmanager
def a_namespace(plane: ControlPlane, name: str) -> Iterator[None]:
    """A namespace in which pods and InferenceServices can be created."""
    kubectl = plane.kubectl
    kubectl.apply(*sorted(CRDS.glob("*.yaml")), server_side=True)
    kubectl("wait", "crd", "--all", "--for=condition=Established", "--timeout=30s")
    kubectl("create", "namespace", name)
    eventually(lambda: kubectl.get("serviceaccount", "default", name), within=30, what="a service account")
    yield
    kubectl("delete", "namespace", name, "--wait=false")


def a_service(plane: ControlPlane, namespace: str, name: str, replicas: int = 1, **spec: Any) -> str:
    """Apply an InferenceService; its uid."""
    scaling = {"minReplicas": replicas, "maxReplicas": replicas}
    plane.kubectl.apply(
        {
            "apiVersion": "forebay.dev/v1alpha1",
            "kind": "InferenceService",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"model": {"source": "hf://org/name"}, "scaling": scaling, **spec},
        }
    )
    found = plane.kubectl.get("infs", name, namespace)
    assert found is not None
    uid: str = found["metadata"]["uid"]
    return uid


async def until(condition: Callable[[], object], what: str, within: float = 30.0) -> None:
    """As `eventually`, for conditions that this event loop itself makes true."""
    deadline = time.monotonic() + within
    while not condition():
        assert time.monotonic() < deadline, f"{what}: not within {within:g} s"
        await asyncio.sleep(0.02)


@asynccontextmanager
async def running(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Runs `work` concurrently with the block."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
