"""Processes that outlive the command that started them and are found again later.

A pid alone does not identify a process, because the kernel reuses it. A pid file therefore also holds the start time of
the process, and a process is signalled only if both match.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from e2e.harness.failure import HarnessError

STOP_SECONDS = 10.0
"""Seconds for a process to end by itself before it is killed."""

ASK_THEN_KILL = (signal.SIGTERM, signal.SIGKILL)
KILL = (signal.SIGKILL,)

_children: list[subprocess.Popen[bytes]] = []
# Kept for as long as this process lives: Python complains about a child that is forgotten while it runs.


@dataclass(frozen=True, slots=True)
class Identity:
    """One process of one boot of the machine."""

    pid: int
    started: int
    """Clock ticks since boot (proc(5), field 22 of stat)."""
    boot: str

    @classmethod
    def of(cls, pid: int) -> Identity | None:
        """None when there is no such process, or only a zombie."""
        try:
            stat = Path(f"/proc/{pid}/stat").read_text()
        except (FileNotFoundError, ProcessLookupError):
            return None
        # The command's name stands in parentheses and may hold anything, spaces and parentheses included.
        fields = stat.rpartition(")")[2].split()
        if fields[0] in "ZX":
            return None
        return cls(pid, int(fields[19]), _boot())

    @classmethod
    def mine(cls) -> Identity:
        found = cls.of(os.getpid())
        assert found is not None
        return found

    def alive(self) -> bool:
        return Identity.of(self.pid) == self

    def send(self, number: signal.Signals) -> None:
        if self.alive():
            os.kill(self.pid, number)


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


@dataclass(frozen=True, slots=True)
class Daemon:
    """A named process with its pid file and its log in `directory`."""

    name: str
    directory: Path

    @property
    def log(self) -> Path:
        return self.directory / f"{self.name}.log"

    @property
    def pid_file(self) -> Path:
        return self.directory / f"{self.name}.pid"

    def identity(self) -> Identity | None:
        """The running process, or None; a pid file of a process that is gone counts as none."""
        try:
            known = Identity(**json.loads(self.pid_file.read_text()))
        except (FileNotFoundError, ValueError, TypeError):
            return None
        return known if known.alive() else None

    def start(self, command: Sequence[str | Path], environment: Mapping[str, str] | None = None) -> bool:
        """Starts the process unless it runs; True when it was started.

        It gets a session of its own, so that neither a closed terminal nor Ctrl-C in the tests ends it.
        """
        if self.identity() is not None:
            return False
        self.directory.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                [str(part) for part in command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=dict(environment) if environment is not None else None,
                start_new_session=True,
            )
        _children.append(process)
        identity = Identity.of(process.pid)
        if identity is None:
            raise HarnessError(f"{self.name} ended at once: {self.last_words()}")
        unfinished = self.pid_file.with_suffix(".new")
        unfinished.write_text(json.dumps(asdict(identity)))
        unfinished.rename(self.pid_file)
        return True

    def stop(self) -> None:
        stop_all([self])

    def kill(self) -> None:
        """Kills the process, as a crash would."""
        stop_all([self], signals=KILL)

    def require_alive(self) -> None:
        if self.identity() is None:
            raise HarnessError(f"{self.name} has ended: {self.last_words()}")

    def last_words(self) -> str:
        """The last lines of the log, which usually explain why the process died."""
        if not self.log.exists():
            return "it wrote no log"
        lines = self.log.read_text(errors="replace").splitlines()
        return f"the end of {self.log}:\n" + "\n".join(lines[-15:])


def stop_all(daemons: Iterable[Daemon], signals: Sequence[signal.Signals] = ASK_THEN_KILL) -> None:
    """Ends all of them at once; processes that ignore a signal get the next one."""
    daemons = list(daemons)
    living = [identity for daemon in daemons if (identity := daemon.identity())]
    for number in signals:
        for identity in living:
            identity.send(number)
        deadline = time.monotonic() + STOP_SECONDS
        while (living := [identity for identity in living if identity.alive()]) and time.monotonic() < deadline:
            time.sleep(0.02)
    for daemon in daemons:
        daemon.pid_file.unlink(missing_ok=True)


def found_in(directory: Path) -> list[Daemon]:
    """Every daemon that left a pid file in `directory`, alive or not."""
    return [Daemon(file.stem, directory) for file in sorted(directory.glob("*.pid"))]
