"""An operator's surroundings on the control plane of the test run."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from e2e.fleet_process import FleetProcess
from e2e.harness import ControlPlane
from e2e.operator_process import OperatorProcess
from e2e.operator_suite import Suite, suite_on
from e2e.pod_history import PodHistory

_names = itertools.count(1)

ORDER = (
    "test_operator_fleet",
    "test_operator_variants",
    "test_scale_to_zero",
    "test_rendered_objects",
    "test_cluster_choice",
    "test_chart",
    "test_operator_load",
    "test_cluster_package",
    "test_warm_pool",
    "test_operator_rights",
    "test_schedules",
)
"""Modules by how long they take, so that none of the longest begins when the others end. The three short ones in
between are there because pytest-xdist gives each of three processes a second module at the start."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The order of `ORDER`, and then the usual one."""
    place = {name: index for index, name in enumerate(ORDER)}
    items.sort(key=lambda item: place.get(item.path.stem, len(place)))


@pytest.fixture(scope="module")
def suite(control_plane: ControlPlane) -> Suite:
    control_plane.add_gpu_nodes(4)
    return suite_on(control_plane)


@pytest.fixture
def namespace(suite: Suite) -> Iterator[str]:
    """A namespace for one test; its services are gone afterwards."""
    with a_namespace(suite) as name:
        yield name


@pytest.fixture
def other_namespace(suite: Suite) -> Iterator[str]:
    with a_namespace(suite) as name:
        yield name


@contextmanager
def a_namespace(suite: Suite) -> Iterator[str]:
    name = f"team-{next(_names)}"
    suite.plane.kubectl("create", "namespace", name)
    yield name
    suite.plane.kubectl("delete", "infs", "--all", "-n", name)
    suite.plane.kubectl("delete", "namespace", name, "--wait=false")


@pytest.fixture
def operator(suite: Suite, tmp_path: Path) -> Iterator[OperatorProcess]:
    with suite.operator(tmp_path / "operator") as process:
        yield process


@pytest.fixture
def fleet(suite: Suite, tmp_path: Path) -> Iterator[FleetProcess]:
    """Metrics and traffic for the pods."""
    with FleetProcess(suite.plane.kubeconfig, tmp_path / "fleet.log") as process:
        yield process


@pytest.fixture
def operator_on_fleet(suite: Suite, fleet: FleetProcess, tmp_path: Path) -> Iterator[OperatorProcess]:
    """An operator that sees what the fleet tells, and takes silence seriously soon."""
    with suite.operator(
        tmp_path / "operator", metrics_url=fleet.metrics_url, stale_after_seconds=12, drain_grace_seconds=1
    ) as process:
        yield process


@pytest.fixture
def cli(suite: Suite) -> Callable[..., str]:
    """`forebay` with the rights of a cluster's administrator; what it printed."""

    def run(*arguments: str) -> str:
        command = [sys.executable, "-m", "forebay.cli.main", *arguments, f"--kubeconfig={suite.plane.kubeconfig}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.fixture
def pod_history(suite: Suite, namespace: str) -> Callable[[str], PodHistory]:
    """Watches a service's pods while it is entered."""
    return lambda service: PodHistory(suite.plane.kubectl, namespace, service)
