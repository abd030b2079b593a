"""Variants: replicas that are unschedulable on the preferred GPU use the second one and move back one by one.

The scheduler is real, the nodes are KWOK's, and the load comes from fleet-sim, because replicas move back only while
their load is known. The times after which a shape is given up and tried again are shortened to seconds.
"""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest

from e2e.fleet_process import FleetProcess
from e2e.harness import eventually
from e2e.harness.kubectl import Object
from e2e.manifests import EngineProfile, ServiceManifest, an_inference_service
from e2e.operator_process import OperatorProcess
from e2e.operator_suite import Suite, condition

REPLICAS = 3
PENDING_SECONDS = 4.0
HOLD_SECONDS = 40.0
"""Longer than a changed message may take to be written."""
AGAIN = "It is tried again at "
_shapes = itertools.count(1)


@pytest.fixture
def products(suite: Suite) -> Iterator[tuple[str, str]]:
    """A scarce GPU and a plentiful one, with nodes for one test."""
    number = next(_shapes)
    scarce, plenty = f"SCARCE-{number}", f"PLENTY-{number}"
    suite.plane.add_gpu_nodes(1, gpus=1, product=scarce, prefix=scarce.lower())
    suite.plane.add_gpu_nodes(1, product=plenty, prefix=plenty.lower())
    yield scarce, plenty
    for product in (scarce, plenty):
        suite.plane.kubectl("delete", "node", "-l", f"nvidia.com/gpu.product={product}")


@pytest.fixture
def operator(suite: Suite, fleet: FleetProcess, tmp_path: Path) -> Iterator[OperatorProcess]:
    """An operator that gives a shape up after seconds and tries it again after seconds."""
    with suite.operator(
        tmp_path / "operator",
        metrics_url=fleet.metrics_url,
        drain_grace_seconds=1,
        pending_timeout=PENDING_SECONDS,
        variant_hold=HOLD_SECONDS,
    ) as process:
        yield process


def a_service(namespace: str, scarce: str, plenty: str) -> ServiceManifest:
    manifest = an_inference_service("chat", namespace).replicas(REPLICAS, REPLICAS).gpu(product=scarce)
    manifest.object["spec"]["variants"] = [{"name": "plenty", "gpu": {"product": plenty}}]
    return manifest.profile(EngineProfile()).lenient_slo().drain_timeout("30s")


def variants(service: Object) -> dict[str, Object]:
    return {one["name"]: one for one in service["status"].get("variants", ())}


def ready(service: Object) -> dict[str, int]:
    return {name: one.get("ready", 0) for name, one in variants(service).items()}


def by_variant(suite: Suite, namespace: str) -> Counter[str]:
    """Pods by their label; those of the service's own shape have none."""
    return Counter(
        pod["metadata"]["labels"].get("forebay.dev/variant", "base") for pod in suite.owned(namespace, "pods")
    )


def told(suite: Suite, namespace: str, reason: str) -> list[str]:
    events = suite.plane.kubectl.json("get", "events", "-n", namespace)["items"]
    return [event["message"] for event in events if event["reason"] == reason]


def settles(suite: Suite, namespace: str, within: float, **wanted: int) -> Object:
    """Wait until so many replicas of each shape are ready and there are no others, and return the service."""

    def read() -> tuple[Counter[str], Object]:
        return by_variant(suite, namespace), suite.stored(namespace, "chat")

    def accept(seen: tuple[Counter[str], Object]) -> bool:
        pods, service = seen
        return pods == Counter(wanted) and ready(service) == {"base": 0, "plenty": 0} | wanted

    return eventually(read, accept, within=within, what=f"{wanted} are ready")[1]


def runs_where_it_belongs(suite: Suite, namespace: str, products: dict[str, str]) -> None:
    nodes = {node["metadata"]["name"]: node["metadata"]["labels"] for node in suite.plane.kubectl.list("nodes", None)}
    for pod in suite.owned(namespace, "pods"):
        variant = pod["metadata"]["labels"].get("forebay.dev/variant", "base")
        assert nodes[pod["spec"]["nodeName"]]["nvidia.com/gpu.product"] == products[variant]


