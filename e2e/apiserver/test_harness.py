"""The rootless control plane itself: what every suite in this folder takes for granted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap

import pytest

from e2e.harness import ControlPlane, KubectlError, PodTimes, addresses
from e2e.harness.abandoned import clean_abandoned
from e2e.harness.kubectl import Object, is_ready
from e2e.harness.processes import Daemon, Identity, found_in
from e2e.harness.state import RUN, State

PRODUCT = "HARNESS"
"""Of this suite's nodes alone: other suites leave theirs on the same plane."""
PARTS = {"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok"}


def a_pod(name: str, gpus: int = 1) -> Object:
    container = {"name": "main", "image": "nothing", "resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}
    spec = {"nodeSelector": {"nvidia.com/gpu.product": PRODUCT}, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


@pytest.fixture(scope="module")
def gpu_nodes(control_plane: ControlPlane) -> list[str]:
    return control_plane.add_gpu_nodes(2, gpus=8, product=PRODUCT, prefix="harness")


def test_api_server_is_of_the_version_that_was_built(control_plane):
    assert control_plane.kubectl.json("version")["serverVersion"]["gitVersion"] == "v1.35.4"


def test_default_namespace_says_that_this_is_a_test_cluster(control_plane):
    labels = control_plane.kubectl.json("get", "namespace", "default")["metadata"]["labels"]
    assert labels["forebay.dev/test-cluster"] == "true"


def test_gpu_pod_becomes_ready_on_a_kwok_node(control_plane, gpu_nodes):
    control_plane.kubectl.apply(a_pod("wants-all", gpus=8))
    pod = control_plane.kubectl.eventually("pod", "wants-all", is_ready, within=20, what="the pod is Ready")
    assert pod["spec"]["nodeName"] in gpu_nodes
    control_plane.kubectl("delete", "pod", "wants-all")


def test_pod_that_wants_more_gpus_than_a_node_has_stays_pending(control_plane, gpu_nodes):
    control_plane.kubectl.apply(a_pod("wants-too-much", gpus=9))
    pod = control_plane.kubectl.eventually(
        "pod",
        "wants-too-much",
        lambda pod: pod["status"].get("conditions"),
        within=20,
        what="the scheduler has judged the pod",
    )
    [scheduled] = [condition for condition in pod["status"]["conditions"] if condition["type"] == "PodScheduled"]
    assert (scheduled["reason"], "Insufficient nvidia.com/gpu" in scheduled["message"]) == ("Unschedulable", True)
    control_plane.kubectl("delete", "pod", "wants-too-much")


def test_pod_times_delay_readiness_and_deletion(control_plane, gpu_nodes):
    control_plane.set_pod_times(PodTimes(start_seconds=3, stop_seconds=3))
    control_plane.kubectl.apply(a_pod("slow"))
    running = control_plane.kubectl.eventually(
        "pod", "slow", lambda pod: pod["status"]["phase"] == "Running", within=20, what="the pod runs"
    )
    ready = control_plane.kubectl.eventually("pod", "slow", is_ready, within=20, what="the pod is Ready")
    control_plane.kubectl("delete", "pod", "slow", "--wait=false")
    going = control_plane.kubectl.get("pod", "slow")
    control_plane.kubectl.eventually("pod", "slow", lambda pod: pod is None, within=20, what="the pod is gone")
    control_plane.set_pod_times(PodTimes())
    assert (is_ready(running), is_ready(ready), "deletionTimestamp" in going["metadata"]) == (False, True, True)


def test_audit_log_names_who_created_what(control_plane):
    control_plane.kubectl("create", "configmap", "audited", "--from-literal=a=b")
    entries = [json.loads(line) for line in control_plane.audit_log.read_text().splitlines()]
    [entry] = [e for e in entries if e["verb"] == "create" and e.get("objectRef", {}).get("name") == "audited"]
    assert (entry["user"]["username"], entry["level"]) == ("kubernetes-admin", "Metadata")


def test_service_account_is_refused_what_its_role_does_not_hold(control_plane):
    control_plane.kubectl("create", "serviceaccount", "nobody")
    nobody = control_plane.kubectl.as_service_account("nobody", "default")
    with pytest.raises(KubectlError, match=r'User "system:serviceaccount:default:nobody" cannot list resource "pods"'):
        nobody("get", "pods")


def test_second_start_leaves_what_runs_alone_and_starts_what_does_not(control_plane):
    before = {daemon.name: daemon.identity() for daemon in found_in(control_plane.directory / RUN)}
    control_plane.daemon("kube-scheduler").kill()
    again = ControlPlane.start(control_plane.directory)
    after = {daemon.name: daemon.identity() for daemon in found_in(control_plane.directory / RUN)}
    assert again.server == control_plane.server
    assert set(before) == set(after) == PARTS
    assert {name for name in PARTS if before[name] != after[name]} == {"kube-scheduler"}


def test_control_plane_of_another_run_is_not_shared(control_plane):
    program = f"""
        from pathlib import Path
        from e2e.harness import ControlPlane
        ControlPlane.start(Path({str(control_plane.directory)!r}))
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True)
    assert (done.returncode, "is in use; wait for it, or take another folder" in done.stderr) == (1, True)


def test_ports_reserved_by_another_process_are_not_used(monkeypatch):
    few = range(10_000 + os.getpid() % 7_000, 10_003 + os.getpid() % 7_000)
    program = f"""
        from e2e.harness import addresses
        addresses.PORTS = {few!r}
        print(addresses.free_ports(len(addresses.PORTS)), flush=True)
        input()
    """
    monkeypatch.setattr(addresses, "PORTS", few)
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        drawn = json.loads(other.stdout.readline())
        with pytest.raises(OSError, match="1 free ports wanted"):
            addresses.free_ports(1)
        other.communicate("\n")
    assert sorted(addresses.free_ports(3)) == sorted(drawn) == list(few)
    with pytest.raises(OSError, match="1 free ports wanted"):
        addresses.free_ports(1)


def test_pid_file_of_another_process_is_ignored(tmp_path):
    daemon = Daemon("sleeper", tmp_path)
    mine = Identity.mine()
    # This very process under another start: what a reused pid looks like.
    stale = {"pid": mine.pid, "started": mine.started - 1, "boot": mine.boot}
    (tmp_path / "sleeper.pid").write_text(json.dumps(stale))
    assert daemon.identity() is None
    daemon.stop()
    assert mine.alive()
    assert found_in(tmp_path) == []


@pytest.mark.alone
def test_what_a_killed_run_left_is_stopped_by_the_next_start(tmp_path):
    """Alone, because a start in another process of pytest would stop it as well."""
    program = f"""
        import os, signal
        from pathlib import Path
        from e2e.harness import ControlPlane
        ControlPlane.start(Path({str(tmp_path / "left")!r}))
        os.kill(os.getpid(), signal.SIGKILL)
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=False)
    state = State.read(tmp_path / "left")
    daemons = found_in(tmp_path / "left" / RUN)
    left = {daemon.name: identity for daemon in daemons if (identity := daemon.identity())}
    assert set(left) == PARTS
    assert state is not None
    assert state.abandoned
    clean_abandoned()
    assert [name for name, identity in left.items() if identity.alive()] == []
    assert not (tmp_path / "left").exists()
