"""One scale-down under load; repeated with the drain switched off, it must break streams."""

from __future__ import annotations

from e2e.engines import open_streams, wait_for_serving
from e2e.harness.waiting import eventually
from e2e.installation import Installation
from e2e.manifests import EngineProfile, an_inference_service
from e2e.traffic import Traffic, faults

OPEN_ON_EACH = 10
HELD = 30
"""Streams that are open all the time: 15 on each of two replicas."""
OUTPUT_TOKENS = 60
"""At 0.2 s a step, 12 s: every stream on the victim outlasts the moment of its deletion."""


def test_a_scale_down_under_load_cuts_no_stream(forebay: Installation) -> None:
    kubectl, namespace = forebay.kubectl, forebay.namespace
    manifest = an_inference_service("shrinks", namespace).replicas(2, 2).profile(EngineProfile()).lenient_slo()
    kubectl.apply(manifest.drain_timeout("60s").object)
    wait_for_serving(kubectl, "shrinks", 2, within=120, namespace=namespace)
    traffic = Traffic(forebay.reached("shrinks"), f"{namespace}/shrinks")
    traffic.hold(HELD, prompt_tokens=16, output_tokens=OUTPUT_TOKENS)
    eventually(
        lambda: open_streams(kubectl, "shrinks", namespace),
        lambda running: len(running) == 2 and min(running.values()) >= OPEN_ON_EACH,
        within=60,
        what=f"{OPEN_ON_EACH} streams are open on each of two replicas",
    )
    forebay.patch("shrinks", {"spec": {"scaling": {"minReplicas": 1, "maxReplicas": 1}}})
    wait_for_serving(kubectl, "shrinks", 1, within=120, namespace=namespace)
    assert faults(traffic.finish(60)) == []
