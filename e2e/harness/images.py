"""The images of the project, built again exactly when their inputs changed.

An image's tag is the hash of everything that went in, and its archive is kept by that tag outside the checkout: a
fresh clone of a known commit builds nothing.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import tarfile
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from e2e.harness import image_builder
from e2e.harness.binaries import binary, cache_directory, exclusively
from e2e.harness.node import PAUSE_IMAGE, Node
from e2e.harness.progress import working_on
from e2e.harness.recipes import PAUSE

CHECKOUT = Path(__file__).resolve().parents[2]
FOREBAY_INPUTS = (
    "Dockerfile",
    ".dockerignore",
    "pyproject.toml",
    "constraints.txt",
    "README.md",
    "LICENSE",
    "operator",
)
"""Files and folders of the checkout that the Dockerfile copies."""
ENGINE_SIM_INPUTS = ("engine-sim/Dockerfile",)
KEPT_ARCHIVES = 5
"""Archives kept of each image, so that undoing the last change builds nothing."""


@dataclass(frozen=True, slots=True)
class Image:
    """A built image: the reference that pods name, and the archive to import it from."""

    reference: str
    archive: Path

    @classmethod
    def of(cls, name: str, tag: str) -> Image:
        return cls(f"localhost/{name}:{tag}", cache_directory() / "images" / f"{name}@{tag}.tar")

    @property
    def repository(self) -> str:
        return self.reference.rpartition(":")[0]


def base_image() -> Image:
    """The root with Python that the others are built on; also good for test pods that need a few commands."""
    image = Image.of("forebay-base", _hash(image_builder.base_description()))
    return _once(image, lambda folder: image_builder.build_base(folder, image.reference, image.archive))


def forebay_image(checkout: Path = CHECKOUT) -> Image:
    """The operator."""
    return _from_checkout("forebay", checkout, FOREBAY_INPUTS, "BASE", base_image())


def engine_sim_image(checkout: Path = CHECKOUT) -> Image:
    """A stand-in for vLLM: it answers to `vllm serve …`."""
    return _from_checkout("engine-sim", checkout, ENGINE_SIM_INPUTS, "FOREBAY", forebay_image(checkout))


def import_image(node: Node, image: Image) -> None:
    """Makes the image known to a node's containerd and drops the node's older ones of the same name."""
    known = node.ctr("images", "ls", "-q").split()
    if image.reference not in known:
        node.ctr("images", "import", image.archive)
    old = [name for name in known if name.rpartition(":")[0] == image.repository and name != image.reference]
    if old:
        node.ctr("images", "rm", *old)


def pause_image() -> Image:
    """One static program in an empty root, written as an archive without a build tool."""
    image = Image(PAUSE_IMAGE, Image.of("pause", PAUSE.version).archive)

    def make(_: Path) -> None:
        layer = _tar({"pause": binary(PAUSE).read_bytes()}, mode=0o755)
        config = {
            "architecture": "amd64" if os.uname().machine == "x86_64" else "arm64",
            "os": "linux",
            "config": {"Entrypoint": ["/pause"], "User": "65535:65535"},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
        }
        manifest = [{"Config": "config.json", "RepoTags": [PAUSE_IMAGE], "Layers": ["layer.tar"]}]
        files = {"layer.tar": layer, "config.json": _json(config), "manifest.json": _json(manifest)}
        unfinished = image.archive.with_suffix(".new")
        unfinished.write_bytes(_tar(files))
        unfinished.rename(image.archive)

    return _once(image, make)


def _from_checkout(name: str, checkout: Path, inputs: Sequence[str], argument: str, parent: Image) -> Image:
    image = _named(name, parent, checkout, inputs)
    if image.archive.exists():
        return _once(image, lambda _: None)
    with tempfile.TemporaryDirectory() as copied:
        # Built and hashed from a copy, because an editor may save a file during the build.
        copy = Path(copied)
        for file in _files(checkout, inputs):
            target = copy / file.relative_to(checkout)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, target)
        image = _named(name, parent, copy, inputs)
        folder = (copy / inputs[0]).parent
        given = {argument: (parent.reference, parent.archive)}
        return _once(image, lambda _: image_builder.build(folder, image.reference, image.archive, given))


def _named(name: str, parent: Image, folder: Path, inputs: Sequence[str]) -> Image:
    return Image.of(name, _hash(parent.reference, *_contents(folder, inputs)))


def _once(image: Image, make: Callable[[Path], None]) -> Image:
    """Makes the image's archive unless it is there; `make` is given an empty folder to work in."""
    folder = image.archive.parent
    if not image.archive.exists():
        folder.mkdir(parents=True, exist_ok=True)
        name = image.archive.name.partition("@")[0]
        with working_on(f"building image {image.reference}"), exclusively(folder / f"{name}.lock"):
            if not image.archive.exists():
                with tempfile.TemporaryDirectory() as scratch:
                    make(Path(scratch))
                _drop_old(folder, name)
    if os.access(image.archive, os.W_OK):
        os.utime(image.archive)
    return image


def _drop_old(folder: Path, name: str) -> None:
    archives = sorted(folder.glob(f"{name}@*.tar"), key=lambda path: path.stat().st_mtime)
    for archive in archives[:-KEPT_ARCHIVES]:
        archive.unlink()
        image_builder.remove(Image.of(name, archive.stem.partition("@")[2]).reference)


def _hash(*parts: str | bytes) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(hashlib.sha256(part.encode() if isinstance(part, str) else part).digest())
    return digest.hexdigest()[:12]


def _contents(folder: Path, inputs: Sequence[str]) -> Iterator[str | bytes]:
    """Name and content of every input, in one order on every machine."""
    for file in sorted(_files(folder, inputs)):
        yield str(file.relative_to(folder))
        yield file.read_bytes()


def _files(folder: Path, inputs: Sequence[str]) -> Iterable[Path]:
    for name in inputs:
        path = folder / name
        for file in path.rglob("*") if path.is_dir() else [path]:
            built = any(part == "__pycache__" or part.endswith(".egg-info") for part in file.parts)
            if file.is_file() and not built:
                yield file


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
