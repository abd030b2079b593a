"""A real node with its own containerd and kubelet; several run on one machine.

Everything a node makes outside its processes lies below two fixed folders, `/run/forebay/<node>` (gone when the node
loses power) and `/var/lib/forebay/<node>` (survives it). The paths are short because sockets are among them, and fixed
so that a later start finds what a killed one left.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import yaml

from e2e.harness import leftovers
from e2e.harness.addresses import LOOPBACK
from e2e.harness.network import GATEWAY, node_address, write_cni
from e2e.harness.privileged import CNI_PLUGINS, SYSTEM_PATH, run
from e2e.harness.processes import Daemon
from e2e.harness.waiting import eventually

PAUSE_IMAGE = "localhost/forebay-pause:1"
IMAGE_NAMESPACE = "k8s.io"
"""containerd's own namespace for everything that belongs to Kubernetes."""

CONTAINERD_SECONDS = 20.0
FIRST_KUBELET_PORT = 10250


@dataclass(frozen=True, slots=True)
class Node:
    """One node of the machine."""

    name: str
    index: int
    gpus: int
    product: str
    logs: Path
    """Folder of its pid files and logs."""

    @property
    def address(self) -> str:
        return node_address(self.index)

    @property
    def run_folder(self) -> Path:
        return leftovers.RUN / self.name

    @property
    def data_folder(self) -> Path:
        return leftovers.DATA / self.name

    @property
    def socket(self) -> Path:
        return self.run_folder / "containerd.sock"

    @property
    def containerd(self) -> Daemon:
        return Daemon(f"containerd-{self.name}", self.logs)

    @property
    def kubelet(self) -> Daemon:
        return Daemon(f"kubelet-{self.name}", self.logs)

    def ctr(self, *arguments: str | Path, check: bool = True) -> str:
        return run("ctr", f"--address={self.socket}", f"--namespace={IMAGE_NAMESPACE}", *arguments, check=check)

    def start_containerd(self) -> None:
        if self.containerd.identity() is not None:
            return
        config = self.run_folder / "containerd.toml"
        config.parent.mkdir(parents=True, exist_ok=True)
        config.write_text(self._containerd_config())
        write_cni(self.run_folder / "cni", self.name, self.index, self.run_folder / "leases")
        self.containerd.start(["containerd", f"--config={config}"], {"PATH": SYSTEM_PATH})
        eventually(self._containerd_answers, within=CONTAINERD_SECONDS, what=f"containerd of {self.name} answers")

    def _containerd_answers(self) -> bool:
        """Whether containerd answers; a killed one leaves its socket behind."""
        self.containerd.require_alive()
        return "io.containerd.grpc.v1" in self.ctr("plugins", "ls", check=False)

    def forget_containers(self) -> None:
        """Removes the pods of another cluster from containerd; its images are kept."""
        if not self._containers():
            return

        def left() -> list[str]:
            # containerd may be clearing up as well: one that is gone already is no failure.
            self.ctr("containers", "rm", *self._containers(), check=False)
            return self._containers()

        what = f"old containers of {self.name} are gone"
        eventually(left, lambda found: not found, within=CONTAINERD_SECONDS, what=what)
        # The part that kubelets talk to read its list when it started.
        self.containerd.kill()
        self.start_containerd()

    def _containers(self) -> list[str]:
        return self.ctr("containers", "ls", "-q").split()

    def start_kubelet(self, binary: Path, kubeconfig: Path, authority: Path) -> None:
        config = self.run_folder / "kubelet.yaml"
        config.write_text(yaml.safe_dump(self._kubelet_config(authority)))
        self.kubelet.start(
            [
                binary,
                f"--config={config}",
                f"--kubeconfig={kubeconfig}",
                f"--hostname-override={self.name}",
                f"--node-ip={self.address}",
                f"--root-dir={self.data_folder / 'kubelet'}",
                f"--node-labels=nvidia.com/gpu.product={self.product},nvidia.com/gpu.count={self.gpus}",
            ],
            {"PATH": SYSTEM_PATH},
        )

    def lose_power(self) -> None:
        """Ends the node without warning: kubelet, containerd, every container, and the network of its pods."""
        self.kubelet.kill()
        self.containerd.kill()
        leftovers.clean_node(self.name)

    def _containerd_config(self) -> str:
        cri = 'plugins."io.containerd.grpc.v1.cri"'
        return f"""\
version = 2
root = "{self.data_folder / "containerd"}"
state = "{self.run_folder / "containerd"}"
disabled_plugins = ["io.containerd.internal.v1.opt", "io.containerd.snapshotter.v1.devmapper"]

[grpc]
  address = "{self.socket}"

[{cri}]
  sandbox_image = "{PAUSE_IMAGE}"
  stream_server_address = "{LOOPBACK}"
  netns_mounts_under_state_dir = true
  # Root of a container or of a small virtual machine may not lower it (CAP_SYS_RESOURCE).
  restrict_oom_score_adj = true

[{cri}.cni]
  bin_dir = "{CNI_PLUGINS}"
  conf_dir = "{self.run_folder / "cni"}"

[{cri}.containerd]
  snapshotter = "{_snapshotter(self.data_folder)}"
"""

    def _kubelet_config(self, authority: Path) -> dict[str, object]:
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "address": self.address,
            "port": FIRST_KUBELET_PORT,
            "healthzPort": 0,
            "readOnlyPort": 0,
            "containerRuntimeEndpoint": f"unix://{self.socket}",
            "authentication": {"x509": {"clientCAFile": str(authority)}, "anonymous": {"enabled": False}},
            "authorization": {"mode": "Webhook"},
            "clusterDomain": "cluster.local",
            "clusterDNS": [GATEWAY],
            "resolvConf": "",
            # Not the default: a kubelet removes the logs of pods it does not know, so those of its neighbour.
            "podLogsDir": str(self.data_folder / "logs"),
            "nodeLeaseDurationSeconds": NODE_LEASE_SECONDS,
            # Also where an older machine has only the first version of control groups.
            "failCgroupV1": False,
            "cgroupDriver": "cgroupfs",
            "cgroupsPerQOS": False,
            "enforceNodeAllocatable": [],
            "failSwapOn": False,
            # The disk is the machine's, and other work fills it: nothing to evict pods for.
            "localStorageCapacityIsolation": False,
            "evictionHard": {"memory.available": "100Mi", "nodefs.available": "0%", "imagefs.available": "0%"},
            "imageGCHighThresholdPercent": 100,
            # Tests kill containers; the back-off between restarts would otherwise reach minutes.
            "featureGates": {"KubeletCrashLoopBackOffMax": True},
            "crashLoopBackOff": {"maxContainerRestartPeriod": "1s"},
        }


NODE_LEASE_SECONDS = 10
"""A node renews its lease four times within this: every 2.5 s."""


def _snapshotter(folder: Path) -> str:
    """overlayfs, unless the folder lies on an overlay itself (a container's), which the kernel does not stack."""
    folder.mkdir(parents=True, exist_ok=True)
    kind = run("stat", "--file-system", "--format=%T", folder).strip()
    return "native" if kind == "overlayfs" else "overlayfs"
