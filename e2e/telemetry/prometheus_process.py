"""A Prometheus server on loopback, and engines for it to scrape."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.parse
import urllib.request
from abc import abstractmethod
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml

from e2e.harness.addresses import LOOPBACK, free_ports
from e2e.harness.debian import PROMETHEUS, program
from e2e.harness.waiting import eventually
from forebay.telemetry.signal_source import ScrapeTarget

START_SECONDS = 60.0
END_SECONDS = 10.0
SOURCE_ROOT = Path(__file__).parents[2] / "operator"


class Process(AbstractContextManager["Process"]):
    """A child process that listens on its own port, which it keeps when it is restarted."""

    def __init__(self, log: Path, ready: str) -> None:
        self.port = free_ports(1)[0]
        self._log = log
        self._ready = ready
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self.port}"

    @abstractmethod
    def command(self) -> list[str]: ...

    def environment(self) -> dict[str, str]:
        return {}

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self.command(), stdout=log, stderr=log, env=os.environ | self.environment()
            )
        eventually(self._answers, within=START_SECONDS, what=f"{self._log.stem} answers")

    def stop(self) -> None:
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, f"it ended: {self._log.read_text()[-2000:]}"
        try:
            with urllib.request.urlopen(self.url + self._ready, timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False


class Engine(Process):
    """One engine-sim, standing for the pod of its name."""

    def __init__(self, folder: Path, pod: str, profile: dict[str, float], *flags: str, namespace: str = "team") -> None:
        super().__init__(folder / f"{pod}.log", "/health")
        self.pod = pod
        self.namespace = namespace
        self._profile = profile
        self._flags = flags

    def command(self) -> list[str]:
        module = [sys.executable, "-m", "forebay.simulation.vllm_server.engine_sim", "serve", "tiny"]
        return [*module, f"--host={LOOPBACK}", f"--port={self.port}", *self._flags]

    def environment(self) -> dict[str, str]:
        return {"PYTHONPATH": str(SOURCE_ROOT), "ENGINE_SIM_PROFILE": json.dumps(self._profile)}

    @property
    def target(self) -> ScrapeTarget:
        return ScrapeTarget(f"uid-{self.pod}", self.namespace, self.pod, LOOPBACK, self.port, None)


@dataclass
class Prometheus:
    """Scrapes what is in `targets`, every second; the folder keeps what it has scraped when it is started again."""

    folder: Path
    cluster: str
    """A label on every series."""
    process: _Server = field(init=False)

    def __post_init__(self) -> None:
        self.process = _Server(self.folder)
        job = {"job_name": "engines", "file_sd_configs": [{"files": ["targets.json"], "refresh_interval": "1s"}]}
        scraping = {"scrape_interval": "1s", "scrape_timeout": "1s"}
        (self.folder / "prometheus.yaml").write_text(yaml.safe_dump({"global": scraping, "scrape_configs": [job]}))
        self.scrape()

    def scrape(self, *pods: ScrapeTarget) -> None:
        """Replace the targets."""
        targets = [
            {
                "targets": [f"{pod.ip}:{pod.port}"],
                "labels": {"namespace": pod.namespace, "pod": pod.pod, "cluster": self.cluster},
            }
            for pod in pods
        ]
        new = self.folder / "targets.new"
        new.write_text(json.dumps(targets))
        new.rename(self.folder / "targets.json")

    def instant(self, query: str) -> list[Any]:
        """The result of an instant query."""
        url = f"{self.process.url}/api/v1/query?{urllib.parse.urlencode({'query': query})}"
        with urllib.request.urlopen(url, timeout=5) as answer:
            result: list[Any] = json.load(answer)["data"]["result"]
        return result


class _Server(Process):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder / "prometheus.log", "/-/ready")
        self._folder = folder

    def command(self) -> list[str]:
        return [
            str(program(PROMETHEUS)),
            f"--config.file={self._folder / 'prometheus.yaml'}",
            f"--storage.tsdb.path={self._folder / 'data'}",
            f"--web.listen-address={LOOPBACK}:{self.port}",
            "--log.level=warn",
        ]
