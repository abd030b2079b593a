"""The user's own cluster, given by KUBECONFIG. It is used only through kubectl."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

from e2e.harness.control_plane import TEST_CLUSTER_LABEL
from e2e.harness.failure import HarnessError
from e2e.harness.images import Image
from e2e.harness.kubectl import Kubectl, KubectlError

LOAD_COMMAND = "FOREBAY_LOAD_IMAGE"
"""Names a command that makes an image known to the user's nodes; it gets the archive and the reference as arguments."""


class GivenCluster:
    """The cluster of a kubeconfig, if its owner has labelled it for tests."""

    def __init__(self, kubeconfig: Path) -> None:
        self.kubectl = Kubectl(_kubectl_of_this_machine(), kubeconfig)
        _require_consent(self.kubectl)

    @property
    def nodes(self) -> Mapping[str, object]:
        return {node["metadata"]["name"]: node for node in self.kubectl.list("nodes", None)}

    @property
    def audit_log(self) -> Path:
        self._refuse("its API server's audit log cannot be read")

    def load(self, *images: Image) -> None:
        """Hands every image to the user's own command."""
        command = os.environ.get(LOAD_COMMAND)
        if not command:
            self._refuse(
                f"the images must get there somehow: set {LOAD_COMMAND} to a command that takes an archive and a "
                "reference"
            )
        for image in images:
            subprocess.run([*shlex.split(command), str(image.archive), image.reference], check=True)

    def kill_node(self, name: str) -> None:
        self._refuse(f"node {name} is not ours to kill")

    def start_node(self, name: str) -> None:
        self._refuse(f"node {name} is not ours to start")

    def stop(self) -> None:
        """Does nothing, because the user stops the cluster."""

    def _refuse(self, why: str) -> NoReturn:
        raise HarnessError(f"The cluster comes from KUBECONFIG={self.kubectl.kubeconfig}, and {why}.")


def _kubectl_of_this_machine() -> Path:
    found = shutil.which("kubectl")
    if found is None:
        raise HarnessError("KUBECONFIG is set, and there is no kubectl on the PATH to use it with.")
    return Path(found)


def _require_consent(kubectl: Kubectl) -> None:
    """Refuses a cluster without the label: tests fill, break and empty a cluster."""
    try:
        consenting = kubectl.list("namespaces", None, TEST_CLUSTER_LABEL)
    except KubectlError as error:
        raise HarnessError(f"The cluster of KUBECONFIG={kubectl.kubeconfig} does not answer: {error.said}") from error
    if not consenting:
        raise HarnessError(
            f"The cluster of KUBECONFIG={kubectl.kubeconfig} has no namespace with the label {TEST_CLUSTER_LABEL}: it "
            "may be somebody's real one. If tests may break it: kubectl label namespace default "
            f"{TEST_CLUSTER_LABEL}=true; otherwise unset KUBECONFIG."
        )
