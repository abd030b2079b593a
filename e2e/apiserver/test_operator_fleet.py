"""A fleet of 200 services on 1,600 GPUs: all become ready, and afterwards nothing is written without a change."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Iterator

import pytest

from e2e.fleet_process import FleetProcess
from e2e.harness import ControlPlane, eventually
from e2e.harness.kubectl import Object
from e2e.manifests import an_inference_service
from e2e.operator_process import OperatorProcess
from e2e.operator_suite import Suite, reason, suite_on

pytestmark = pytest.mark.alone
"""Beside the other suites, 1,600 creations keep an API server on two cores busy for longer than kubectl waits."""
SERVICES = 200
REPLICAS = 8
NODES = 200
QUIET_TICKS = int(os.environ.get("FOREBAY_QUIET_TICKS", "30"))
"""Shortened to half a second each; an hour of the usual pace is 720. `make e2e-long` waits for more of them."""
SETTLED_SECONDS = 40.0
"""Wording of a status follows its conditions within 30 s."""
MOST_REQUESTS_PER_TICK = 2.5
"""One for a service and one for WarmPools; the rest is what is read once a minute, and watches that begin anew."""
NAMESPACE = "team-of-200"


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Suite]:
    """A separate control plane, because deleting 1,600 pods would take as long as the test."""
    with ControlPlane.start(tmp_path_factory.mktemp("fleet-plane")) as plane:
        plane.add_gpu_nodes(NODES, gpus=REPLICAS)
        plane.kubectl("create", "namespace", NAMESPACE)
        yield suite_on(plane)


@pytest.fixture
def operator(suite: Suite, tmp_path) -> Iterator[OperatorProcess]:
    """With metrics of idle engines and long limits, so that a slow machine does not look like a change."""
    with (
        FleetProcess(suite.plane.kubeconfig, tmp_path / "fleet.log") as fleet,
        suite.operator(
            tmp_path / "operator",
            max_creates_per_minute=100_000,
            metrics_url=fleet.metrics_url,
            stale_after_seconds=600,
            lost_after_seconds=1200,
        ) as process,
    ):
        yield process


def ready_replicas(suite: Suite) -> int:
    services = suite.plane.kubectl.list("infs", NAMESPACE)
    return sum(service.get("status", {}).get("replicas", {}).get("ready", 0) for service in services)


def requests_made(operator: OperatorProcess) -> float:
    """Requests to the API server since the start, without those for the lease."""
    return sum(operator.metrics("forebay_api_requests_total").values())


def test_200_services_come_up_and_then_nothing_is_written(suite, operator):
    manifests: list[Object] = [
        an_inference_service(f"chat-{number}", NAMESPACE).replicas(REPLICAS, REPLICAS).object
        for number in range(SERVICES)
    ]
    together = json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests})
    suite.plane.kubectl("apply", "-f", "-", stdin=together, timeout=300)
    eventually(
        lambda: ready_replicas(suite),
        lambda ready: ready == SERVICES * REPLICAS,
        within=600,
        what=f"{SERVICES * REPLICAS} replicas are ready",
        pause=2.0,
    )
    suite.plane.kubectl("apply", "-f", "-", stdin=together, timeout=300)
    eventually(
        lambda: suite.writes(since=time.time() - SETTLED_SECONDS),
        lambda recent: not recent,
        within=300,
        what=f"nothing was written for {SETTLED_SECONDS:g} s",
        pause=5.0,
    )
    settled_at, requests, ticks = time.time(), requests_made(operator), operator.ticks()
    operator.ticks_on(QUIET_TICKS, within=10 * QUIET_TICKS)
    assert requests_made(operator) - requests <= MOST_REQUESTS_PER_TICK * (operator.ticks() - ticks)
    assert Counter((one.resource, one.verb) for one in suite.writes(since=settled_at)) == Counter()
    services = suite.plane.kubectl.list("infs", NAMESPACE)
    assert {reason(service, "Ready") for service in services} == {"Serving"}
    assert {reason(service, "MetricsFresh") for service in services} == {"Fresh"}
    difference = suite.plane.kubectl.attempt("diff", "-f", "-", stdin=together, timeout=300)
    assert (difference.returncode, difference.stdout) == (0, "")
    assert operator.metric('forebay_reconcile_errors_total{stage="action"}') == 0.0
    print(f"{SERVICES * REPLICAS} replicas of {SERVICES} services; nothing written in {QUIET_TICKS} ticks")
