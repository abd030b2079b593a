"""The real nodes: what every suite in this folder relies on."""

from __future__ import annotations

import ipaddress
import re
import time
import urllib.request
from collections.abc import Iterator
from contextlib import suppress

import pytest

from e2e.harness import HarnessError, eventually, leftovers
from e2e.harness.images import base_image
from e2e.harness.kubectl import Object
from e2e.harness.machine_lock import PATIENCE
from e2e.harness.network import NETWORK
from e2e.harness.node_cluster import NodeCluster
from e2e.harness.privileged import run
from e2e.harness.processes import found_in
from e2e.harness.state import NODES_MODE, RUN

NAMESPACE = "harness"
PORT = 8000
PRE_STOP_SECONDS = 3

ASK_API = """
import ssl, urllib.error, urllib.request
folder = "/var/run/secrets/kubernetes.io/serviceaccount/"
trust = ssl.create_default_context(cafile=folder + "ca.crt")
for kind in ("pods", "secrets"):
    call = urllib.request.Request("https://kubernetes.default.svc/api/v1/namespaces/harness/" + kind)
    call.add_header("Authorization", "Bearer " + open(folder + "token").read())
    try:
        print(kind, urllib.request.urlopen(call, context=trust, timeout=10).status)
    except urllib.error.HTTPError as error:
        print(kind, error.code)
"""


def a_web_server(name: str, node: str, image: str) -> Object:
    """A pod under the `restricted` profile that serves its own name and takes its time to start and to stop."""
    started = f"import urllib.request as u; u.urlopen('http://127.0.0.1:{PORT}/hostname')"
    container = {
        "name": "main",
        "image": image,
        "imagePullPolicy": "Never",
        "command": ["python3", "-m", "http.server", str(PORT), "--directory", "/etc"],
        "startupProbe": {
            "exec": {"command": ["python3", "-c", started]},
            "periodSeconds": 1,
            "timeoutSeconds": 10,
            "failureThreshold": 60,
        },
        "readinessProbe": {"httpGet": {"path": "/hostname", "port": PORT}, "periodSeconds": 1, "timeoutSeconds": 5},
        "lifecycle": {"preStop": {"exec": {"command": ["sleep", str(PRE_STOP_SECONDS)]}}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "resources": {"limits": {"nvidia.com/gpu": "1"}},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"app": "web"}},
        "spec": {
            "nodeSelector": {"kubernetes.io/hostname": node},
            "serviceAccountName": "reader",
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": 65532,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "terminationGracePeriodSeconds": PRE_STOP_SECONDS + 1,
            "containers": [container],
        },
    }


@pytest.fixture(scope="module")
def web(cluster: NodeCluster) -> Iterator[NodeCluster]:
    """A web server on each node behind the Service `web`."""
    image = base_image()
    cluster.load(image)
    cluster.kubectl("create", "namespace", NAMESPACE)
    cluster.kubectl("label", "namespace", NAMESPACE, "pod-security.kubernetes.io/enforce=restricted")
    cluster.kubectl("create", "serviceaccount", "reader", "-n", NAMESPACE)
    may_read = ("--serviceaccount=harness:reader", "--clusterrole=view", "-n", NAMESPACE)
    cluster.kubectl("create", "rolebinding", "reader", *may_read)
    ports = [{"port": 80, "targetPort": PORT}]
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": NAMESPACE}}
    pods = [a_web_server(f"web-{node}", node, image.reference) for node in cluster.nodes]
    cluster.kubectl.apply(service | {"spec": {"selector": {"app": "web"}, "ports": ports}}, *pods)
    wait_until_ready(cluster)
    yield cluster
    cluster.kubectl("delete", "namespace", NAMESPACE, timeout=120)


def wait_until_ready(cluster: NodeCluster) -> None:
    cluster.kubectl("wait", "--for=condition=Ready", "pod", "-l=app=web", "-n", NAMESPACE, "--timeout=90s", timeout=100)


def test_each_node_runs_a_restricted_pod_on_one_of_its_gpus(web):
    pods = web.kubectl.list("pods", NAMESPACE)
    assert {(pod["metadata"]["name"], pod["spec"]["nodeName"]) for pod in pods} == {
        ("web-gpu-a", "gpu-a"),
        ("web-gpu-b", "gpu-b"),
    }


