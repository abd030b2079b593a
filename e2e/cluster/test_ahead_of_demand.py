"""Capacity ahead of demand on real nodes: a schedule is met, and a replica preempts a placeholder."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime

from e2e.engines import has_condition, is_ready, name_of, pods_of, wait_for_serving
from e2e.harness.kubectl import Object
from e2e.harness.waiting import eventually
from e2e.installation import Installation
from e2e.manifests import EngineProfile, an_inference_service, minute_after

LOAD_SECONDS = 5.0
STEP_SECONDS = 10.0
"""For one step of the scheduler, the end of a placeholder (a second) included, where much else is to be done."""


def moment(pod: Object, condition: str) -> datetime:
    """When the pod's condition last changed."""
    (found,) = (one for one in pod["status"]["conditions"] if one["type"] == condition)
    return datetime.fromisoformat(found["lastTransitionTime"])


def test_a_schedule_two_minutes_ahead_is_met_with_all_pods_ready_before_its_start(forebay: Installation) -> None:
    start = minute_after(80)
    manifest = an_inference_service("peak", forebay.namespace).replicas(1, 4).scheduled(start, 4)
    forebay.kubectl.apply(manifest.profile(EngineProfile(a=0.01), LOAD_SECONDS).object)
    pods = wait_for_serving(forebay.kubectl, "peak", 4, within=90, namespace=forebay.namespace)
    last = max(moment(pod, "Ready") for pod in pods)
    assert last < start

    def schedule() -> Object:
        (found,) = forebay.get("peak").get("status", {}).get("schedules") or [{"state": ""}]
        return dict(found)

    found = eventually(schedule, lambda now: now["state"] in ("Met", "Missed"), within=200, what="the start is judged")
    assert (found["state"], found["replicas"]) == ("Met", 4), found
    assert datetime.fromisoformat(found["readyAt"]) == last
    print(f"{len(pods)} pods Ready {(start - last).total_seconds():.0f} s before the start")
    assert [is_ready(pod) for pod in pods_of(forebay.kubectl, "peak", forebay.namespace)] == [True] * 4
    forebay.delete("peak")


def requests_for(forebay: Installation, pod: str, since: datetime) -> Iterator[tuple[str, str, datetime]]:
    """(user, verb and subresource, time) of the requests for a pod, from the audit log."""
    with forebay.audit_log.open() as lines:
        for line in lines:
            if f'"{pod}"' not in line:
                continue
            entry = json.loads(line)
            reference, at = entry.get("objectRef", {}), datetime.fromisoformat(entry["requestReceivedTimestamp"])
            if reference.get("resource") == "pods" and reference.get("name") == pod and at >= since:
                verb = " ".join(part for part in (entry["verb"], reference.get("subresource")) if part)
                yield entry["user"]["username"], verb, at


def test_a_placeholder_is_preempted_in_one_step(forebay: Installation) -> None:
    """On a node that one replica and one placeholder fill, so that no other GPU is free."""
    node = forebay.nodes[-1]
    product, gpus = gpus_of(forebay, node)
    manifest = an_inference_service("warm", forebay.namespace).replicas(1, 2).gpu(product=product)
    manifest.engine(tensorParallelSize=gpus // 2).profile(EngineProfile(a=0.01), LOAD_SECONDS)
    manifest.object["spec"]["warmPool"] = {"placeholders": 1}
    forebay.kubectl.apply(manifest.object)
    eventually(lambda: forebay.get("warm"), has_condition("Warm", "True", "Warm"), within=120, what="a place is held")
    (holding,) = placeholders(forebay)
    (first,) = engines(forebay)
    assert holding["spec"]["nodeName"] == first["spec"]["nodeName"] == node
    forebay.patch("warm", {"spec": {"scaling": {"minReplicas": 2}}})
    pods = eventually(
        lambda: engines(forebay),
        lambda now: len(now) == 2 and all(is_ready(pod) for pod in now),
        within=120,
        what="two replicas serve",
    )
    (second,) = (pod for pod in pods if name_of(pod) != name_of(first))
    assert second["spec"]["nodeName"] == node

    created = datetime.fromisoformat(second["metadata"]["creationTimestamp"])
    ended = [one for one in requests_for(forebay, name_of(holding), created) if one[1] == "delete"]
    users = [user for user, _, _ in ended]
    assert users[0] == "system:kube-scheduler", users
    assert not [user for user in users if "forebay" in user], "it is the scheduler's work, not ours"
    (bound,) = (at for _, verb, at in requests_for(forebay, name_of(second), created) if verb == "create binding")
    evicted = ended[0][2]
    print(
        f"evicted {(evicted - created).total_seconds():.1f} s after the pod's creation, which has its node "
        f"{(bound - evicted).total_seconds():.1f} s later"
    )
    assert (evicted - created).total_seconds() <= STEP_SECONDS, "at once"
    assert (bound - evicted).total_seconds() <= STEP_SECONDS, "and without a pause once the place is free"
    reasons = {event["reason"] for event in forebay.kubectl.json("get", "events", "-n", forebay.namespace)["items"]}
    assert "Preempted" in reasons
    assert "ReplicaUnschedulable" not in reasons, "it was never stuck"
    forebay.delete("warm")


def gpus_of(forebay: Installation, node: str) -> tuple[str, int]:
    """The GPU product of a node, and its number of GPUs."""
    found = forebay.kubectl.get("node", node)
    assert found is not None
    return found["metadata"]["labels"]["nvidia.com/gpu.product"], int(found["status"]["allocatable"]["nvidia.com/gpu"])


def placeholders(forebay: Installation) -> list[Object]:
    return forebay.kubectl.list("pods", forebay.namespace, "forebay.dev/service=warm,forebay.dev/role=placeholder")


def engines(forebay: Installation) -> list[Object]:
    return forebay.kubectl.list("pods", forebay.namespace, "forebay.dev/service=warm,forebay.dev/role!=placeholder")
