"""What killed real nodes leave on a machine, how it is recognised, and how it is removed.

They are recognised by place, never by name alone: processes by the control group or the socket they were started with,
mounts and network namespaces by their folders. Nothing of another containerd on the same machine matches.
"""

from __future__ import annotations

import os
import shutil
import signal
from functools import partial
from pathlib import Path

from e2e.harness import network
from e2e.harness.failure import HarnessError
from e2e.harness.privileged import run
from e2e.harness.waiting import eventually

RUN = Path("/run/forebay")
DATA = Path("/var/lib/forebay")
TASKS = "containerd/io.containerd.runtime.v2.task/*/*"
"""Below a node's run folder: one folder for each container, named by its id; its control group ends in the same id,
whatever became of the processes that started it."""

CGROUPS = Path("/sys/fs/cgroup")
LOG_LINKS = Path("/var/log/containers")
RESULTS = Path("/var/lib/cni/results")
GONE_SECONDS = 20.0


def processes(node: str = "*") -> list[int]:
    """Containers, their shims and the daemons of one node, or of all."""
    containers = _containers(node)
    folder = f"{RUN}/" if node == "*" else f"{RUN}/{node}/"
    found = []
    for process in Path("/proc").iterdir():
        if not process.name.isdigit() or int(process.name) == os.getpid():
            continue
        try:
            groups = {line.rpartition("/")[2] for line in (process / "cgroup").read_text().splitlines()}
            program, *arguments = (process / "cmdline").read_bytes().decode(errors="replace").split("\0")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if groups & containers or (_is_daemon(program) and any(folder in argument for argument in arguments)):
            found.append(int(process.name))
    return sorted(found)


def _containers(node: str = "*") -> set[str]:
    return {task.name for task in RUN.glob(f"{node}/{TASKS}")}


def _is_daemon(program: str) -> bool:
    name = Path(program).name
    return name.startswith("containerd") or name in ("kubelet", "kube-proxy", "runc")


def kill_processes(node: str = "*") -> None:
    """Kills until no process is left, because a shim may start another one meanwhile."""

    def survivors() -> list[int]:
        found = processes(node)
        for pid in found:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        return found

    eventually(survivors, lambda left: not left, within=GONE_SECONDS, what=f"no process of node {node} is left")


def mounts(*folders: Path) -> list[Path]:
    """Mount points below the folders, innermost first."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    points = [line.split(" ")[4].encode().decode("unicode_escape") for line in lines]
    return [Path(point) for point in reversed(points) if any(Path(point).is_relative_to(folder) for folder in folders)]


def log_links() -> list[Path]:
    """Links to container logs, which every kubelet puts into one folder for log collectors."""
    return [link for link in LOG_LINKS.glob("*.log") if link.readlink().is_relative_to(DATA)]


def unmount(*folders: Path) -> None:
    for point in mounts(*folders):
        # Lazily: a mount that somebody still looks into must not keep the rest.
        run("umount", "--lazy", point, check=False)


def control_groups(node: str = "*") -> list[Path]:
    """Control groups of containers; one tree, or one for each controller."""
    trees = [CGROUPS, *(folder for folder in CGROUPS.iterdir() if folder.is_dir())]
    groups = [tree / "k8s.io" / container for tree in trees for container in _containers(node)]
    return [group for group in groups if group.exists()]


def network_results(node: str = "*") -> list[Path]:
    """Files of the network plugins about pods, outside the folders given to them."""
    containers = _containers(node)
    return [path for path in RESULTS.glob("*") if any(container in path.name for container in containers)]


def found() -> list[str]:
    """Descriptions of everything that a killed cluster left; empty on a clean machine."""
    return [
        *(f"process {pid}" for pid in processes()),
        *(f"mount {point}" for point in mounts(RUN, DATA)),
        *(f"control group {path}" for path in control_groups()),
        *(f"file {path}" for path in [*network_results(), *log_links()]),
        *network.left_over(),
        *([f"folder {RUN}"] if RUN.exists() else []),
    ]


def clean_node(node: str = "*") -> None:
    """Removes what one killed node left, or all of them; images stay in `DATA` for the next start."""
    kill_processes(node)
    for group in control_groups(node):
        eventually(partial(_removed, group), within=GONE_SECONDS, what=f"control group {group} is gone")
    for result in network_results(node):
        result.unlink(missing_ok=True)
    for folder in [RUN, DATA] if node == "*" else [RUN / node, DATA / node]:
        unmount(folder)
    _remove(RUN if node == "*" else RUN / node)


def clean() -> None:
    """Everything that a killed cluster left, also what its pods had stored."""
    clean_node()
    network.tear_down()
    for link in log_links():
        link.unlink(missing_ok=True)
    for folder in (*DATA.glob("*/kubelet"), *DATA.glob("*/logs")):
        _remove(folder)


def _remove(folder: Path) -> None:
    """Removes a folder but nothing below a mount, which may contain the machine's own files."""
    if left := mounts(folder):
        raise HarnessError(f"{left[0]} is still mounted, so {folder} stays; unmount it and try again.")
    shutil.rmtree(folder, ignore_errors=True)


def _removed(group: Path) -> bool:
    """A group whose last process has just ended cannot be removed yet."""
    try:
        group.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True
