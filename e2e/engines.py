"""Reads engine pods from outside: their metrics, their state, and a completion."""

from __future__ import annotations

import re
import urllib.request
from collections.abc import Callable

from e2e.harness.kubectl import Kubectl, Object
from e2e.harness.waiting import eventually


def pods_of(kubectl: Kubectl, service: str, namespace: str = "default") -> list[Object]:
    return kubectl.list("pods", namespace, f"forebay.dev/service={service}")


def pods_in(kubectl: Kubectl, namespace: str) -> list[str]:
    """Names of all pods of a namespace."""
    return [name_of(pod) for pod in kubectl.list("pods", namespace)]


def is_ready(pod: Object) -> bool:
    if "deletionTimestamp" in pod["metadata"]:
        return False
    return any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"].get("conditions", ()))


def is_serving(pod: Object) -> bool:
    return is_ready(pod) and pod["metadata"]["labels"].get("forebay.dev/serving") == "true"


def is_draining(pod: Object) -> bool:
    return "forebay.dev/drain-started" in pod["metadata"].get("annotations", {})


def name_of(pod: Object) -> str:
    name: str = pod["metadata"]["name"]
    return name


def serving(kubectl: Kubectl, service: str, namespace: str = "default") -> list[Object]:
    return [pod for pod in pods_of(kubectl, service, namespace) if is_serving(pod)]


def wait_for_serving(
    kubectl: Kubectl, service: str, count: int, *, within: float, namespace: str = "default"
) -> list[Object]:
    """Exactly `count` pods serve, and no other pod of the service exists."""

    def settled(pods: list[Object]) -> bool:
        return len(pods) == count and all(is_serving(pod) for pod in pods)

    return eventually(
        lambda: pods_of(kubectl, service, namespace), settled, within=within, what=f"{count} serving pods of {service}"
    )


def metric(pod: Object, name: str) -> float | None:
    """The sum of a series over its labels, read from the pod's own /metrics; None when the pod does not have it."""
    address = f"http://{pod['status']['podIP']}:8000/metrics"
    with urllib.request.urlopen(address, timeout=5) as answer:
        text = answer.read().decode()
    values = re.findall(rf"^{re.escape(name)}(?:{{[^}}]*}})? (\S+)$", text, re.MULTILINE)
    return sum(map(float, values)) if values else None


def open_streams(kubectl: Kubectl, service: str, namespace: str = "default") -> dict[str, float]:
    """Running requests by serving pod, as the pods' own metrics say."""
    pods = serving(kubectl, service, namespace)
    return {name_of(pod): metric(pod, "vllm:num_requests_running") or 0.0 for pod in pods}


def condition(service: Object | None, kind: str) -> Object:
    """The condition of that type, or an empty object."""
    if service is None:
        return {}
    found = [c for c in service.get("status", {}).get("conditions", ()) if c["type"] == kind]
    return found[0] if found else {}


def has_condition(kind: str, status: str, reason: str | None = None) -> Callable[[Object | None], bool]:
    """For `eventually`: the condition holds for the generation that is stored."""

    def accept(service: Object | None) -> bool:
        found = condition(service, kind)
        return (
            service is not None
            and found.get("status") == status
            and found.get("observedGeneration") == service["metadata"]["generation"]
            and (reason is None or found.get("reason") == reason)
        )

    return accept
