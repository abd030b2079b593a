"""The clusters that the suites run on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from e2e.harness import ControlPlane
from e2e.harness.choice import Cluster, cluster_for_tests
from e2e.harness.images import CHECKOUT
from e2e.harness.state import NODES_MODE


@pytest.fixture(scope="session")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """An API server of this test run's own, with KWOK for nodes."""
    with ControlPlane.start(tmp_path_factory.mktemp("control-plane")) as plane:
        yield plane


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """Real nodes: the user's, kind's, or two of our own; one that `make cluster-up` started is left running."""
    with cluster_for_tests(CHECKOUT / ".cluster" / NODES_MODE) as found:
        yield found
