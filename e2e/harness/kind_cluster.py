"""kind, where Docker's server answers: the same suites on nodes that are Docker containers."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Self

import yaml

from e2e.harness.addresses import SERVICE_RANGE
from e2e.harness.control_plane import AUDIT_POLICY, TEST_CLUSTER_LABEL
from e2e.harness.failure import HarnessError
from e2e.harness.given_cluster import GivenCluster
from e2e.harness.images import Image
from e2e.harness.kwok import GPU, GPU_PRODUCT
from e2e.harness.node_cluster import NODE_READY_SECONDS, TWO_NODES, NodeSpec
from e2e.harness.privileged import run

NAME = "forebay-e2e"
POLICY_FOLDER = "/etc/forebay"
LOG_FOLDER = "/var/log/forebay"


class KindCluster(GivenCluster):
    """One control-plane container and one for each node, whose GPUs are written into its status."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory / "kubeconfig")
        self._directory = directory

    @classmethod
    def start(cls, directory: Path) -> Self:
        """Starts the containers unless they run already, and returns when every node is Ready and has its GPUs."""
        directory = directory.resolve()
        (directory / "audit").mkdir(parents=True, exist_ok=True)
        (directory / "policy.yaml").write_text(yaml.safe_dump(AUDIT_POLICY))
        (directory / "kind.yaml").write_text(yaml.safe_dump(_config(directory)))
        kubeconfig = f"--kubeconfig={directory / 'kubeconfig'}"
        if cls.is_running():
            run("kind", "export", "kubeconfig", f"--name={NAME}", kubeconfig)
        else:
            wait = f"--wait={NODE_READY_SECONDS:.0f}s"
            run("kind", "create", "cluster", f"--name={NAME}", f"--config={directory / 'kind.yaml'}", kubeconfig, wait)
        label = ("label", "namespace", "default", f"{TEST_CLUSTER_LABEL}=true", "--overwrite")
        run("kubectl", kubeconfig, *label)
        cluster = cls(directory)
        cluster._give_gpus()
        cluster._route_services()
        return cluster

    @staticmethod
    def is_running() -> bool:
        return NAME in run("kind", "get", "clusters").split()

    @property
    def audit_log(self) -> Path:
        return self._directory / "audit" / "audit.log"

    def load(self, *images: Image) -> None:
        for image in images:
            run("kind", "load", "image-archive", image.archive, f"--name={NAME}")

    def kill_node(self, name: str) -> None:
        run("docker", "kill", name)

    def start_node(self, name: str) -> None:
        run("docker", "start", name)
        self.kubectl("wait", "--for=condition=Ready", f"node/{name}", f"--timeout={NODE_READY_SECONDS:.0f}s")
        self._give_gpus()

    def stop(self) -> None:
        run("kind", "delete", "cluster", f"--name={NAME}")
        shutil.rmtree(self._directory, ignore_errors=True)

    def _give_gpus(self) -> None:
        for name, spec in zip(_worker_names(), TWO_NODES, strict=True):
            gpus = {GPU: str(spec.gpus)}
            patch = json.dumps({"status": {"capacity": gpus, "allocatable": gpus}})
            self.kubectl("label", "node", name, f"{GPU_PRODUCT}={spec.product}", "--overwrite")
            self.kubectl("patch", "node", name, "--subresource=status", "--type=merge", "-p", patch)

    def _route_services(self) -> None:
        """Lets this machine call Services by their addresses, as the suites do."""
        if os.geteuid() != 0:
            raise HarnessError("Services of kind are reached by a route, which needs root: run this as root.")
        form = "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}"
        address = run("docker", "inspect", f"--format={form}", f"{NAME}-control-plane").strip()
        run("ip", "route", "replace", SERVICE_RANGE, "via", address)


def _worker_names() -> list[str]:
    return [f"{NAME}-worker" if index == 0 else f"{NAME}-worker{index + 1}" for index in range(len(TWO_NODES))]


def _config(directory: Path) -> dict[str, object]:
    audit = {
        "kind": "ClusterConfiguration",
        "apiServer": {
            "extraArgs": {
                "audit-policy-file": f"{POLICY_FOLDER}/policy.yaml",
                "audit-log-path": f"{LOG_FOLDER}/audit.log",
            },
            "extraVolumes": [
                _volume("policy", f"{POLICY_FOLDER}/policy.yaml", True),
                _volume("log", LOG_FOLDER, False),
            ],
        },
    }
    mounts = [
        {"hostPath": str(directory / "policy.yaml"), "containerPath": f"{POLICY_FOLDER}/policy.yaml"},
        {"hostPath": str(directory / "audit"), "containerPath": LOG_FOLDER},
    ]
    control_plane = {"role": "control-plane", "kubeadmConfigPatches": [yaml.safe_dump(audit)], "extraMounts": mounts}
    return {
        "kind": "Cluster",
        "apiVersion": "kind.x-k8s.io/v1alpha4",
        "networking": {"serviceSubnet": SERVICE_RANGE},
        "nodes": [control_plane, *[_worker(spec) for spec in TWO_NODES]],
    }


def _worker(spec: NodeSpec) -> dict[str, object]:
    return {"role": "worker", "labels": {GPU_PRODUCT: spec.product}}


def _volume(name: str, path: str, is_file: bool) -> dict[str, object]:
    kind = "File" if is_file else "DirectoryOrCreate"
    return {"name": name, "hostPath": path, "mountPath": path, "readOnly": is_file, "pathType": kind}
