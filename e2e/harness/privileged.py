"""What real nodes need from the machine: root, Debian packages, and no other cluster."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from e2e.harness.failure import HarnessError
from e2e.harness.progress import working_on

CNI_PLUGINS = Path("/usr/lib/cni")

PACKAGE_OF = {
    "containerd": "containerd",
    "runc": "runc",
    "nft": "nftables",
    "conntrack": "conntrack",
    "ip": "iproute2",
    "buildah": "buildah",
    "mmdebstrap": "mmdebstrap",
    str(CNI_PLUGINS / "bridge"): "containernetworking-plugins",
}
"""The Debian package that brings each command."""

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def require_root() -> None:
    if os.geteuid() != 0:
        raise HarnessError(
            "Real nodes run containers and need root; run this as root, use `--mode control-plane`, "
            "or set KUBECONFIG to a cluster of your own."
        )


def run(*command: str | Path, stdin: str | None = None, check: bool = True) -> str:
    """Runs a system command and returns its output; a failure carries what the command said."""
    done = subprocess.run([str(part) for part in command], input=stdin, capture_output=True, text=True)
    if check and done.returncode != 0:
        raise HarnessError(f"{' '.join(map(str, command))} failed: {(done.stderr or done.stdout).strip()[-3000:]}")
    return done.stdout


def install_packages() -> None:
    """Installs the missing packages with apt-get; on another distribution, says which commands are missing."""
    missing = [command for command in PACKAGE_OF if shutil.which(command, path=SYSTEM_PATH) is None]
    if not missing:
        return
    packages = [PACKAGE_OF[command] for command in missing]
    if shutil.which("apt-get") is None:
        raise HarnessError(f"Missing: {', '.join(missing)}. On Debian they come with {', '.join(packages)}.")
    quietly = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    install = ["apt-get", "install", "-y", "--no-install-recommends", *packages]
    with working_on(f"installing {', '.join(packages)}"):
        done = subprocess.run(install, env=quietly, capture_output=True, text=True)
        if done.returncode != 0:
            # The package lists of a fresh or an old machine do not know today's versions.
            run("apt-get", "update")
            done = subprocess.run(install, env=quietly, capture_output=True, text=True)
    if done.returncode != 0:
        raise HarnessError(f"apt-get install {' '.join(packages)} failed: {done.stderr.strip()[-2000:]}")
