"""The cluster suites share one installation; each module has a namespace of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from e2e.harness.choice import Cluster
from e2e.installation import Installation, install


@pytest.fixture(scope="session")
def installed(cluster: Cluster) -> Cluster:
    """The cluster with the operator from the chart in it."""
    install(cluster)
    return cluster


@pytest.fixture(scope="module")
def forebay(installed: Cluster, request: pytest.FixtureRequest) -> Iterator[Installation]:
    """The operator, and a namespace that goes with the module: what one suite leaves does not take another's GPUs."""
    namespace = request.module.__name__.rsplit(".", 1)[-1].removeprefix("test_").replace("_", "-")
    installed.kubectl("create", "namespace", namespace)
    yield Installation(installed, namespace)
    installed.kubectl("delete", "namespace", namespace, "--wait=true", timeout=300)
