"""An API server with its controllers and scheduler: the parts of a cluster that need no privileges.

It listens on loopback, keeps all it writes in one folder, and its nodes are KWOK's. Several run side by side, in
different folders on different ports, so that suites and engineers do not meet.
"""

from __future__ import annotations

import http.client
import ssl
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import yaml

from e2e.harness import kwok
from e2e.harness.abandoned import clean_abandoned
from e2e.harness.addresses import API_SERVICE, LOOPBACK, SERVICE_RANGE, free_ports
from e2e.harness.binaries import binary, ensure, exclusively
from e2e.harness.certificates import Authority, Credential
from e2e.harness.failure import HarnessError
from e2e.harness.kubectl import Kubectl, is_ready, write_kubeconfig
from e2e.harness.processes import Daemon, Identity
from e2e.harness.recipes import CONTROL_PLANE, ETCD, KUBERNETES_PARTS, KWOK
from e2e.harness.state import CONTROL_PLANE_MODE, RUN, State, forget, lock_file, stop_processes
from e2e.harness.waiting import PAUSE_SECONDS, eventually

READY_SECONDS = 60.0
"""Timeout for the API server's start; it takes 3 s on an idle machine and much longer on one that compiles."""

TEST_CLUSTER_LABEL = "forebay.dev/test-cluster"
"""Label of a namespace: tests may fill, break and empty this cluster."""

REQUESTS_PER_SECOND = 500
"""Requests per second of the controllers; with their default of 20, two thousand pods take over two minutes."""

AUDIT_LOG_MEGABYTES = 20_000
"""The audit log is never rotated, because suites read it from its first line."""

AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {
            # What the cluster's own parts read is most of the traffic and proves nothing about the operator.
            "level": "None",
            "users": ["system:apiserver", "system:kube-scheduler", "system:kube-controller-manager", "kwok"],
            "verbs": ["get", "list", "watch"],
        },
        {"level": "None", "userGroups": ["system:nodes"], "verbs": ["get", "list", "watch"]},
        {"level": "None", "resources": [{"group": "coordination.k8s.io", "resources": ["leases"]}], "users": ["kwok"]},
        {"level": "Metadata"},
    ],
}


@dataclass(frozen=True, slots=True)
class Settings:
    """The differences between a control plane on loopback and one that real nodes join."""

    mode: str = CONTROL_PLANE_MODE
    address: str = LOOPBACK
    """Address on which the API server listens."""
    node_grace_seconds: int = 40
    """Without a heartbeat until a node is NotReady (Kubernetes waits 50 s, or 40 s before 1.32)."""
    node_lease_seconds: int = kwok.NODE_LEASE_SECONDS
    """The lease of a KWOK node, which is renewed four times in that time; `node_grace_seconds` limits it."""


