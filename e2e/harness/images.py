"""Images without Docker: a Debian root, the project's own Dockerfile on it, an archive that containerd imports.

Everything is kept by the hash of what went in, outside the checkout, so that an image is built again exactly when its
inputs changed. Users of Docker build the same Dockerfile on its default base.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from e2e.harness.binaries import binary, cache_directory, exclusively
from e2e.harness.failure import HarnessError
from e2e.harness.node import PAUSE_IMAGE, Node
from e2e.harness.privileged import install_packages, require_root, run
from e2e.harness.progress import working_on
from e2e.harness.recipes import PAUSE

CHECKOUT = Path(__file__).resolve().parents[2]
DEBIAN = "bookworm"
DEBIAN_PACKAGES = "python3-minimal,python3-venv,ca-certificates"
INPUTS = ("Dockerfile", ".dockerignore", "pyproject.toml", "constraints.txt", "README.md", "LICENSE", "operator")
"""Files and folders of the checkout that the Dockerfile copies."""
KEPT_ARCHIVES = 3
"""Of each image, so that going back to the last change builds nothing."""


@dataclass(frozen=True, slots=True)
class Image:
    """A built image: the reference that pods name, and the archive to import it from."""

    reference: str
    archive: Path

    @property
    def repository(self) -> str:
        return self.reference.rpartition(":")[0]


def forebay_image(checkout: Path = CHECKOUT) -> Image:
    """The operator."""
    return _build(checkout, "forebay", target="forebay")


def engine_sim_image(checkout: Path = CHECKOUT) -> Image:
    """A stand-in for vLLM: it answers to `vllm serve …`."""
    return _build(checkout, "engine-sim", target="engine-sim")


def base_image() -> Image:
    """The Debian root with Python that the others are built on; also good for test pods that need a few commands."""
    image = Image(f"localhost/forebay-base:{_base_tag()}", _archive("forebay-base", _base_tag()))
    if not image.archive.exists():
        require_root()
        install_packages()
        with exclusively(_lock()):
            _ensure_base(image.reference)
            _export(image)
    return image


def import_image(node: Node, image: Image) -> None:
    """Makes the image known to a node's containerd and drops the node's older ones of the same name."""
    known = node.ctr("images", "ls", "-q").split()
    if image.reference not in known:
        node.ctr("images", "import", image.archive)
    old = [name for name in known if name.rpartition(":")[0] == image.repository and name != image.reference]
    if old:
        node.ctr("images", "rm", *old)


def pause_image() -> Image:
    """One static program in an empty root, written as an archive by hand: no build tool is needed for it."""
    archive = _archive("pause", "1")
    if not archive.exists():
        layer = _tar({"pause": binary(PAUSE).read_bytes()}, mode=0o755)
        digest = hashlib.sha256(layer).hexdigest()
        config = {
            "architecture": "amd64" if os.uname().machine == "x86_64" else "arm64",
            "os": "linux",
            "config": {"Entrypoint": ["/pause"], "User": "65535:65535"},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
        }
        manifest = [{"Config": "config.json", "RepoTags": [PAUSE_IMAGE], "Layers": ["layer.tar"]}]
        files = {"layer.tar": layer, "config.json": _json(config), "manifest.json": _json(manifest)}
        archive.parent.mkdir(parents=True, exist_ok=True)
        unfinished = archive.with_suffix(".new")
        unfinished.write_bytes(_tar(files))
        unfinished.rename(archive)
    return Image(PAUSE_IMAGE, archive)


def _json(value: object) -> bytes:
    return json.dumps(value).encode()


def _tar(files: dict[str, bytes], mode: int = 0o644) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), mode
            tar.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def _build(checkout: Path, name: str, target: str) -> Image:
    tag = _hash_of(checkout, INPUTS, extra=f"{_base_tag()} {target}")
    image = Image(f"localhost/{name}:{tag}", _archive(name, tag))
    if image.archive.exists():
        os.utime(image.archive)
        return image
    require_root()
    install_packages()
    with exclusively(_lock()), working_on(f"building image {image.reference}"):
        if not image.archive.exists():
            base = f"localhost/forebay-base:{_base_tag()}"
            _ensure_base(base)
            pip = f"--volume={_pip_settings()}:/etc/xdg/pip:ro"
            _bud(checkout, image.reference, [f"--build-arg=BASE={base}", f"--target={target}", pip])
            _export(image)
            _drop_old(name)
    return image


def _base_tag() -> str:
    return hashlib.sha256(f"{DEBIAN} {DEBIAN_PACKAGES}".encode()).hexdigest()[:12]


def _ensure_base(reference: str) -> None:
    """Makes a Debian root with Python, from the package sources that this machine trusts."""
    if _buildah("images", "--quiet", "--filter", f"reference={reference}").strip():
        return
    folder = cache_directory() / "scratch" / "base"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with working_on("making a Debian base image"):
        sources = _apt_sources()
        packages = f"--include={DEBIAN_PACKAGES}"
        run("mmdebstrap", "--variant=essential", packages, DEBIAN, folder / "root.tar", *sources)
        (folder / "Dockerfile").write_text('FROM scratch\nADD root.tar /\nCMD ["/bin/sh"]\n')
        _bud(folder, reference, [])
    shutil.rmtree(folder)


def _apt_sources() -> list[Path]:
    places = (Path("/etc/apt/sources.list.d/debian.sources"), Path("/etc/apt/sources.list"))
    return [place for place in places if place.exists()][:1]


def _bud(context: Path, reference: str, arguments: Sequence[str]) -> None:
    _buildah("bud", "--layers", "--network=host", "--pull-never", f"--tag={reference}", *arguments, str(context))


def _buildah(*arguments: str) -> str:
    """buildah with a store of its own, beside the cached binaries."""
    store = cache_directory() / "buildah"
    store.mkdir(parents=True, exist_ok=True)
    environment = os.environ | {"BUILDAH_ISOLATION": "chroot", "STORAGE_DRIVER": _storage_driver(store)}
    command = ["buildah", f"--root={store}", "--runroot=/run/forebay-buildah", *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        raise HarnessError(f"{' '.join(command)} failed:\n{(done.stdout + done.stderr).strip()[-4000:]}")
    return done.stdout


def _storage_driver(store: Path) -> str:
    kind = run("stat", "--file-system", "--format=%T", store).strip()
    return "vfs" if kind == "overlayfs" else "overlay"


def _export(image: Image) -> None:
    image.archive.parent.mkdir(parents=True, exist_ok=True)
    unfinished = image.archive.with_suffix(".new")
    unfinished.unlink(missing_ok=True)
    _buildah("push", image.reference, f"docker-archive:{unfinished}:{image.reference}")
    unfinished.rename(image.archive)


def _drop_old(name: str) -> None:
    archives = sorted(_archive(name, "x").parent.glob(f"{name}@*.tar"), key=lambda path: path.stat().st_mtime)
    for archive in archives[:-KEPT_ARCHIVES]:
        tag = archive.stem.partition("@")[2]
        archive.unlink()
        _buildah("rmi", "--force", f"localhost/{name}:{tag}")


def _pip_settings() -> Path:
    """A folder with this machine's pip configuration and certificates: where packages come from is its business."""
    folder = cache_directory() / "scratch" / "pip"
    folder.mkdir(parents=True, exist_ok=True)
    settings = dict(_pip_configuration())
    authority = settings.get("cert") or os.environ.get("SSL_CERT_FILE") or "/etc/ssl/certs/ca-certificates.crt"
    if Path(authority).exists():
        shutil.copy(authority, folder / "authorities.crt")
        settings["cert"] = "/etc/xdg/pip/authorities.crt"
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


def _hash_of(checkout: Path, inputs: Sequence[str], extra: str) -> str:
    digest = hashlib.sha256(extra.encode())
    for file in sorted(_files(checkout, inputs)):
        digest.update(f"\0{file.relative_to(checkout)}\0".encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()[:12]


def _files(checkout: Path, inputs: Sequence[str]) -> Iterable[Path]:
    for name in inputs:
        path = checkout / name
        for file in path.rglob("*") if path.is_dir() else [path]:
            built = any(part == "__pycache__" or part.endswith(".egg-info") for part in file.parts)
            if file.is_file() and not built:
                yield file


def _archive(name: str, tag: str) -> Path:
    return cache_directory() / "images" / f"{name}@{tag}.tar"


def _lock() -> Path:
    folder = cache_directory() / "images"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / "build.lock"
