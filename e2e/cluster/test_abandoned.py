"""Cleanup after a killed run. This file runs first in its folder, because it needs the machine for itself."""

from __future__ import annotations

import subprocess
import sys
import textwrap

from e2e.harness import leftovers, machine_lock
from e2e.harness.abandoned import clean_abandoned
from e2e.harness.processes import found_in
from e2e.harness.state import RUN

KINDS = {"process", "mount", "control group", "file", "network link", "nftables table", "folder"}


def kinds_left() -> set[str]:
    return {kind for kind in KINDS for thing in leftovers.found() if thing.startswith(f"{kind} ")}


def test_a_killed_cluster_leaves_nothing_behind(tmp_path):
    """The run is killed together with its containerds while pods run, so that only unsupervised processes are left."""
    program = f"""
        import os, signal
        from pathlib import Path
        from e2e.harness.images import base_image
        from e2e.harness.node_cluster import NodeCluster

        cluster = NodeCluster.start(Path({str(tmp_path / "left")!r}))
        cluster.load(base_image())
        for node in cluster.nodes:
            cluster.kubectl("run", node, "--image", base_image().reference, "--image-pull-policy=Never",
                            "--overrides", '{{"spec": {{"nodeName": "' + node + '"}}}}', "--", "sleep", "1000")
            cluster.kubectl("wait", "--for=condition=Ready", f"pod/{{node}}", "--timeout=60s", timeout=70)
        for node in cluster.nodes.values():
            node.containerd.kill()
            node.kubelet.kill()
        os.kill(os.getpid(), signal.SIGKILL)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True)
    assert done.returncode == -9, done.stderr
    daemons = found_in(tmp_path / "left" / RUN)
    left = {daemon.name: identity for daemon in daemons if (identity := daemon.identity())}
    assert {"etcd", "kube-apiserver", "kube-proxy", "coredns"} <= set(left)
    assert kinds_left() == KINDS

    clean_abandoned()

    assert leftovers.found() == []
    assert [name for name, identity in left.items() if identity.alive()] == []
    assert machine_lock.holder() is None
