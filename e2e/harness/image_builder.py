"""Builds a Dockerfile and writes the image as an archive: with Docker where its server answers, else with buildah.

buildah runs without a daemon, in a store of its own beside the cached binaries, on a Debian root that mmdebstrap makes
from the machine's own package sources. Docker builds the same Dockerfiles on their default base.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from e2e.harness.binaries import cache_directory
from e2e.harness.failure import HarnessError
from e2e.harness.privileged import install_packages, require_root, run

DEBIAN = "bookworm"
DEBIAN_PACKAGES = "python3-minimal,python3-venv,ca-certificates"
PUBLIC_BASE = "docker.io/library/python:3.12-slim"
PIP_FOLDER = "/etc/xdg/pip"
"""Where pip looks for settings of the whole system."""


@cache
def docker_answers() -> bool:
    """Whether Docker's server answers; a client alone cannot build."""
    if shutil.which("docker") is None:
        return False
    asked = subprocess.run(["docker", "version", "--format={{.Server.Version}}"], capture_output=True, text=True)
    return asked.returncode == 0 and bool(asked.stdout.strip())


def base_description() -> str:
    """The inputs of the base image, for the hash in its name."""
    return PUBLIC_BASE if docker_answers() else f"{DEBIAN} {DEBIAN_PACKAGES}"


def build_base(folder: Path, reference: str, archive: Path) -> None:
    """A root with Python, made in an empty folder."""
    if docker_answers():
        (folder / "Dockerfile").write_text(f"FROM {PUBLIC_BASE}\n")
    else:
        _prepare()
        packages = f"--include={DEBIAN_PACKAGES}"
        run("mmdebstrap", "--variant=essential", packages, DEBIAN, folder / "root.tar", *_apt_sources())
        (folder / "Dockerfile").write_text('FROM scratch\nADD root.tar /\nCMD ["/bin/sh"]\n')
    build(folder, reference, archive)


def build(folder: Path, reference: str, archive: Path, arguments: dict[str, tuple[str, Path]] | None = None) -> None:
    """Builds `folder`'s Dockerfile and writes `archive`.

    `arguments` are build arguments that name another image: its reference and its archive.
    """
    arguments = arguments or {}
    given = [f"--build-arg={name}={parent}" for name, (parent, _) in arguments.items()]
    unfinished = archive.with_suffix(".new")
    unfinished.unlink(missing_ok=True)
    if docker_answers():
        run("docker", "build", "--network=host", f"--tag={reference}", *given, folder)
        run("docker", "save", f"--output={unfinished}", reference)
    else:
        _prepare()
        for parent, parent_archive in arguments.values():
            if not _buildah("images", "--quiet", "--filter", f"reference={parent}").strip():
                _buildah("pull", f"docker-archive:{parent_archive}")
        pip = f"--volume={_pip_settings()}:{PIP_FOLDER}:ro"
        _buildah("bud", "--layers", "--network=host", "--pull-never", f"--tag={reference}", pip, *given, str(folder))
        _buildah("push", reference, f"docker-archive:{unfinished}:{reference}")
    unfinished.rename(archive)


def remove(reference: str) -> None:
    """Drops the builder's own copy of an image, if it still has one."""
    if docker_answers():
        run("docker", "image", "rm", "--force", reference, check=False)
    else:
        _buildah("rmi", "--force", reference, check=False)


def _prepare() -> None:
    require_root()
    install_packages()


def _buildah(*arguments: str, check: bool = True) -> str:
    store = cache_directory() / "buildah"
    store.mkdir(parents=True, exist_ok=True)
    environment = os.environ | {"BUILDAH_ISOLATION": "chroot", "STORAGE_DRIVER": _storage_driver(store)}
    command = ["buildah", f"--root={store}", "--runroot=/run/forebay-buildah", *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if check and done.returncode != 0:
        raise HarnessError(f"{' '.join(command)} failed:\n{(done.stdout + done.stderr).strip()[-4000:]}")
    return done.stdout


def _storage_driver(store: Path) -> str:
    """overlay, unless the store lies on an overlay itself, which the kernel does not stack."""
    kind = run("stat", "--file-system", "--format=%T", store).strip()
    return "vfs" if kind == "overlayfs" else "overlay"


def _apt_sources() -> list[Path]:
    places = (Path("/etc/apt/sources.list.d/debian.sources"), Path("/etc/apt/sources.list"))
    return [place for place in places if place.exists()][:1]


def _pip_settings() -> Path:
    """A folder with this machine's pip configuration and certificates, so that packages come from its own index."""
    folder = cache_directory() / "scratch" / "pip"
    folder.mkdir(parents=True, exist_ok=True)
    settings = dict(_pip_configuration())
    authority = settings.get("cert") or os.environ.get("SSL_CERT_FILE") or "/etc/ssl/certs/ca-certificates.crt"
    if Path(authority).exists():
        shutil.copy(authority, folder / "authorities.crt")
        settings["cert"] = f"{PIP_FOLDER}/authorities.crt"
    lines = [f"{name} = {value}" for name, value in settings.items()]
    (folder / "pip.conf").write_text("[global]\n" + "\n".join(lines) + "\n")
    return folder


def _pip_configuration() -> Iterable[tuple[str, str]]:
    wanted = ("cert", "index-url", "extra-index-url", "trusted-host", "proxy", "timeout")
    for line in run(sys.executable, "-m", "pip", "config", "list").splitlines():
        key, _, value = line.partition("=")
        name = key.rpartition(".")[2]
        if name in wanted:
            yield name, value.strip("'\"")
