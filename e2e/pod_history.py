"""Every watch event of a service's pods, so that "never" can be asserted for a whole run."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from dataclasses import dataclass, field
from typing import Self

from e2e.harness.kubectl import Kubectl, Object, is_ready


@dataclass(frozen=True, slots=True)
class Moment:
    """The state after one watch event; `at` is in unix seconds."""

    at: float
    taking_requests: frozenset[str]
    """Pods that are neither draining nor being deleted."""
    ready: frozenset[str]
    """Those of them that are Ready."""
    existing: frozenset[str]


@dataclass(slots=True)
class PodHistory:
    """Watches on a thread while it is entered; each event adds one entry to `moments`."""

    kubectl: Kubectl
    namespace: str
    service: str
    moments: list[Moment] = field(default_factory=list)
    nodes: dict[str, str] = field(default_factory=dict)
    _process: subprocess.Popen[str] | None = None
    _thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        selector = f"forebay.dev/service={self.service}"
        command = self.kubectl.command(
            "get", "pods", "-n", self.namespace, "-l", selector, "--watch", "--output-watch-events", "-o", "json"
        )
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self._thread = threading.Thread(target=self._read, name="pod-history", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process is not None
        assert self._thread is not None
        self._process.terminate()
        self._process.wait(10)
        self._thread.join(10)

    def most_taking_requests(self) -> int:
        return max((len(moment.taking_requests) for moment in self.moments), default=0)

    def _read(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        pods: dict[str, Object] = {}
        for line in self._process.stdout:
            # With --output-watch-events kubectl writes one document a line.
            event = json.loads(line)
            self._take(event, pods)

    def _take(self, event: Object, pods: dict[str, Object]) -> None:
        pod = event["object"]
        name = pod["metadata"]["name"]
        if event["type"] == "DELETED":
            pods.pop(name, None)
        else:
            pods[name] = pod
            self.nodes[name] = pod["spec"].get("nodeName", "")
        taking = frozenset(name for name, pod in pods.items() if _takes_requests(pod))
        ready = frozenset(name for name in taking if is_ready(pods[name]))
        self.moments.append(Moment(time.time(), taking, ready, frozenset(pods)))


def _takes_requests(pod: Object) -> bool:
    metadata = pod["metadata"]
    return metadata["labels"].get("forebay.dev/serving") == "true" and "deletionTimestamp" not in metadata
