"""The stored state of a cluster between two commands: its folder, its ports and its owner.

A cluster belongs to the process that started it, unless it was told to outlive it. Every cluster of a user is noted in
one place outside its own folder, so that the next start finds what a killed test run left, wherever that was.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from e2e.harness.processes import KILL, Identity, found_in, stop_all

CONTROL_PLANE_MODE = "control-plane"
NODES_MODE = "nodes"

FILE = "cluster.json"
RUN = "run"
"""Folder of pid files and logs below a cluster's folder."""


@dataclass(frozen=True, slots=True)
class State:
    mode: str
    """`CONTROL_PLANE_MODE` or `NODES_MODE`."""
    started_by: Identity
    outlives_starter: bool
    since: float
    """Unix time."""
    etcd_port: int
    etcd_peer_port: int
    api_port: int

    @classmethod
    def read(cls, directory: Path) -> State | None:
        """None when the folder contains no cluster, or an incomplete write."""
        try:
            found = json.loads((directory / FILE).read_text())
            return cls(**(found | {"started_by": Identity(**found["started_by"])}))
        except (FileNotFoundError, NotADirectoryError, ValueError, TypeError, KeyError):
            return None

    def write(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        unfinished = directory / f"{FILE}.new"
        unfinished.write_text(json.dumps(asdict(self)))
        unfinished.rename(directory / FILE)
        note = _note(directory)
        unfinished = note.with_suffix(".new")
        unfinished.write_text(str(directory.resolve()))
        unfinished.rename(note)

    @property
    def abandoned(self) -> bool:
        """Whether nothing will stop it: its starter ended without stopping it, or the machine restarted."""
        if self.outlives_starter:
            return self.started_by.boot != Identity.mine().boot
        return not self.started_by.alive()

    @property
    def belongs_to_another(self) -> bool:
        """Whether another process uses it and will stop it."""
        return not self.outlives_starter and self.started_by.alive() and self.started_by != Identity.mine()

    def described(self, directory: Path) -> str:
        since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(self.since))
        return f"the {self.mode} cluster in {directory}, started {since} by process {self.started_by.pid}"


def forget(directory: Path) -> None:
    """Removes the files of a stopped cluster, including its logs."""
    _note(directory).unlink(missing_ok=True)
    shutil.rmtree(directory, ignore_errors=True)


def stop_processes(directory: Path) -> None:
    """Kills a cluster's processes, since its data is removed anyway and a graceful stop takes ten seconds."""
    stop_all(found_in(directory / RUN), signals=KILL)


def noted() -> Iterator[tuple[Path, State]]:
    """Every cluster of this user that was started and not stopped."""
    for note in sorted(_notes().glob("*.cluster")):
        try:
            directory = Path(note.read_text())
        except FileNotFoundError:
            # Another process has stopped that cluster meanwhile.
            continue
        if state := State.read(directory):
            yield directory, state
        else:
            note.unlink(missing_ok=True)


def lock_file(directory: Path) -> Path:
    """A lock held while a cluster in `directory` starts, so that two commands at once start one cluster."""
    return _note(directory).with_suffix(".lock")


def _note(directory: Path) -> Path:
    mark = hashlib.sha256(str(directory.resolve()).encode()).hexdigest()[:16]
    return _notes() / f"{mark}.cluster"


def _notes() -> Path:
    folder = Path(tempfile.gettempdir()) / f"forebay-clusters-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.stat().st_uid != os.getuid():
        raise PermissionError(f"{folder} belongs to somebody else; remove it")
    return folder