def test_nodes_differ_in_their_gpus(web):
    nodes = web.kubectl.list("nodes", None)
    found = {node["metadata"]["labels"]["nvidia.com/gpu.product"]: node["status"]["allocatable"] for node in nodes}
    assert {product: size["nvidia.com/gpu"] for product, size in found.items()} == {
        "NVIDIA-H100-80GB-HBM3": "8",
        "NVIDIA-L40S": "8",
    }


def test_service_reaches_the_pods_of_both_nodes_from_the_host(web):
    address = web.kubectl.json("get", "service", "web", "-n", NAMESPACE)["spec"]["clusterIP"]
    answered: set[str] = set()

    def ask() -> set[str]:
        """The node's rules follow the pods' readiness a moment later; until then nobody answers."""
        with suppress(OSError), urllib.request.urlopen(f"http://{address}/hostname", timeout=5) as answer:
            answered.add(answer.read().decode().strip())
        return answered

    eventually(ask, lambda names: names == {"web-gpu-a", "web-gpu-b"}, within=30, what="both pods have answered")


@pytest.mark.parametrize("node", ["gpu-a", "gpu-b"])
def test_pod_reaches_the_service_by_name(web, node):
    ask = (
        "import urllib.request as u; print(u.urlopen('http://web.harness.svc.cluster.local/hostname').read().decode())"
    )
    answers = {web.kubectl("exec", f"web-{node}", "-n", NAMESPACE, "--", "python3", "-c", ask).strip()}
    assert answers <= {"web-gpu-a", "web-gpu-b"}


@pytest.mark.parametrize("node", ["gpu-a", "gpu-b"])
def test_pod_calls_the_api_with_exactly_its_service_accounts_rights(web, node):
    said = web.kubectl("exec", f"web-{node}", "-n", NAMESPACE, "--", "python3", "-c", ASK_API)
    assert said.split("\n")[:2] == ["pods 200", "secrets 403"]


def test_deleted_pod_runs_its_pre_stop_hook_first(web):
    began = time.monotonic()
    web.kubectl("delete", "pod", "web-gpu-b", "-n", NAMESPACE)
    took = time.monotonic() - began
    web.kubectl.apply(a_web_server("web-gpu-b", "gpu-b", base_image().reference))
    wait_until_ready(web)
    assert took >= PRE_STOP_SECONDS


def test_node_that_loses_power_is_not_ready_and_comes_back_with_its_pods(web):
    web.kill_node("gpu-b")
    web.kubectl("wait", "--for=condition=Ready=Unknown", "node/gpu-b", "--timeout=60s", timeout=70)
    assert (leftovers.processes("gpu-b"), leftovers.mounts(leftovers.RUN / "gpu-b")) == ([], [])
    assert web.nodes["gpu-a"].kubelet.identity() is not None
    web.start_node("gpu-b")
    wait_until_ready(web)
    [container] = web.kubectl.json("get", "pod", "web-gpu-b", "-n", NAMESPACE)["status"]["containerStatuses"]
    assert container["restartCount"] == 1


def test_nothing_listens_outside_loopback_and_the_bridge(web):
    ours = {identity.pid for daemon in found_in(web.directory / RUN) if (identity := daemon.identity())}
    sockets = run("ss", "--no-header", "--listening", "--numeric", "--tcp", "--udp", "--processes").splitlines()
    addresses = {
        ipaddress.ip_address(line.split()[4].rpartition(":")[0].partition("%")[0].strip("[]").replace("*", "::"))
        for line in sockets
        if ours & {int(pid) for pid in re.findall(r"pid=(\d+)", line)}
    }
    assert NETWORK.network_address + 1 in addresses
    assert {address for address in addresses if not address.is_loopback and address not in NETWORK} == set()


def test_a_second_cluster_is_refused_with_the_holder_of_the_machine(web, tmp_path, monkeypatch):
    monkeypatch.setenv(PATIENCE, "0")
    with pytest.raises(HarnessError, match=rf"the {NODES_MODE} cluster in {web.directory}, .* by process \d+.*down"):
        NodeCluster.start(tmp_path / "second")
