"""Forebay as a platform team installs it: images and the chart, then only kubectl and Services."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from e2e.harness.binaries import binary
from e2e.harness.choice import Cluster
from e2e.harness.images import engine_sim_image, forebay_image
from e2e.harness.kubectl import Kubectl, Object
from e2e.harness.recipes import HELM
from e2e.harness.waiting import eventually

CHART = Path(__file__).parent.parent / "charts" / "forebay"
OPERATOR_NAMESPACE = "forebay-system"
RELEASE = "forebay"
INSTALL_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class Installation:
    """A cluster with the operator, and the namespace of the caller's services."""

    cluster: Cluster
    namespace: str

    @property
    def kubectl(self) -> Kubectl:
        return self.cluster.kubectl

    @property
    def audit_log(self) -> Path:
        return self.cluster.audit_log

    @property
    def nodes(self) -> tuple[str, ...]:
        return tuple(self.cluster.nodes)

    def get(self, service: str) -> Object:
        """The InferenceService as stored; AssertionError when there is none."""
        found = self.kubectl.get("infs", service, self.namespace)
        assert found is not None, f"there is no InferenceService {self.namespace}/{service}"
        return found

    def patch(self, service: str, patch: Mapping[str, Any]) -> None:
        """A merge patch, as `kubectl edit` would send it."""
        self.kubectl("patch", "infs", service, "-n", self.namespace, "--type=merge", "-p", json.dumps(patch))

    def delete(self, service: str, within: float = 120.0) -> None:
        """Delete the service and return when its pods are gone."""
        self.kubectl("delete", "infs", service, "-n", self.namespace)
        selector = f"forebay.dev/service={service}"
        eventually(
            lambda: self.kubectl.list("pods", self.namespace, selector),
            lambda pods: not pods,
            within=within,
            what=f"the pods of {service} are gone",
        )

    def events(self, service: str) -> list[Object]:
        """The service's Events, oldest first."""
        return events_of(self.kubectl, self.namespace, service)

    def url(self, service: str) -> str:
        """The address of the Service from this machine."""
        found = self.kubectl.get("service", service, self.namespace)
        assert found is not None, f"there is no Service {self.namespace}/{service}"
        return f"http://{found['spec']['clusterIP']}:{found['spec']['ports'][0]['port']}"

    def reached(self, service: str) -> str:
        """The same, once it accepts a connection: the node's rules follow the pods' readiness with a delay."""
        url = self.url(service)
        address = urlsplit(url)

        def connects() -> bool:
            with suppress(OSError), socket.create_connection((address.hostname or "", address.port or 80), timeout=2):
                return True
            return False

        eventually(connects, within=30, what=f"{url} takes connections")
        return url

    def kill_an_operator(self, chance: random.Random) -> int:
        """SIGKILL one of the operator's processes; 1, or 0 when none runs just now.

        On a cluster whose processes are not this machine's, a pod is deleted by force, which kills as surely.
        """
        if processes := list(_processes_of(("forebay", "operator"))):
            try:
                os.kill(chance.choice(processes), signal.SIGKILL)
            except ProcessLookupError:
                return 0
            return 1
        pods = self._operators()
        if not pods:
            return 0
        name = chance.choice(pods)["metadata"]["name"]
        self.kubectl("delete", "pod", name, "-n", OPERATOR_NAMESPACE, "--grace-period=0", "--force")
        return 1

    def operators_on(self, node: str) -> int:
        """How many of the operator's replicas run on the node."""
        return sum(pod["spec"].get("nodeName") == node for pod in self._operators())

    def _operators(self) -> list[Object]:
        return self.kubectl.list("pods", OPERATOR_NAMESPACE, f"app.kubernetes.io/name={RELEASE}")


def events_of(kubectl: Kubectl, namespace: str, service: str) -> list[Object]:
    """An InferenceService's Events, oldest first."""
    selector = f"involvedObject.name={service},involvedObject.kind=InferenceService"
    found = kubectl.json("get", "events", "-n", namespace, f"--field-selector={selector}")["items"]
    return sorted(found, key=lambda event: str(event["metadata"]["creationTimestamp"]))


def install(cluster: Cluster, values: Mapping[str, Any] | None = None) -> None:
    """Build and load the images, install the chart, and return when the operator is available."""
    operator, engine = forebay_image(), engine_sim_image()
    cluster.load(operator, engine)
    repository, tag = operator.reference.rsplit(":", 1)
    settings: dict[str, Any] = {
        "image": {"repository": repository, "tag": tag, "pullPolicy": "Never"},
        "engine": {"image": engine.reference},
    }
    settings.update(values or {})
    helm(
        "upgrade",
        "--install",
        RELEASE,
        str(CHART),
        "--create-namespace",
        "--values",
        "-",
        cluster=cluster,
        stdin=json.dumps(settings),
    )
    eventually(
        lambda: cluster.kubectl.get("deployment", RELEASE, OPERATOR_NAMESPACE),
        lambda found: found is not None and found["status"].get("availableReplicas", 0) == found["spec"]["replicas"],
        within=INSTALL_SECONDS,
        what="the operator's deployment is available",
    )


def helm(*arguments: str, cluster: Cluster, stdin: str = "") -> str:
    """Raises AssertionError with what helm said."""
    command = [str(binary(HELM)), *arguments, "--namespace", OPERATOR_NAMESPACE]
    done = subprocess.run(
        command, input=stdin, env=cluster.kubectl.environment, capture_output=True, text=True, timeout=INSTALL_SECONDS
    )
    assert done.returncode == 0, f"helm {' '.join(arguments)} failed: {done.stderr.strip()}"
    return done.stdout


def _processes_of(words: tuple[str, ...]) -> Iterable[int]:
    """Processes of this machine whose command line contains these words in sequence, as in `forebay operator …`."""
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            arguments = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
        except (FileNotFoundError, ProcessLookupError):
            continue
        names = [argument.rsplit("/", 1)[-1] for argument in arguments]
        if any(tuple(names[i : i + len(words)]) == words for i in range(len(names))):
            yield int(folder.name)