class ControlPlane:
    """A running control plane; as a context manager it is stopped and removed at the end."""

    def __init__(self, directory: Path, state: State, settings: Settings) -> None:
        self.directory = directory
        self.settings = settings
        self.kubeconfig = directory / "kubeconfig"
        self.audit_log = directory / "audit.log"
        self.kubectl = Kubectl(binary(KUBERNETES_PARTS, "kubectl"), self.kubeconfig)
        self.state = state
        self._authority = Authority(directory / "pki")
        self._admin = self._authority.issue("kubernetes-admin", groups=["system:masters"])

    @classmethod
    def start(
        cls,
        directory: Path,
        *,
        outlives_starter: bool = False,
        pods: kwok.PodTimes | None = None,
        settings: Settings | None = None,
    ) -> Self:
        """Starts what does not run yet in `directory` and returns when the API server is ready.

        Calling it again is harmless: what runs is left alone. Left-overs of this user's killed runs, in any folder,
        are stopped first.
        """
        directory = directory.resolve()
        settings = settings or Settings()
        ensure(CONTROL_PLANE)
        clean_abandoned()
        directory.mkdir(parents=True, exist_ok=True)
        with exclusively(lock_file(directory)):
            plane = cls(directory, _state(directory, settings, outlives_starter), settings)
            try:
                plane._start_parts(pods or kwok.PodTimes())
            except BaseException:
                # The logs stay: they say why.
                stop_processes(directory)
                raise
        return plane

    @property
    def server(self) -> str:
        return f"https://{self.settings.address}:{self.state.api_port}"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Ends every process and removes the folder, whatever state they are in."""
        stop_processes(self.directory)
        forget(self.directory)

    def daemon(self, name: str) -> Daemon:
        return Daemon(name, self.directory / RUN)

    def add_gpu_nodes(
        self,
        count: int,
        *,
        gpus: int = 8,
        product: str = "NVIDIA-H100-80GB-HBM3",
        prefix: str = "gpu",
        labels: dict[str, str] | None = None,
    ) -> list[str]:
        """Adds KWOK nodes and returns their names when all of them are Ready."""
        names = [f"{prefix}-{number}" for number in range(count)]
        if names:
            self.kubectl.apply(*(kwok.gpu_node(name, gpus, product, labels) for name in names), server_side=True)
            eventually(
                lambda: set(names) - self._ready_nodes(),
                lambda missing: not missing,
                within=READY_SECONDS,
                what=f"{count} KWOK nodes are Ready",
                # kubectl needs a second of CPU to list a thousand nodes.
                pause=max(PAUSE_SECONDS, count / 100),
            )
        return names

    def _ready_nodes(self) -> set[str]:
        return {node["metadata"]["name"] for node in self.kubectl.list("nodes", None) if is_ready(node)}

    def set_pod_times(self, pods: kwok.PodTimes) -> None:
        """Set how long KWOK pods take from now on; Ready pods stay Ready."""
        self.daemon("kwok").stop()
        self._forget_the_holder_of_kwok_nodes()
        self._start_kwok(pods)

    def _forget_the_holder_of_kwok_nodes(self) -> None:
        """Each kwok process has an identity of its own, and leaves a node alone until the lease of another runs out."""
        nodes = self.kubectl("get", "nodes", "-l", f"{kwok.NODE_LABEL}={kwok.NODE_LABEL_VALUE}", "-o", "name").split()
        leases = [node.replace("node/", "lease/") for node in nodes]
        if leases:
            self.kubectl("delete", "-n", "kube-node-lease", "--ignore-not-found", *leases)

    def _start_parts(self, pods: kwok.PodTimes) -> None:
        self._start_etcd()
        self._start_api_server()
        self._wait_ready()
        self._start_controllers()
        self._start_kwok(pods)
        self.kubectl("label", "namespace", "default", f"{TEST_CLUSTER_LABEL}=true", "--overwrite")

    def _start_etcd(self) -> None:
        serving = self._authority.issue("etcd", hosts=["localhost", LOOPBACK])
        client = f"https://{LOOPBACK}:{self.state.etcd_port}"
        peer = f"https://{LOOPBACK}:{self.state.etcd_peer_port}"
        self.daemon("etcd").start(
            [
                binary(ETCD),
                "--name=default",
                f"--data-dir={self.directory / 'etcd'}",
                f"--listen-client-urls={client}",
                f"--advertise-client-urls={client}",
                f"--listen-peer-urls={peer}",
                f"--initial-advertise-peer-urls={peer}",
                f"--initial-cluster=default={peer}",
                "--client-cert-auth",
                f"--trusted-ca-file={self._authority.certificate}",
                f"--cert-file={serving.certificate}",
                f"--key-file={serving.key}",
                "--peer-client-cert-auth",
                f"--peer-trusted-ca-file={self._authority.certificate}",
                f"--peer-cert-file={serving.certificate}",
                f"--peer-key-file={serving.key}",
                # What a machine crash loses here is a test's data.
                "--unsafe-no-fsync",
                "--log-level=warn",
            ]
        )

    def _start_api_server(self) -> None:
        policy = self.directory / "audit-policy.yaml"
        policy.write_text(yaml.safe_dump(AUDIT_POLICY))
        names = ["kubernetes", "kubernetes.default", "kubernetes.default.svc", "localhost"]
        serving = self._authority.issue("kube-apiserver", hosts=[*names, LOOPBACK, self.settings.address, API_SERVICE])
        signing, verifying = self._authority.key_pair("service-accounts")
        self.daemon("kube-apiserver").start(
            [
                binary(KUBERNETES_PARTS, "kube-apiserver"),
                f"--bind-address={self.settings.address}",
                f"--secure-port={self.state.api_port}",
                *self._advertised(),
                f"--etcd-servers=https://{LOOPBACK}:{self.state.etcd_port}",
                f"--etcd-cafile={self._authority.certificate}",
                f"--etcd-certfile={serving.certificate}",
                f"--etcd-keyfile={serving.key}",
                f"--client-ca-file={self._authority.certificate}",
                f"--tls-cert-file={serving.certificate}",
                f"--tls-private-key-file={serving.key}",
                "--authorization-mode=Node,RBAC",
                "--enable-admission-plugins=NodeRestriction",
                "--allow-privileged",
                f"--service-cluster-ip-range={SERVICE_RANGE}",
                "--service-account-issuer=https://kubernetes.default.svc",
                f"--service-account-signing-key-file={signing}",
                f"--service-account-key-file={verifying}",
                f"--kubelet-client-certificate={self._admin.certificate}",
                f"--kubelet-client-key={self._admin.key}",
                "--kubelet-preferred-address-types=InternalIP",
                f"--audit-policy-file={policy}",
                f"--audit-log-path={self.audit_log}",
                f"--audit-log-maxsize={AUDIT_LOG_MEGABYTES}",
                "--profiling=false",
            ]
        )

    def _advertised(self) -> list[str]:
        if self.settings.address == LOOPBACK:
            # A loopback address is no valid endpoint of the Service `kubernetes`, and no KWOK pod would use it.
            return ["--endpoint-reconciler-type=none"]
        return [f"--advertise-address={self.settings.address}"]

    def _start_controllers(self) -> None:
        private, _ = self._authority.key_pair("service-accounts")
        shared = [
            "--leader-elect=false",
            "--secure-port=0",
            "--profiling=false",
            f"--kube-api-qps={REQUESTS_PER_SECOND}",
            f"--kube-api-burst={2 * REQUESTS_PER_SECOND}",
        ]
        self.daemon("kube-controller-manager").start(
            [
                binary(KUBERNETES_PARTS, "kube-controller-manager"),
                f"--kubeconfig={self.kubeconfig_of('system:kube-controller-manager')}",
                "--use-service-account-credentials",
                f"--root-ca-file={self._authority.certificate}",
                f"--service-account-private-key-file={private}",
                f"--node-monitor-grace-period={self.settings.node_grace_seconds}s",
                f"--node-monitor-period={max(1, self.settings.node_grace_seconds // 8)}s",
                *shared,
            ]
        )
        self.daemon("kube-scheduler").start(
            [
                binary(KUBERNETES_PARTS, "kube-scheduler"),
                f"--kubeconfig={self.kubeconfig_of('system:kube-scheduler')}",
                *shared,
            ]
        )

    def _start_kwok(self, pods: kwok.PodTimes) -> None:
        user = self.kubeconfig_of("kwok", groups=("system:masters",))
        lease_seconds = min(self.settings.node_lease_seconds, self.settings.node_grace_seconds)
        kwok.start(self.daemon("kwok"), binary(KWOK), user, pods, lease_seconds)

    def kubeconfig_of(self, user: str, groups: tuple[str, ...] = ()) -> Path:
        """A kubeconfig for a part of the cluster, made when it is asked for."""
        path = self.directory / "pki" / f"{user.replace(':', '-')}.kubeconfig"
        if not path.exists():
            self._write_kubeconfig(path, self._authority.issue(user, groups))
        return path

    def _write_kubeconfig(self, path: Path, user: Credential) -> None:
        write_kubeconfig(path, self.server, self._authority.certificate, user.certificate, user.key)

    def _wait_ready(self) -> None:
        self._write_kubeconfig(self.kubeconfig, self._admin)
        trust = ssl.create_default_context(cafile=str(self._authority.certificate))
        trust.load_cert_chain(self._admin.certificate, self._admin.key)

        def answer() -> str:
            for name in ("etcd", "kube-apiserver"):
                self.daemon(name).require_alive()
            connection = http.client.HTTPSConnection(
                self.settings.address, self.state.api_port, timeout=5, context=trust
            )
            try:
                connection.request("GET", "/readyz")
                return connection.getresponse().read().decode()
            except OSError as error:
                return str(error)
            finally:
                connection.close()

        eventually(answer, lambda said: said == "ok", within=READY_SECONDS, what="the API server is ready", pause=0.05)


def _state(directory: Path, settings: Settings, outlives_starter: bool) -> State:
    known = State.read(directory)
    if known is not None:
        if known.mode != settings.mode:
            raise HarnessError(f"{known.described(directory)} is not a {settings.mode} cluster; stop it first.")
        if known.belongs_to_another:
            raise HarnessError(f"{known.described(directory)} is in use; wait for it, or take another folder.")
        return known
    etcd, peer, api = free_ports(3)
    state = State(
        mode=settings.mode,
        started_by=Identity.mine(),
        outlives_starter=outlives_starter,
        since=time.time(),
        etcd_port=etcd,
        etcd_peer_port=peer,
        api_port=api,
    )
    state.write(directory)
    return state
