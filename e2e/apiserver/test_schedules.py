"""A schedule on a real clock: its replicas are Ready before its start, and the status follows."""

from __future__ import annotations

from datetime import datetime

from e2e.harness import eventually
from e2e.manifests import an_inference_service, minute_after


def test_a_schedule_is_met_with_all_pods_ready_before_its_start(suite, namespace, operator):
    """A minute ahead, which is less than the assumed lead time: first AtRisk, then Met."""
    suite.plane.add_gpu_nodes(1, product="SCHEDULED", prefix="scheduled")
    start = minute_after(45)
    manifest = an_inference_service("chat", namespace).replicas(1, 3).gpu(product="SCHEDULED").scheduled(start, 3)
    suite.apply(manifest)
    suite.serves(manifest, ready=3)
    ready = [
        datetime.fromisoformat(one["lastTransitionTime"])
        for pod in suite.owned(namespace, "pods")
        for one in pod["status"]["conditions"]
        if one["type"] == "Ready"
    ]
    assert len(ready) == 3
    assert max(ready) < start

    def schedule() -> dict[str, str]:
        (found,) = suite.stored(namespace, "chat").get("status", {}).get("schedules") or [{"state": ""}]
        return dict(found)

    found = eventually(schedule, lambda now: now["state"] in ("Met", "Missed"), within=150, what="the start is judged")
    assert found["state"] == "Met", found
    assert datetime.fromisoformat(found["readyAt"]) == max(ready)
    assert datetime.fromisoformat(found["start"]) == start
    assert found["message"].startswith("3 replicas until ")
