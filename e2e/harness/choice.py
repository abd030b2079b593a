"""Chooses the cluster of a suite with real nodes: the user's, otherwise kind, otherwise one started here."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from e2e.harness.failure import HarnessError
from e2e.harness.given_cluster import GivenCluster
from e2e.harness.image_builder import docker_answers
from e2e.harness.images import Image
from e2e.harness.kind_cluster import KindCluster
from e2e.harness.kubectl import Kubectl
from e2e.harness.node_cluster import NodeCluster
from e2e.harness.state import NODES_MODE, State


class Cluster(Protocol):
    """The operations that suites need from a cluster with real nodes."""

    kubectl: Kubectl

    @property
    def nodes(self) -> Mapping[str, object]:
        """By name."""

    @property
    def audit_log(self) -> Path: ...

    def load(self, *images: Image) -> None: ...

    def kill_node(self, name: str) -> None: ...

    def start_node(self, name: str) -> None: ...

    def stop(self) -> None: ...


def given_kubeconfig() -> Path | None:
    """The user's kubeconfig, unless it belongs to a cluster that the harness started."""
    named = os.environ.get("KUBECONFIG")
    if not named:
        return None
    path = Path(named).resolve()
    state = State.read(path.parent)
    if state is None:
        return path
    if state.mode != NODES_MODE:
        raise HarnessError(f"KUBECONFIG names {state.described(path.parent)}, which has no real nodes; unset it.")
    return None


@contextmanager
def cluster_for_tests(directory: Path) -> Iterator[Cluster]:
    """The cluster to test on. The harness's own keeps its state in `directory` and is stopped unless it ran before."""
    if given := given_kubeconfig():
        yield GivenCluster(given)
        return
    if docker_answers() and shutil.which("kind"):
        ran = KindCluster.is_running()
        cluster: Cluster = KindCluster.start(directory)
    else:
        named = os.environ.get("KUBECONFIG")
        directory = Path(named).resolve().parent if named else directory
        state = State.read(directory)
        ran = state is not None and not state.abandoned
        cluster = NodeCluster.start(directory)
    try:
        yield cluster
    finally:
        if not ran:
            cluster.stop()
