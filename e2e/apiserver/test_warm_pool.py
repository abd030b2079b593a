"""Placeholders under the real scheduler: they hold KWOK's GPU nodes, give way in one step, and leave nothing behind."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Iterator
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from e2e.harness import ControlPlane, eventually
from e2e.harness.kubectl import Object
from e2e.manifests import ServiceManifest, an_inference_service
from e2e.operator_process import OperatorProcess
from e2e.operator_suite import OPERATOR_NAMESPACE, Suite, condition, nothing, suite_on

_shapes = itertools.count(1)
GPUS = 2


@pytest.fixture(scope="module")
def suite(control_plane: ControlPlane) -> Suite:
    return suite_on(control_plane)


@pytest.fixture
def product(suite: Suite) -> Iterator[str]:
    """A card of which there is one node, with two of it, for one test."""
    name = f"WARM-{next(_shapes)}"
    suite.plane.add_gpu_nodes(1, gpus=GPUS, product=name, prefix=name.lower())
    yield name
    suite.plane.kubectl("delete", "node", "-l", f"nvidia.com/gpu.product={name}")


def a_service(namespace: str, product: str, placeholders: int, least: int = 1) -> ServiceManifest:
    manifest = an_inference_service("chat", namespace).gpu(product=product).replicas(least, GPUS)
    manifest.object["spec"]["warmPool"] = {"placeholders": placeholders}
    return manifest


def placeholders(suite: Suite, namespace: str) -> list[Object]:
    found = suite.plane.kubectl.json("get", "pods", "-n", namespace, "-l", "forebay.dev/role=placeholder")["items"]
    return sorted(found, key=lambda pod: str(pod["metadata"]["name"]))


def ready(pods: list[Object]) -> int:
    return sum(
        one["type"] == "Ready" and one["status"] == "True"
        for pod in pods
        for one in pod["status"].get("conditions", ())
    )


def warm(suite: Suite, namespace: str, reason: str) -> Object:
    """Wait until the service's condition Warm is for this reason, and return the condition."""

    def found() -> Object:
        return condition(suite.stored(namespace, "chat"), "Warm")

    return eventually(found, lambda one: one.get("reason") == reason, within=60, what=f"Warm is {reason}")


def test_a_replica_takes_the_place_of_a_placeholder_in_one_step(suite, namespace, operator, product):
    suite.apply(manifest := a_service(namespace, product, placeholders=1))
    suite.serves(manifest, ready=1)
    assert warm(suite, namespace, "Warm")["status"] == "True"
    (holding,) = placeholders(suite, namespace)
    assert (holding["spec"]["priority"], holding["spec"]["preemptionPolicy"]) == (-10, "Never")
    began = time.time()
    suite.apply(manifest := a_service(namespace, product, placeholders=1, least=2))
    suite.serves(manifest, ready=2)
    warm(suite, namespace, "PlaceholdersPending")
    assert [one.right for one in suite.writes(began) if one.verb == "delete"] == [], "the scheduler's work, not ours"
    (waiting,) = placeholders(suite, namespace)
    assert waiting["metadata"]["uid"] != holding["metadata"]["uid"]
    assert "nodeName" not in waiting["spec"]
    events = suite.plane.kubectl.json("get", "events", "-n", namespace)["items"]
    assert [e["involvedObject"]["name"] for e in events if e["reason"] == "Preempted"] == [holding["metadata"]["name"]]


def test_when_the_replica_goes_the_placeholder_has_its_place_again(suite, namespace, operator, product):
    suite.apply(manifest := a_service(namespace, product, placeholders=1, least=2).drain_timeout("1s"))
    suite.serves(manifest, ready=2)
    warm(suite, namespace, "PlaceholdersPending")
    manifest = a_service(namespace, product, placeholders=1).drain_timeout("1s")
    manifest.object["spec"]["scaling"]["maxReplicas"] = 1
    suite.apply(manifest)
    suite.serves(manifest, ready=1)
    warm(suite, namespace, "Warm")


def test_the_service_does_not_select_it_and_no_budget_protects_it(suite, namespace, operator, product):
    suite.apply(manifest := a_service(namespace, product, placeholders=1))
    suite.serves(manifest, ready=1)
    warm(suite, namespace, "Warm")
    (holding,) = placeholders(suite, namespace)
    slices = suite.plane.kubectl.json("get", "endpointslices", "-n", namespace)["items"]
    targets = {end["targetRef"]["name"] for one in slices for end in one.get("endpoints") or ()}
    assert holding["metadata"]["name"] not in targets
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": holding["metadata"]["name"], "namespace": namespace},
    }
    path = f"/api/v1/namespaces/{namespace}/pods/{holding['metadata']['name']}/eviction"
    suite.plane.kubectl("create", "--raw", path, "-f", "-", stdin=json.dumps(eviction))
    eventually(
        lambda: placeholders(suite, namespace),
        lambda now: ready(now) == 1 and now[0]["metadata"]["uid"] != holding["metadata"]["uid"],
        within=60,
        what="another one holds the place",
    )


