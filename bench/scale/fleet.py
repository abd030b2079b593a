"""A fleet of one size on a real API server: KWOK's nodes, simulated engines with traffic, and the operator."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bench.scale.readings import PLANS, SCRAPES, read
from e2e.fleet_process import FleetProcess
from e2e.harness import ControlPlane, eventually
from e2e.harness.control_plane import Settings
from e2e.harness.progress import working_on
from e2e.manifests import an_inference_service
from e2e.operator_process import OperatorProcess
from e2e.operator_suite import Suite, suite_on

GPUS_PER_NODE = 8
NODES_AT_ONCE = 100
SERVICES_PER_NAMESPACE = 100
CONTROL_PLANE_PARTS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok")
UNHURRIED = Settings(node_grace_seconds=1200, node_lease_seconds=600)
"""Heartbeats of 1,250 nodes every 10 s would be 125 writes a second, of which the operator sees none."""
CREATE_SECONDS = 600.0
"""For a hundred services, on a machine that does much else."""
UP_SECONDS = 3600.0
STOPPED_WITHIN_SECONDS = 120.0
"""A tick that has begun is finished, and the first of a large fleet writes every status."""
SETTLED_TICKS = 8
"""After the last creation: the statuses have been written, and the engines' counters have two samples."""
QUIET_SECONDS, QUIET_SECONDS_PER_POD = 90.0, 0.02
"""A scrape interval of which most is quiet: a round of 10,000 pods, at 125 a second or faster, takes less than half."""


@dataclass(frozen=True, slots=True)
class Size:
    """So many services with so many pods each, one GPU a pod."""

    services: int
    replicas: int

    @classmethod
    def parse(cls, text: str) -> Size:
        """From `1000x10`. Raises ValueError."""
        services, _, replicas = text.partition("x")
        return cls(int(services), int(replicas))

    @property
    def pods(self) -> int:
        return self.services * self.replicas

    def __str__(self) -> str:
        return f"{self.services}x{self.replicas}"


@dataclass(frozen=True, slots=True)
class Fleet:
    """All parts run; `create_seconds` is how long the operator took from the manifests to the last ready pod."""

    size: Size
    suite: Suite
    simulator: FleetProcess
    operator: OperatorProcess
    create_seconds: float

    @property
    def parts(self) -> dict[str, tuple[int, ...]]:
        """The pids of the machine's parts."""
        daemons = (self.suite.plane.daemon(name).identity() for name in CONTROL_PLANE_PARTS)
        return {
            "operator": (self.operator.pid,),
            "fleetSim": (self.simulator.pid,),
            "controlPlane": tuple(daemon.pid for daemon in daemons if daemon is not None),
        }

    def restart(self, **flags: str | float | bool) -> float:
        """Stop the operator and start it again; the seconds from the start to its first plan."""
        self.operator.stop(within=STOPPED_WITHIN_SECONDS)
        began = time.monotonic()
        self.operator.wait_until_ready = False
        self.operator.restart(**flags)
        eventually(
            lambda: self.operator.metrics("forebay_stage_duration_seconds_count").get(PLANS, 0.0),
            within=300,
            what="the first plan after the start",
        )
        return time.monotonic() - began

    def restart_without_scrapes(self) -> float:
        """The same, with a long time between two rounds of scrapes; returns when such a time has begun.

        The first round finds no engine, because the caches are still empty.
        """
        quiet_seconds = max(QUIET_SECONDS, QUIET_SECONDS_PER_POD * self.size.pods)
        start_seconds = self.restart(
            scrape_interval=quiet_seconds, stale_after_seconds=3 * quiet_seconds, lost_after_seconds=6 * quiet_seconds
        )
        eventually(
            lambda: self.operator.metrics(SCRAPES).get(SCRAPES, 0.0),
            lambda scrapes: scrapes >= self.size.pods,
            within=600,
            what="every engine was scraped once",
            pause=1.0,
        )
        self.settle()
        return start_seconds

    def settle(self) -> None:
        """Wait for some ticks."""
        self.operator.ticks_on(SETTLED_TICKS, within=60.0 * SETTLED_TICKS)


@contextmanager
def fleet(size: Size, directory: Path, requests_per_second: float) -> Iterator[Fleet]:
    """Bring a fleet up on a control plane of its own. Every service has this traffic."""
    with ControlPlane.start(directory / "plane", settings=UNHURRIED) as plane:
        with working_on(f"{size}: nodes"):
            _add_nodes(plane, size)
        suite = suite_on(plane)
        traffic = f"--requests-per-second={requests_per_second:g}"
        with (
            FleetProcess(plane.kubeconfig, directory / "fleet.log", (traffic,)) as simulator,
            _operator(suite, simulator, directory) as operator,
        ):
            began = time.monotonic()
            with working_on(f"{size}: {size.pods} pods"):
                _create_services(suite, size)
                _all_become_ready(operator, size)
            up = Fleet(size, suite, simulator, operator, time.monotonic() - began)
            with working_on(f"{size}: settling"):
                up.settle()
                _wait_until_scraped(operator, size)
            yield up


def _add_nodes(plane: ControlPlane, size: Size) -> None:
    nodes = -(-size.pods // GPUS_PER_NODE)
    for first in range(0, nodes, NODES_AT_ONCE):
        plane.add_gpu_nodes(min(NODES_AT_ONCE, nodes - first), gpus=GPUS_PER_NODE, prefix=f"gpu-{first}")


def _operator(suite: Suite, simulator: FleetProcess, directory: Path) -> OperatorProcess:
    """The operator at its usual pace; only its limit of creations is lifted."""
    return suite.operator(
        directory / "operator",
        tick_seconds=5.0,
        debounce_seconds=1.0,
        max_creates_per_minute=100_000,
        metrics_url=simulator.metrics_url,
    )


def _create_services(suite: Suite, size: Size) -> None:
    for first in range(0, size.services, SERVICES_PER_NAMESPACE):
        namespace = f"team-{first // SERVICES_PER_NAMESPACE}"
        suite.plane.kubectl("create", "namespace", namespace)
        numbers = range(first, min(first + SERVICES_PER_NAMESPACE, size.services))
        manifests = (an_inference_service(f"chat-{number}", namespace) for number in numbers)
        items = [each.replicas(size.replicas, size.replicas).object for each in manifests]
        together = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
        suite.plane.kubectl("create", "-f", "-", stdin=together, timeout=CREATE_SECONDS)


def _all_become_ready(operator: OperatorProcess, size: Size) -> None:
    def ready() -> float:
        assert operator.alive, f"the operator ended: {operator.log_file.read_text()[-2000:]}"
        return sum(operator.metrics("forebay_ready_replicas").values())

    eventually(
        ready,
        lambda found: found == size.pods,
        within=UP_SECONDS,
        what=f"{size.pods} replicas are ready",
        pause=2.0,
    )


def _wait_until_scraped(operator: OperatorProcess, size: Size) -> None:
    """Wait for two more rounds of scrapes, so that every engine has rates."""
    goal = read(operator, SCRAPES)[SCRAPES] + 2 * size.pods
    scrapes = partial(read, operator, SCRAPES)
    eventually(scrapes, lambda found: found[SCRAPES] >= goal, within=900, what="two rounds of scrapes", pause=1.0)
