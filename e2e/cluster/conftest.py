"""The cluster suites share one installation; each module has a namespace of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from e2e.engines import pods_in
from e2e.harness.choice import Cluster
from e2e.harness.waiting import eventually
from e2e.installation import Installation, install

FLAGS = {"node-lost-after-seconds": 15}
"""Lost nodes are detected sooner than in production, so that tests need not wait for it."""


@pytest.fixture(scope="session")
def installed(cluster: Cluster) -> Cluster:
    """The cluster with the operator from the chart in it."""
    install(cluster, {"flags": FLAGS})
    return cluster


@pytest.fixture(scope="module")
def forebay(installed: Cluster, request: pytest.FixtureRequest) -> Iterator[Installation]:
    """The operator and a namespace per module, so that leftovers of one suite hold no GPUs of another."""
    namespace = request.module.__name__.rsplit(".", 1)[-1].removeprefix("test_").replace("_", "-")
    installed.kubectl("create", "namespace", namespace)
    yield Installation(installed, namespace)
    # Services first: a namespace deletes pods before their owners, and then waits for half of their grace period.
    installed.kubectl("delete", "infs", "--all", "-n", namespace)
    eventually(lambda: pods_in(installed.kubectl, namespace), lambda pods: not pods, within=300, what="no pod is left")
    installed.kubectl("delete", "namespace", namespace)
