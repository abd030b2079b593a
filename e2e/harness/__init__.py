"""Clusters for the suites, built from source, without Docker.

`ControlPlane` is an API server with KWOK nodes on loopback and needs no privilege; `NodeCluster` (in `node_cluster`)
adds real nodes and needs root.
"""

from e2e.harness.control_plane import ControlPlane
from e2e.harness.failure import HarnessError
from e2e.harness.kubectl import Kubectl, KubectlError
from e2e.harness.kwok import PodTimes
from e2e.harness.waiting import NotReachedError, eventually

__all__ = ["ControlPlane", "HarnessError", "Kubectl", "KubectlError", "NotReachedError", "PodTimes", "eventually"]
