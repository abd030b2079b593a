"""The operator as a process of this machine, with the permissions and flags of a test."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from e2e.harness.addresses import LOOPBACK, free_ports
from e2e.harness.waiting import eventually

READY_SECONDS = 60.0
"""From start to ready; two seconds on an idle machine."""
END_SECONDS = 15.0
"""The operator promises 10 s from SIGTERM to its end."""


@dataclass(slots=True)
class OperatorProcess:
    """`forebay operator` on loopback; as a context manager, it runs inside the block."""

    kubeconfig: Path
    directory: Path
    """For its log; one per process."""
    flags: dict[str, str | float | bool] = field(default_factory=dict)
    """Flags by name without dashes, True or False for switches; they override the suite's flags."""
    wait_until_ready: bool = True
    _process: subprocess.Popen[bytes] | None = None
    _ports: list[int] = field(default_factory=list)

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            # Otherwise it would keep running and hold the lease of later operators.
            if self.alive:
                self.kill()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop gracefully, so that the next operator finds the lease released."""
        if not self.alive:
            return
        try:
            self.stop()
        except subprocess.TimeoutExpired:
            self.kill()
            raise

    @property
    def log_file(self) -> Path:
        return self.directory / "operator.log"

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start it, and return when it is ready to lead or to stand by."""
        self.directory.mkdir(parents=True, exist_ok=True)
        self._ports = free_ports(2)
        flags: dict[str, str | float | bool] = {
            "kubeconfig": str(self.kubeconfig),
            "lease-namespace": "default",
            "bind-address": LOOPBACK,
            "health-port": self._ports[0],
            "metrics-port": self._ports[1],
            **self.flags,
        }
        command = [sys.executable, "-m", "forebay.cli.main", "operator"]
        command += [_flag(name, value) for name, value in flags.items()]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("FOREBAY_")}
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
        if self.wait_until_ready:
            self.becomes_ready()

    def becomes_ready(self) -> None:
        def answer() -> int:
            assert self.alive, f"the operator ended with {self.exit_code}: {self.log_file.read_text()[-4000:]}"
            return self.answers("/readyz")[0]

        eventually(answer, lambda status: status == 200, within=READY_SECONDS, what="the operator is ready")

    def kill(self) -> None:
        """SIGKILL, without a graceful stop."""
        assert self._process is not None
        self._process.kill()
        self._process.wait(END_SECONDS)

    def stop(self, within: float = END_SECONDS) -> tuple[int, float]:
        """SIGTERM; the exit code and the seconds it took."""
        assert self._process is not None
        started = time.monotonic()
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(within), time.monotonic() - started

    def restart(self, **flags: str | float | bool) -> None:
        """SIGKILL and start again; `flags` (underscores for dashes) override the previous ones."""
        if self.alive:
            self.kill()
        self.flags |= {name.replace("_", "-"): value for name, value in flags.items()}
        self.start()

    @property
    def exit_code(self) -> int | None:
        return None if self._process is None else self._process.poll()

    def ends(self, within: float) -> int:
        """Wait for its end; the exit code."""
        assert self._process is not None
        return self._process.wait(within)

    def answers(self, path: str) -> tuple[int, str]:
        """Status and body of a health endpoint; 0 while nothing listens."""
        return _get(f"http://{LOOPBACK}:{self._ports[0]}{path}")

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def metric(self, series: str) -> float | None:
        """Value of a series by its full name with labels, such as `forebay_leader`; None when it is not there."""
        return self._series("").get(series)

    def metrics(self, *names: str) -> dict[str, float]:
        """Values of the series with these names, by full name with labels."""
        return self._series("?" + "&".join(f"name[]={name}" for name in names))

    def _series(self, query: str) -> dict[str, float]:
        _, page = _get(f"http://{LOOPBACK}:{self._ports[1]}/metrics{query}")
        lines = (line.rpartition(" ") for line in page.splitlines() if line and not line.startswith("#"))
        return {series: float(value) for series, _, value in lines}

    def ticks(self) -> float:
        """Successful ticks since the start."""
        return self.metric("forebay_tick_duration_seconds_count") or 0.0

    def ticks_on(self, more: int, within: float) -> None:
        """Wait for this many more successful ticks."""
        goal = self.ticks() + more
        eventually(self.ticks, lambda seen: seen >= goal, within=within, what=f"{more} more ticks")

    def leads(self) -> bool:
        return self.metric("forebay_leader") == 1.0

    def log(self) -> list[dict[str, Any]]:
        """The log so far; lines that are not JSON, such as a traceback, are returned as `{"text": …}`."""
        lines = []
        for line in self.log_file.read_text().splitlines():
            try:
                lines.append(json.loads(line))
            except ValueError:
                lines.append({"text": line})
        return lines


def _flag(name: str, value: str | float | bool) -> str:
    if isinstance(value, bool):
        return f"--{name}" if value else f"--no-{name}"
    return f"--{name}={value}"


def _get(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError:
        return 0, ""
