"""The clusters that the suites run on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from e2e.harness import ControlPlane


@pytest.fixture(scope="session")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """An API server of this test run's own, with KWOK for nodes."""
    with ControlPlane.start(tmp_path_factory.mktemp("control-plane")) as plane:
        yield plane
