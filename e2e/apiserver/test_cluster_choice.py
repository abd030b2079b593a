"""Whose cluster the suites run on, and that it is never one they were pointed at by accident."""

from __future__ import annotations

import json
import re
import shutil

import pytest

from e2e.harness import HarnessError
from e2e.harness.choice import cluster_for_tests, given_kubeconfig
from e2e.harness.control_plane import TEST_CLUSTER_LABEL
from e2e.harness.given_cluster import LOAD_COMMAND, GivenCluster
from e2e.harness.images import Image
from e2e.harness.state import FILE, NODES_MODE


@pytest.fixture
def foreign_kubeconfig(control_plane, tmp_path, monkeypatch):
    """The API server of this run as a user would name it: by a kubeconfig somewhere else."""
    path = tmp_path / "kubeconfig"
    shutil.copy(control_plane.kubeconfig, path)
    monkeypatch.setenv("KUBECONFIG", str(path))
    monkeypatch.setenv("PATH", str(control_plane.kubectl.binary.parent))
    return path


@pytest.fixture
def unlabelled(control_plane):
    control_plane.kubectl("label", "namespace", "default", f"{TEST_CLUSTER_LABEL}-")
    yield
    control_plane.kubectl("label", "namespace", "default", f"{TEST_CLUSTER_LABEL}=true")


def test_cluster_of_the_user_comes_first(foreign_kubeconfig, tmp_path):
    with cluster_for_tests(tmp_path / "ours") as found:
        assert isinstance(found, GivenCluster)
        assert found.kubectl.kubeconfig == foreign_kubeconfig


def test_cluster_without_the_label_is_refused(foreign_kubeconfig, unlabelled, tmp_path):
    with (
        pytest.raises(HarnessError, match=re.escape(f"kubectl label namespace default {TEST_CLUSTER_LABEL}=true")),
        cluster_for_tests(tmp_path / "ours"),
    ):
        pytest.fail("a cluster whose owner did not consent was handed out")


def test_cluster_that_does_not_answer_is_refused(foreign_kubeconfig, control_plane, tmp_path):
    address = control_plane.server.rsplit(":", 1)[1]
    foreign_kubeconfig.write_text(foreign_kubeconfig.read_text().replace(address, "1"))
    with (
        pytest.raises(HarnessError, match="does not answer"),
        cluster_for_tests(tmp_path / "ours"),
    ):
        pytest.fail("a cluster that could not be asked was handed out")


def test_users_cluster_gets_images_by_the_users_command(foreign_kubeconfig, tmp_path, monkeypatch):
    image = Image("localhost/forebay:1", tmp_path / "forebay.tar")
    cluster = GivenCluster(foreign_kubeconfig)
    with pytest.raises(HarnessError, match=LOAD_COMMAND):
        cluster.load(image)
    loader = tmp_path / "loader"
    loader.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/loaded\n')
    loader.chmod(0o755)
    monkeypatch.setenv(LOAD_COMMAND, f"{loader} --cluster mine")
    cluster.load(image)
    assert (tmp_path / "loaded").read_text() == f"--cluster mine {image.archive} localhost/forebay:1\n"


def test_kubeconfig_of_our_own_nodes_is_not_foreign(control_plane, tmp_path, monkeypatch):
    ours = tmp_path / "nodes"
    ours.mkdir()
    known = json.loads((control_plane.directory / FILE).read_text())
    (ours / FILE).write_text(json.dumps(known | {"mode": NODES_MODE}))
    monkeypatch.setenv("KUBECONFIG", str(ours / "kubeconfig"))
    assert given_kubeconfig() is None


def test_control_plane_has_no_nodes_to_test_on(control_plane, monkeypatch):
    monkeypatch.setenv("KUBECONFIG", str(control_plane.kubeconfig))
    with pytest.raises(HarnessError, match="has no real nodes; unset it"):
        given_kubeconfig()
