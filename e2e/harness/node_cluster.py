"""A control plane that real nodes join: containers, probes, Services, service accounts, all on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import yaml

from e2e.harness import kwok, leftovers, machine_lock, network
from e2e.harness.abandoned import clean_abandoned
from e2e.harness.binaries import binary, ensure
from e2e.harness.control_plane import ControlPlane, Settings
from e2e.harness.failure import HarnessError
from e2e.harness.images import Image, import_image, pause_image
from e2e.harness.kubectl import Object, is_ready
from e2e.harness.node import Node
from e2e.harness.privileged import SYSTEM_PATH, install_packages, require_root
from e2e.harness.recipes import COREDNS, KUBERNETES_PARTS, NODES
from e2e.harness.state import NODES_MODE, RUN, State
from e2e.harness.waiting import eventually

NODE_READY_SECONDS = 60.0
NODE_GRACE_SECONDS = 10
"""Seconds without a heartbeat until a node is NotReady: four missed renewals, short enough for tests."""


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """A node to start: its name and its number of GPUs."""

    name: str
    gpus: int = 8
    product: str = "NVIDIA-H100-80GB-HBM3"


TWO_NODES = (NodeSpec("gpu-a"), NodeSpec("gpu-b", product="NVIDIA-L40S"))


class NodeCluster(ControlPlane):
    """Real nodes and their control plane; only one of them per machine."""

    def __init__(self, directory: Path, state: State, settings: Settings) -> None:
        super().__init__(directory, state, settings)
        self.nodes: dict[str, Node] = {}

    @classmethod
    def start(
        cls,
        directory: Path,
        *,
        outlives_starter: bool = False,
        pods: kwok.PodTimes | None = None,
        settings: Settings | None = None,
        nodes: Sequence[NodeSpec] = TWO_NODES,
    ) -> Self:
        """Starts what does not run yet, and returns when every node is Ready and has its GPUs."""
        require_root()
        install_packages()
        ensure(NODES)
        directory = directory.resolve()
        pause = pause_image()
        clean_abandoned()
        is_new = machine_lock.take(directory)
        if is_new:
            leftovers.clean()
        try:
            network.set_up(len(nodes))
            settings = settings or Settings(NODES_MODE, network.GATEWAY, NODE_GRACE_SECONDS)
            cluster = super().start(directory, outlives_starter=outlives_starter, pods=pods, settings=settings)
        except BaseException:
            machine_lock.release(directory)
            raise
        for index, spec in enumerate(nodes):
            cluster.nodes[spec.name] = Node(spec.name, index, spec.gpus, spec.product, directory / RUN)
        cluster._start_services()
        cluster._start_nodes(pause, is_new)
        return cluster

    def stop(self) -> None:
        super().stop()
        leftovers.clean()
        machine_lock.release(self.directory)

    def kill_node(self, name: str) -> None:
        """Kills the node; it is NotReady within about `NODE_GRACE_SECONDS`."""
        self._node(name).lose_power()

    def start_node(self, name: str) -> None:
        """Starts a killed node again and returns when it is Ready and has its GPUs."""
        self._start_kubelet(self._node(name))
        self._wait_node(self._node(name))

    def load(self, *images: Image) -> None:
        """Makes the images known to every node; pods use them with `imagePullPolicy: Never`."""

        def load_into(node: Node) -> None:
            for image in images:
                import_image(node, image)

        with ThreadPoolExecutor() as pool:
            list(pool.map(load_into, self.nodes.values()))

    def _node(self, name: str) -> Node:
        if name not in self.nodes:
            raise HarnessError(f"There is no node {name}; there are {', '.join(self.nodes)}.")
        return self.nodes[name]

    def _start_nodes(self, pause: Image, is_new: bool) -> None:
        for node in self.nodes.values():
            node.start_containerd()
            if is_new:
                node.forget_containers()
            import_image(node, pause)
            self._start_kubelet(node)
        for node in self.nodes.values():
            self._wait_node(node)

    def _start_kubelet(self, node: Node) -> None:
        user = self.kubeconfig_of(f"system:node:{node.name}", groups=("system:nodes",))
        node.start_containerd()
        node.start_kubelet(binary(KUBERNETES_PARTS, "kubelet"), user, self._authority.certificate)

    def _wait_node(self, node: Node) -> None:
        """Waits for Ready and sets the node's GPUs, which a kubelet removes when it registers again."""

        def read() -> Object | None:
            node.kubelet.require_alive()
            return self.kubectl.get("node", node.name)

        eventually(read, is_ready, within=NODE_READY_SECONDS, what=f"node {node.name} is Ready")
        gpus = {kwok.GPU: str(node.gpus)}
        patch = yaml.safe_dump({"status": {"capacity": gpus, "allocatable": gpus}})
        self.kubectl("patch", "node", node.name, "--subresource=status", "--type=merge", "-p", patch)

    def _start_services(self) -> None:
        """Service addresses and names: one proxy and one DNS server serve all nodes of the bridge."""
        leftovers.RUN.mkdir(exist_ok=True)
        proxy = leftovers.RUN / "kube-proxy.yaml"
        proxy.write_text(yaml.safe_dump(self._proxy_config()))
        self.daemon("kube-proxy").start(
            [binary(KUBERNETES_PARTS, "kube-proxy"), f"--config={proxy}"], {"PATH": SYSTEM_PATH}
        )
        corefile = leftovers.RUN / "Corefile"
        corefile.write_text(self._corefile())
        self.daemon("coredns").start([binary(COREDNS), f"-conf={corefile}"])

    def _proxy_config(self) -> dict[str, object]:
        user = self.kubeconfig_of("system:kube-proxy", groups=("system:masters",))
        return {
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
            "kind": "KubeProxyConfiguration",
            "mode": "nftables",
            "bindAddress": network.GATEWAY,
            "healthzBindAddress": f"{network.GATEWAY}:10256",
            "metricsBindAddress": f"{network.GATEWAY}:10249",
            "hostnameOverride": next(iter(self.nodes)),
            "clusterCIDR": str(network.NETWORK),
            "clientConnection": {"kubeconfig": str(user)},
            # Limits of the machine itself are left unchanged.
            "conntrack": {"maxPerCore": 0, "min": 0},
        }

    def _corefile(self) -> str:
        return f"""\
.:53 {{
  bind {network.GATEWAY}
  errors
  kubernetes cluster.local in-addr.arpa {{
    kubeconfig {self.kubeconfig_of("coredns", groups=("system:masters",))}
    pods insecure
  }}
}}
"""
