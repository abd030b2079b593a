"""Replicas follow the load: the operator on metrics of simulated engines, with cooldowns of seconds."""

from __future__ import annotations

from e2e.harness import eventually
from e2e.harness.kubectl import Object
from e2e.manifests import EngineProfile, ServiceManifest, an_inference_service
from e2e.operator_suite import Suite, condition

SLOW = EngineProfile(a=0.2, b=0.00001, c=0.0, d=0.0, kv_tokens=200_000)
"""A request of 50 tokens takes 10 s whatever else runs; with 8 sequences a replica serves 0.8 requests a second."""
OVERLOAD = {"requestsPerSecond": 3, "promptTokens": 20, "outputTokens": 50}


def a_slow_service(namespace: str, least: int, most: int) -> ServiceManifest:
    manifest = an_inference_service("chat", namespace).replicas(least, most).engine(maxNumSeqs=8)
    return manifest.profile(SLOW).targets(2).cooldowns("2s", "6s").lenient_slo().drain_timeout("30s")


def replicas(suite: Suite, namespace: str) -> Object:
    found: Object = suite.stored(namespace, "chat").get("status", {}).get("replicas", {})
    return found


def reaches(suite: Suite, namespace: str, ready: int, within: float) -> None:
    eventually(
        lambda: replicas(suite, namespace),
        lambda found: found.get("ready") == ready,
        within=within,
        what=f"{ready} replicas are ready",
    )


def test_a_queue_adds_replicas_and_a_quiet_load_removes_them(suite, namespace, fleet, operator_on_fleet):
    manifest = a_slow_service(namespace, 1, 4)
    suite.apply(manifest)
    suite.serves(manifest, ready=1)
    fleet.traffic(namespace, "chat", **OVERLOAD)
    reaches(suite, namespace, ready=4, within=120)
    service = suite.stored(namespace, "chat")
    assert condition(service, "MetricsFresh")["status"] == "True"
    rules = {line["rule"] for line in operator_on_fleet.log() if line.get("rule")}
    assert "queue_depth" in rules
    fleet.traffic(namespace, "chat", requestsPerSecond=0)
    suite.serves(manifest, ready=1, within=180)


def test_an_outage_of_all_metrics_takes_no_replica_away(suite, namespace, fleet, operator_on_fleet):
    manifest = a_slow_service(namespace, 1, 3)
    suite.apply(manifest)
    suite.serves(manifest, ready=1)
    fleet.traffic(namespace, "chat", **OVERLOAD)
    reaches(suite, namespace, ready=3, within=120)
    before = suite.identities(namespace)["pods"]
    fleet.stop()
    eventually(
        lambda: condition(suite.stored(namespace, "chat"), "MetricsFresh"),
        lambda found: found.get("status") == "False",
        within=60,
        what="the condition says that metrics are stale",
    )
    operator_on_fleet.ticks_on(20, within=120)
    assert suite.identities(namespace)["pods"] == before
    fleet.start()
    suite.serves(manifest, ready=1, within=180)
