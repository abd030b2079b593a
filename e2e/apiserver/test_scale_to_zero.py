"""Scale to zero and back on KWOK's nodes, with metrics of simulated engines and `forebay wake`."""

from __future__ import annotations

import time

import pytest

from e2e.harness import eventually
from e2e.harness.kubectl import Object
from e2e.manifests import EngineProfile, ServiceManifest, an_inference_service
from e2e.operator_suite import USER, Suite, condition, requests_of

AFTER_SECONDS = 30.0
"""The shortest scaleToZeroAfter."""


@pytest.fixture
def began() -> float:
    """Unix seconds."""
    return time.time()


def a_sleepy_service(namespace: str) -> ServiceManifest:
    manifest = an_inference_service("chat", namespace).replicas(0, 2).cooldowns("2s", "6s").lenient_slo()
    manifest.object["spec"]["scaling"]["scaleToZeroAfter"] = f"{AFTER_SECONDS:.0f}s"
    return manifest.profile(EngineProfile()).drain_timeout("30s")


def goes_to_zero(suite: Suite, namespace: str) -> Object:
    """Wait until no pod is left, and return the service."""
    eventually(lambda: suite.owned(namespace, "pods"), lambda pods: pods == [], within=180, what="no pod is left")
    return eventually(
        lambda: suite.stored(namespace, "chat"),
        lambda found: not any(found["status"]["replicas"].values()),
        within=60,
        what="the status says so",
    )


def test_an_idle_service_scales_to_zero_and_a_wake_request_restores_it(
    suite, namespace, fleet, operator_on_fleet, cli, began
):
    suite.apply(manifest := a_sleepy_service(namespace))
    suite.serves(manifest, ready=1)
    ready_at = time.time()
    service = goes_to_zero(suite, namespace)
    assert time.time() - ready_at >= AFTER_SECONDS - 1, "the clock counts from Ready, which has whole seconds"
    assert {one["status"] for one in service["status"]["conditions"]} == {"True"}
    assert condition(service, "Ready")["reason"] == "ScaledToZero"
    zero = service["status"]["scaledToZero"]
    operator_on_fleet.ticks_on(6, within=60)
    assert suite.owned(namespace, "pods") == [], "it sleeps"
    assert suite.stored(namespace, "chat")["status"]["scaledToZero"] == zero
    assert "At zero since" in cli("explain", "chat", "-n", namespace)

    assert "is requested" in cli("wake", "chat", "-n", namespace)
    service = suite.serves(manifest, ready=1)
    assert "scaledToZero" not in service["status"]
    fleet.traffic(namespace, "chat", requestsPerSecond=1, promptTokens=20, outputTokens=5)
    (pod,) = suite.owned(namespace, "pods")
    eventually(
        lambda: fleet.summary()[f"{namespace}/chat"]["completed"],
        lambda completed: completed > 2 * AFTER_SECONDS,
        within=6 * AFTER_SECONDS,
        what="at one a second, twice the time has passed",
    )
    assert [one["metadata"]["uid"] for one in suite.owned(namespace, "pods")] == [pod["metadata"]["uid"]], "it is asked"

    fleet.traffic(namespace, "chat", requestsPerSecond=0)
    service = goes_to_zero(suite, namespace)
    called = service["metadata"]["annotations"]["forebay.dev/wake-requested-at"]
    assert service["status"]["scaledToZero"]["answeredWake"] == called
    operator_on_fleet.ticks_on(6, within=60)
    assert suite.owned(namespace, "pods") == [], "a call that was answered wakes nothing again"
    made = list(requests_of(suite.plane, USER))
    assert {one.right for one in made if one.code == 403 and one.at > began} == set(), "no right was missing"


def test_an_operator_start_does_not_wake_a_service_at_zero(suite, namespace, fleet, operator_on_fleet, cli):
    suite.apply(manifest := a_sleepy_service(namespace))
    suite.serves(manifest, ready=1)
    before = goes_to_zero(suite, namespace)
    operator_on_fleet.stop()
    operator_on_fleet.restart()
    operator_on_fleet.ticks_on(6, within=120)
    service = suite.stored(namespace, "chat")
    assert suite.owned(namespace, "pods") == []
    assert service["status"]["scaledToZero"] == before["status"]["scaledToZero"]
    cli("wake", "chat", "-n", namespace)
    suite.serves(manifest, ready=1)
