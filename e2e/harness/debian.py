"""Programs from Debian packages, unpacked into the cache beside the compiled binaries.

Nothing is installed: `apt-get download` needs no root, and a package list that is absent is fetched into a folder of
our own. apt checks the signature of what it fetches.
"""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from e2e.harness.binaries import cache_directory, exclusively
from e2e.harness.failure import HarnessError
from e2e.harness.progress import Report, working_on


@dataclass(frozen=True, slots=True)
class DebianPackage:
    name: str
    version: str
    """The preferred version; an archive keeps only one version of a package, so any other is accepted too."""
    program: str
    """Path inside the package."""


PROMETHEUS = DebianPackage("prometheus", "2.42.0+ds-5+deb12u1", "usr/bin/prometheus")


def program(package: DebianPackage) -> Path:
    """Path of the package's program; fetches a missing package. Without apt, the program on PATH is used."""
    folder = cache_directory() / "bin" / f"{package.name}-{package.version}"
    if not folder.is_dir():
        if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
            return _installed(package)
        _unpack_once(package, folder)
    return folder / Path(package.program).name


def _installed(package: DebianPackage) -> Path:
    name = Path(package.program).name
    found = shutil.which(name)
    if found is None:
        raise HarnessError(f"There is no apt-get to fetch {package.name} with, and no {name} on PATH; install it.")
    return Path(found)


def _unpack_once(package: DebianPackage, folder: Path) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    with working_on(f"fetching {package.name} {package.version}") as report:
        waits = partial(report, "waiting for another fetch of the same package")
        with exclusively(folder.parent / f"{folder.name}.lock", waits):
            if not folder.is_dir():
                _unpack(package, folder, report)


def _unpack(package: DebianPackage, folder: Path, report: Report) -> None:
    scratch = cache_directory() / "scratch" / folder.name
    shutil.rmtree(scratch, ignore_errors=True)
    result = scratch / "result"
    result.mkdir(parents=True)
    archive = _fetched(package, scratch, report)
    report(f"unpacking {archive.name}")
    _run(scratch, "dpkg-deb", "-x", str(archive), "unpacked")
    shutil.move(scratch / "unpacked" / package.program, result)
    result.rename(folder)
    shutil.rmtree(scratch)


def _fetched(package: DebianPackage, folder: Path, report: Report) -> Path:
    """The package file. The machine's own lists are tried first, then lists of today."""
    own = _own_lists(folder)
    pinned = f"{package.name}={package.version}"
    report(f"downloading {pinned}")
    said = _run(folder, "apt-get", "-q", "download", pinned, must=False)
    if not list(folder.glob("*.deb")):
        report("fetching package lists")
        _run(folder, "apt-get", *own, "-q", "update", must=False)
        report(f"downloading {pinned}")
        said = _run(folder, "apt-get", *own, "-q", "download", pinned, must=False)
    if not list(folder.glob("*.deb")):
        report(f"{package.version} has left the archive; downloading what it has now")
        said = _run(folder, "apt-get", *own, "-q", "download", package.name, must=False)
    found = list(folder.glob("*.deb"))
    if not found:
        raise HarnessError(f"apt-get cannot download {package.name}: {said[-1000:]}")
    return found[0]


def _own_lists(folder: Path) -> tuple[str, ...]:
    for needed in ("state/lists/partial", "cache/archives/partial"):
        (folder / needed).mkdir(parents=True)
    settings = {
        "Dir::State": folder / "state",
        "Dir::State::status": "/var/lib/dpkg/status",
        "Dir::Cache": folder / "cache",
        "APT::Sandbox::User": "root",
    }
    return tuple(part for name, value in settings.items() for part in ("-o", f"{name}={value}"))


def _run(folder: Path, *command: str, must: bool = True) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if must and done.returncode != 0:
        raise HarnessError(f"{' '.join(command)} failed: {done.stderr.strip()[-2000:]}")
    return done.stdout + done.stderr