def test_a_plan_that_is_carried_out_leaves_nothing_to_write(suite, namespace, operator: OperatorProcess, product):
    """Not while it holds its place, and not while it waits."""
    for least, reason in ((1, "Warm"), (2, "PlaceholdersPending")):
        suite.apply(manifest := a_service(namespace, product, placeholders=1, least=least))
        suite.serves(manifest, ready=least)
        warm(suite, namespace, reason)
        operator.ticks_on(4, within=60)
        before = [pod["metadata"]["resourceVersion"] for pod in placeholders(suite, namespace)]
        version = suite.stored(namespace, "chat")["metadata"]["resourceVersion"]
        operator.ticks_on(8, within=60)
        assert [pod["metadata"]["resourceVersion"] for pod in placeholders(suite, namespace)] == before
        assert suite.stored(namespace, "chat")["metadata"]["resourceVersion"] == version


def test_another_shape_takes_other_places_and_deleting_leaves_nothing(suite, namespace, operator, product):
    suite.apply(manifest := a_service(namespace, product, placeholders=1))
    suite.serves(manifest, ready=1)
    warm(suite, namespace, "Warm")
    (before,) = placeholders(suite, namespace)
    manifest = a_service(namespace, product, placeholders=1).engine(image="registry.example/vllm:v0.32.1")
    suite.apply(manifest)
    eventually(
        lambda: placeholders(suite, namespace),
        lambda now: [pod["spec"]["containers"][0]["image"] for pod in now] == ["registry.example/vllm:v0.32.1"],
        within=60,
        what="the placeholder has the image of the new revision",
    )
    assert placeholders(suite, namespace)[0]["metadata"]["uid"] != before["metadata"]["uid"]
    suite.plane.kubectl("delete", "infs", "chat", "-n", namespace)

    def identities() -> dict[str, set[str]]:
        found: dict[str, set[str]] = suite.identities(namespace)
        return found

    eventually(identities, lambda now: now == nothing(), within=60, what="nothing is left of the service")
    assert placeholders(suite, namespace) == []


def a_pool(name: str, product: str, wanted: int) -> Object:
    return {
        "apiVersion": "forebay.dev/v1alpha1",
        "kind": "WarmPool",
        "metadata": {"name": name},
        "spec": {"placeholders": wanted, "gpu": {"product": product}},
    }


def held(suite: Suite, name: str) -> list[Object]:
    return suite.plane.kubectl.list("pods", OPERATOR_NAMESPACE, f"forebay.dev/warm-pool={name}")


def pool_says(suite: Suite, name: str, wanted: int, ready: int, within: float = 60) -> Object:
    def status() -> Object:
        found = suite.plane.kubectl.get("warmpool", name)
        assert found is not None
        said: Object = found.get("status", {})
        return said

    return eventually(
        status,
        lambda now: (now.get("wanted"), now.get("ready")) == (wanted, ready),
        within=within,
        what=f"{name} holds {ready} of {wanted} places",
    )


def test_a_pool_holds_places_for_any_service(suite, namespace, operator: OperatorProcess, product):
    """Held, given to a replica of whichever service comes, back when it goes; and nothing is left of a deleted pool."""
    suite.plane.kubectl.apply(a_pool("shared", product, GPUS))
    said = pool_says(suite, "shared", GPUS, GPUS)
    assert [one["reason"] for one in said["conditions"]] == ["Warm"]
    before = {pod["metadata"]["uid"] for pod in held(suite, "shared")}
    operator.ticks_on(6, within=60)
    assert {pod["metadata"]["uid"] for pod in held(suite, "shared")} == before
    began = time.time()
    suite.apply(manifest := a_service(namespace, product, placeholders=0))
    suite.serves(manifest, ready=1)
    said = pool_says(suite, "shared", GPUS, GPUS - 1)
    assert [one["reason"] for one in said["conditions"]] == ["PlaceholdersPending"]
    assert [one.right for one in suite.writes(began) if one.verb == "delete"] == [], "the scheduler's work, not ours"
    suite.plane.kubectl("delete", "infs", "chat", "-n", namespace)
    pool_says(suite, "shared", GPUS, GPUS)
    suite.plane.kubectl("delete", "warmpool", "shared")
    eventually(lambda: held(suite, "shared"), lambda left: left == [], within=60, what="nothing is left of the pool")


def test_a_pool_holds_more_places_while_a_window_is_open(suite, namespace, operator: OperatorProcess, product):
    """One that has begun already, and that ends a minute from now, by the wall clock of India."""
    now = time.time()
    began = datetime.fromtimestamp(now, ZoneInfo("Asia/Kolkata")).replace(second=0, microsecond=0)
    left = int(now - began.timestamp()) + 60
    window = {"name": "now", "at": [began.strftime("%Y-%m-%dT%H:%M")], "timeZone": "Asia/Kolkata"}
    pool = a_pool("peak", product, 1)
    pool["spec"]["schedules"] = [window | {"duration": f"{left}s", "placeholders": GPUS}]
    suite.plane.kubectl.apply(pool)
    (open_,) = pool_says(suite, "peak", GPUS, GPUS)["schedules"]
    assert (open_["state"], open_["placeholders"]) == ("Met", GPUS)
    assert "after its start" in open_["message"]
    (over,) = pool_says(suite, "peak", 1, 1, within=120)["schedules"]
    assert (over["state"], over["message"]) == ("Idle", "No window is ahead.")
    assert time.time() >= began.timestamp() + left, "not before its end"
    suite.plane.kubectl("delete", "warmpool", "peak")
    eventually(lambda: held(suite, "peak"), lambda left: left == [], within=60, what="nothing is left of the pool")