def says_when_it_is_tried_again(suite: Suite, namespace: str) -> Object:
    """Wait until the status does, and return the service."""
    return eventually(
        lambda: suite.stored(namespace, "chat"),
        lambda found: AGAIN in variants(found)["base"]["message"],
        within=HOLD_SECONDS,
        what="the status says when the preferred shape is tried again",
    )


def tried_again_at(service: Object) -> float:
    """Unix seconds."""
    said: str = variants(service)["base"]["message"]
    return datetime.fromisoformat(said.partition(AGAIN)[2].rstrip(".")).timestamp()


def test_unschedulable_replicas_use_the_variant_and_move_back_one_by_one(
    suite, namespace, operator, products, pod_history, cli
):
    scarce, plenty = products
    suite.apply(manifest := a_service(namespace, scarce, plenty))
    suite.serves(manifest, ready=REPLICAS)
    settles(suite, namespace, within=30, base=1, plenty=2)
    runs_where_it_belongs(suite, namespace, {"base": scarce, "plenty": plenty})
    used = told(suite, namespace, "VariantUsed")
    assert used
    assert all("plenty" in message and "base" in message for message in used)
    service = says_when_it_is_tried_again(suite, namespace)
    base, other = variants(service)["base"], variants(service)["plenty"]
    assert (base["state"], other["state"]) == ("Short", "Next")
    assert base["message"]
    assert 0 <= tried_again_at(service) - time.time() <= HOLD_SECONDS
    ready_series = f'forebay_variant_ready_replicas{{namespace="{namespace}",service="chat",variant="plenty"}}'
    assert operator.metric(ready_series) == 2.0
    for said in (
        cli("explain", "chat", "-n", namespace),
        suite.plane.kubectl("describe", "infs", "chat", "-n", namespace),
    ):
        words = " ".join(said.split())
        assert base["message"] in words

    since = condition(service, "Ready")["lastTransitionTime"]
    with pod_history("chat") as history:
        suite.plane.add_gpu_nodes(1, gpus=REPLICAS - 1, product=scarce, prefix=f"more-{scarce.lower()}")
        service = settles(suite, namespace, within=180, base=REPLICAS)
    assert history.most_taking_requests() == REPLICAS + 1, "one on top, as maxSurge allows, and never another"
    assert max(len(moment.existing) for moment in history.moments) == REPLICAS + 1, "one at a time"
    assert min(len(moment.ready) for moment in history.moments if len(moment.existing) >= REPLICAS) == REPLICAS
    assert (condition(service, "Ready")["status"], condition(service, "Ready")["lastTransitionTime"]) == ("True", since)
    drains = told(suite, namespace, "DrainStarted")
    assert len(drains) == 2
    assert all("base" in message for message in drains)
    assert {name: one["state"] for name, one in variants(service).items()} == {"base": "Next", "plenty": "Standby"}
    assert "plenty: 0 ready" in cli("explain", "chat", "-n", namespace)


def test_a_failed_move_back_keeps_replicas_and_delays_the_next_try(suite, namespace, operator, products):
    scarce, plenty = products
    suite.apply(manifest := a_service(namespace, scarce, plenty))
    suite.serves(manifest, ready=REPLICAS)
    settles(suite, namespace, within=30, base=1, plenty=2)
    before = suite.identities(namespace)["pods"]
    eventually(
        lambda: by_variant(suite, namespace),
        lambda pods: pods == Counter(base=2, plenty=2),
        within=3 * HOLD_SECONDS,
        what="one of the preferred shape is tried on top",
    )
    settles(suite, namespace, within=30, base=1, plenty=2)
    assert suite.identities(namespace)["pods"] == before
    service = says_when_it_is_tried_again(suite, namespace)
    assert HOLD_SECONDS < tried_again_at(service) - time.time() <= 2 * HOLD_SECONDS, "twice as long as the first time"
    assert condition(service, "Ready")["status"] == "True"
