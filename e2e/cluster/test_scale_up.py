"""Time from an exceeded guard in a pod's /metrics to the creation of a pod in the API server's audit log."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from e2e.engines import metric, pods_of, wait_for_serving
from e2e.harness.waiting import eventually
from e2e.installation import Installation
from e2e.manifests import EngineProfile, an_inference_service
from e2e.traffic import Traffic, percentile

STEPS = int(os.environ.get("FOREBAY_SCALE_UP_STEPS", "8"))
"""`make e2e-long` takes more of them."""
LIMIT_SECONDS = 6.0
SERVICE = "steps"
QUEUE_TARGET = 1


def pod_creations(audit_log: Path, namespace: str, since: float) -> Iterator[float]:
    """Times (unix seconds) at which the API server received a pod's creation in the namespace."""
    with audit_log.open() as lines:
        for line in lines:
            if '"create"' not in line or '"pods"' not in line:
                continue
            entry = json.loads(line)
            reference = entry.get("objectRef", {})
            if entry["verb"] != "create" or reference.get("resource") != "pods" or "subresource" in reference:
                continue
            received = datetime.fromisoformat(entry["requestReceivedTimestamp"]).timestamp()
            if reference.get("namespace") == namespace and received >= since:
                yield received


def test_a_guard_creates_a_pod_within_six_seconds(forebay: Installation) -> None:
    manifest = an_inference_service(SERVICE, forebay.namespace).replicas(1, 2).targets(QUEUE_TARGET)
    manifest.cooldowns("1s", "1s").engine(maxNumSeqs=4).profile(EngineProfile(a=0.05)).lenient_slo()
    forebay.kubectl.apply(manifest.object)
    delays = [_delay_of_one_step(forebay) for _ in range(STEPS)]
    print(f"breach to creation: p50 {percentile(delays, 0.5):.2f} s, p95 {percentile(delays, 0.95):.2f} s of {STEPS}")
    assert percentile(delays, 0.95) <= LIMIT_SECONDS, sorted(delays)


def _delay_of_one_step(forebay: Installation) -> float:
    """Seconds from a queue over its target in /metrics to the pod's creation; one replica before and after."""
    (pod,) = wait_for_serving(forebay.kubectl, SERVICE, 1, within=90, namespace=forebay.namespace)
    forebay.patch(SERVICE, {"spec": {"scaling": {"maxReplicas": 2}}})
    before = time.time()
    traffic = Traffic(forebay.reached(SERVICE), SERVICE)
    traffic.hold(16, prompt_tokens=8, output_tokens=60, ramp_per_second=200)
    eventually(
        lambda: metric(pod, "vllm:num_requests_waiting") or 0.0,
        lambda waiting: waiting > QUEUE_TARGET,
        within=20,
        what="the queue guard is breached",
        pause=0.02,
    )
    breached = time.time()
    created = eventually(
        lambda: list(pod_creations(forebay.audit_log, forebay.namespace, before)),
        within=30,
        what="a pod's creation in the audit log",
    )
    forebay.patch(SERVICE, {"spec": {"scaling": {"maxReplicas": 1}}})
    traffic.finish(60)
    eventually(
        lambda: pods_of(forebay.kubectl, SERVICE, forebay.namespace),
        lambda pods: len(pods) == 1,
        within=60,
        what="back to one replica",
    )
    return created[0] - breached
