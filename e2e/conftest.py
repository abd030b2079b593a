"""The clusters that the suites run on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from e2e.harness import ControlPlane
from e2e.harness.images import CHECKOUT
from e2e.harness.node_cluster import NodeCluster
from e2e.harness.state import NODES_MODE, State


@pytest.fixture(scope="session")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """An API server of this test run's own, with KWOK for nodes."""
    with ControlPlane.start(tmp_path_factory.mktemp("control-plane")) as plane:
        yield plane


@pytest.fixture(scope="session")
def cluster() -> Iterator[NodeCluster]:
    """Two real nodes; one that `make cluster-up` started is used and left running."""
    directory = CHECKOUT / ".cluster" / NODES_MODE
    state = State.read(directory)
    found = NodeCluster.start(directory)
    yield found
    if state is None or state.abandoned:
        found.stop()
