"""KWOK: nodes without machines and pods without containers, which look real to the API server.

Good for everything that is decided by objects (scheduling, GPU counts, a thousand services); not for what a container
does: KWOK pods have no network, no probes and no grace period.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from e2e.harness.kubectl import Object
from e2e.harness.processes import Daemon

NODE_LABEL = "type"
NODE_LABEL_VALUE = "kwok"
NODE_LEASE_SECONDS = 40
"""The kubelet's own default; kwok renews the lease of each node within it."""
POD_ADDRESSES = "10.128.0.1/10"
"""Addresses that KWOK writes into pod status; nothing listens there."""

GPU = "nvidia.com/gpu"
GPU_PRODUCT = "nvidia.com/gpu.product"


@dataclass(frozen=True, slots=True)
class PodTimes:
    """How long KWOK pods take, in seconds; with 0 they are Ready once scheduled, and deleted at once."""

    start_seconds: float = 0.0
    """From running to Ready: an engine that loads its model."""
    stop_seconds: float = 0.0
    """From the deletion request until the object is gone: an engine that finishes its streams."""


def gpu_node(name: str, gpus: int, product: str, labels: dict[str, str] | None = None) -> Object:
    """A node of the size that carries eight data-centre GPUs."""
    size = {"cpu": "192", "memory": "2Ti", "pods": "500", "ephemeral-storage": "8Ti", GPU: str(gpus)}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                NODE_LABEL: NODE_LABEL_VALUE,
                "kubernetes.io/hostname": name,
                "kubernetes.io/arch": "amd64",
                "kubernetes.io/os": "linux",
                GPU_PRODUCT: product,
                f"{GPU}.count": str(gpus),
                **(labels or {}),
            },
        },
        "status": {"capacity": size, "allocatable": size},
    }


def start(daemon: Daemon, binary: Path, kubeconfig: Path, times: PodTimes, node_lease_seconds: int) -> None:
    config = daemon.directory / "kwok.yaml"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text(yaml.safe_dump_all(pod_stages(times)))
    daemon.start(
        [
            binary,
            f"--kubeconfig={kubeconfig}",
            f"--config={config}",
            "--manage-all-nodes=false",
            f"--manage-nodes-with-label-selector={NODE_LABEL}={NODE_LABEL_VALUE}",
            "--node-ip=127.0.0.1",
            f"--cidr={POD_ADDRESSES}",
            f"--node-lease-duration-seconds={node_lease_seconds}",
        ]
    )


def pod_stages(times: PodTimes) -> list[Object]:
    """KWOK's stages of a pod's life; empty for the default, in which nothing takes time."""
    if times == PodTimes():
        return []
    alive = _where(".metadata.deletionTimestamp", "DoesNotExist")
    ready = '.status.conditions.[] | select( .type == "Ready" ) | .status'
    return [
        _stage("pod-runs", [alive, _where(".status.podIP", "DoesNotExist")], {"statusTemplate": _status("False")}),
        _stage(
            "pod-is-ready",
            [alive, _where(".status.podIP", "Exists"), _where(ready, "NotIn", "True")],
            {"statusTemplate": _status("True")},
            times.start_seconds,
        ),
        _stage(
            "pod-is-gone",
            [_where(".metadata.deletionTimestamp", "Exists")],
            {"finalizers": {"empty": True}, "delete": True},
            times.stop_seconds,
        ),
    ]


def _stage(name: str, where: list[Object], then: Object, delay_seconds: float = 0.0) -> Object:
    spec: dict[str, Any] = {
        "resourceRef": {"apiGroup": "v1", "kind": "Pod"},
        "selector": {"matchExpressions": where},
        "next": then,
    }
    if delay_seconds:
        spec["delay"] = {"durationMilliseconds": round(delay_seconds * 1000)}
    return {"apiVersion": "kwok.x-k8s.io/v1alpha1", "kind": "Stage", "metadata": {"name": name}, "spec": spec}


def _where(key: str, operator: str, *values: str) -> Object:
    return {"key": key, "operator": operator} | ({"values": list(values)} if values else {})


def _status(ready: str) -> str:
    """Go template of the status the kubelet would write for a started pod whose readiness is `ready`."""
    return f"""\
{{{{ $now := Now }}}}
phase: Running
startTime: {{{{ or .status.startTime $now | Quote }}}}
hostIP: {{{{ NodeIPWith .spec.nodeName | Quote }}}}
{{{{ with .metadata }}}}
podIP: {{{{ PodIPWith $.spec.nodeName (or $.spec.hostNetwork false) .uid .name .namespace | Quote }}}}
{{{{ end }}}}
conditions:
- {{type: Initialized, status: "True", lastTransitionTime: {{{{ $now | Quote }}}}}}
- {{type: ContainersReady, status: "{ready}", lastTransitionTime: {{{{ $now | Quote }}}}}}
- {{type: Ready, status: "{ready}", lastTransitionTime: {{{{ $now | Quote }}}}}}
containerStatuses:
{{{{ range .spec.containers }}}}
- name: {{{{ .name | Quote }}}}
  image: {{{{ .image | Quote }}}}
  imageID: ""
  restartCount: 0
  started: {ready.lower()}
  ready: {ready.lower()}
  state: {{running: {{startedAt: {{{{ $now | Quote }}}}}}}}
{{{{ end }}}}
"""
