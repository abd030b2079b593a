"""fleet-sim as a process of this machine: metrics and traffic for KWOK's pods."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from e2e.harness.addresses import LOOPBACK, free_ports
from e2e.harness.waiting import eventually

READY_SECONDS = 60.0
END_SECONDS = 10.0


@dataclass(slots=True)
class FleetProcess:
    """Runs while it is entered; without `traffic` no requests are sent."""

    kubeconfig: Path
    log_file: Path
    flags: tuple[str, ...] = ()
    _port: int = field(default_factory=lambda: free_ports(1)[0])
    _process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self._port}"

    @property
    def metrics_url(self) -> str:
        """The operator's `--metrics-url`."""
        return f"{self.url}/{{namespace}}/{{pod}}/metrics"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        command = [sys.executable, "-m", "forebay.cli.main", "fleet-sim", f"--kubeconfig={self.kubeconfig}"]
        command += [f"--port={self._port}", *self.flags]
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        eventually(self._is_ready, within=READY_SECONDS, what="fleet-sim has listed the pods")

    def stop(self) -> None:
        """Stop the process; for the operator, all metrics are lost."""
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            self._process.wait(END_SECONDS)

    def traffic(self, namespace: str, service: str, **traffic: Any) -> None:
        """Set the traffic of the service, in fleet-sim's fields: `requestsPerSecond`, `outputTokens`."""
        url = f"{self.url}/traffic/{namespace}/{service}"
        request = urllib.request.Request(url, data=json.dumps(traffic).encode(), method="PUT")
        urllib.request.urlopen(request, timeout=5).close()

    def summary(self) -> dict[str, Any]:
        """Outcomes of all requests, by service."""
        with urllib.request.urlopen(f"{self.url}/traffic", timeout=5) as answer:
            found: dict[str, Any] = json.load(answer)
        return found

    def _is_ready(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, f"fleet-sim ended: {self.log_file.read_text()[-2000:]}"
        try:
            with urllib.request.urlopen(f"{self.url}/healthz", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False
