"""Pod charges: what a pod costs in a ResourceQuota, computed as the API server's admission does.

A charge is computed from the pod as Forebay writes it. Admission plugins may add to a pod before its quota is checked:
defaults of a LimitRange, the overhead of a RuntimeClass, the cluster's default PriorityClass. They are unknown here; a
pod that a quota refuses because of them is refused by the API server.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import chain
from typing import Any, Final

from forebay.workloads.spec.quantities import amount_of
from forebay.world.quota import QuotaScope, QuotaView
from forebay.world.world import Place

PODS: Final = ("pods", "count/pods")
COMPUTE: Final = ("cpu", "memory", "ephemeral-storage")
"""Native resources. A quota limits their requests under the plain name too, and their limits under `limits.`."""
CHARGES_KEPT: Final = 2048

Amounts = Mapping[str, Fraction]
"""By resource."""


@dataclass(frozen=True, slots=True)
class PodCharge:
    """What one pod uses of each resource that a quota can limit, and the properties that scopes ask about."""

    usage: Amounts
    best_effort: bool = False
    """Whether no container requests or limits CPU or memory."""
    terminating: bool = False
    """Whether the pod has an activeDeadlineSeconds."""
    priority_class: str = ""
    crosses_namespaces: bool = False
    """Whether its affinity names other namespaces."""


@lru_cache(maxsize=CHARGES_KEPT)
def charge_of_replica_pod(revision_data: str, worker: bool) -> PodCharge:
    """The charge of a pod of a revision; `worker` says whether its rank is above 0."""
    return charge_of(json.loads(revision_data)["worker" if worker else "pod"]["spec"])


@lru_cache(maxsize=CHARGES_KEPT)
def charge_of_placeholder(place: Place, priority_class: str) -> PodCharge:
    data = json.loads(place.data)
    return charge_of({**data["spec"], "containers": [data["container"]], "priorityClassName": priority_class})


def charge_of(spec: Mapping[str, Any]) -> PodCharge:
    """The charge of a pod with this spec, before admission."""
    requests, limits = _of_pod(spec, _requests), _of_pod(spec, _limits)
    usage: dict[str, Fraction] = dict.fromkeys(PODS, Fraction(1))
    for name, amount in requests.items():
        usage[f"requests.{name}"] = amount
        if name in COMPUTE or name.startswith("hugepages-"):
            usage[name] = amount
    usage |= {f"limits.{name}": amount for name, amount in limits.items() if name in COMPUTE}
    return PodCharge(
        usage=usage,
        best_effort=not any(amounts.get(name) for amounts in (requests, limits) for name in ("cpu", "memory")),
        terminating=spec.get("activeDeadlineSeconds") is not None,
        priority_class=spec.get("priorityClassName") or "",
        crosses_namespaces=_crosses_namespaces(spec.get("affinity") or {}),
    )


def applies(quota: QuotaView, charge: PodCharge) -> bool:
    """Whether the quota counts the pod. A scope that this version does not know counts none."""
    return all(_matches(scope, charge) for scope in quota.scopes)


def _matches(scope: QuotaScope, charge: PodCharge) -> bool:
    match scope.name:
        case "Terminating":
            return charge.terminating
        case "NotTerminating":
            return not charge.terminating
        case "BestEffort":
            return charge.best_effort
        case "NotBestEffort":
            return not charge.best_effort
        case "CrossNamespacePodAffinity":
            return charge.crosses_namespaces
        case "PriorityClass":
            return _has_priority_class(scope, charge.priority_class)
        case _:
            return False


def _has_priority_class(scope: QuotaScope, priority_class: str) -> bool:
    match scope.operator:
        case "Exists":
            return bool(priority_class)
        case "DoesNotExist":
            return not priority_class
        case "In":
            return priority_class in scope.values
        case "NotIn":
            return priority_class not in scope.values
        case _:
            return False


def _requests(resources: Mapping[str, Any]) -> dict[str, Fraction]:
    """A resource with a limit and no request requests its limit."""
    return _amounts({**(resources.get("limits") or {}), **(resources.get("requests") or {})})


def _limits(resources: Mapping[str, Any]) -> dict[str, Fraction]:
    return _amounts(resources.get("limits") or {})


def _amounts(quantities: Mapping[str, str | int | float]) -> dict[str, Fraction]:
    return {name: amount_of(quantity) for name, quantity in quantities.items()}


def _of_pod(spec: Mapping[str, Any], read: Callable[[Mapping[str, Any]], dict[str, Fraction]]) -> dict[str, Fraction]:
    """The sum of what runs at once: the containers and the sidecars, or an init container and the sidecars before it,
    whichever is more; then the pod's own resources and its overhead."""
    running: dict[str, Fraction] = {}
    for container in spec.get("containers") or ():
        running = _sum(running, read(container.get("resources") or {}))
    sidecars: dict[str, Fraction] = {}
    starting: dict[str, Fraction] = {}
    for container in spec.get("initContainers") or ():
        amounts = read(container.get("resources") or {})
        if container.get("restartPolicy") == "Always":
            running, sidecars = _sum(running, amounts), _sum(sidecars, amounts)
            amounts = sidecars
        else:
            amounts = _sum(sidecars, amounts)
        starting = _largest(starting, amounts)
    of_pod = {**_largest(running, starting), **read(spec.get("resources") or {})}
    overhead = _amounts(spec.get("overhead") or {})
    return _sum(of_pod, {name: amount for name, amount in overhead.items() if read is _requests or name in of_pod})


def _sum(one: Amounts, other: Amounts) -> dict[str, Fraction]:
    return {name: one.get(name, Fraction(0)) + other.get(name, Fraction(0)) for name in chain(one, other)}


def _largest(one: Amounts, other: Amounts) -> dict[str, Fraction]:
    return {name: max(one.get(name, Fraction(0)), other.get(name, Fraction(0))) for name in chain(one, other)}


def _crosses_namespaces(affinity: Mapping[str, Any]) -> bool:
    for kind in ("podAffinity", "podAntiAffinity"):
        rules = affinity.get(kind) or {}
        terms = list(rules.get("requiredDuringSchedulingIgnoredDuringExecution") or ())
        preferred = rules.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
        terms += [weighted.get("podAffinityTerm") or {} for weighted in preferred]
        if any(term.get("namespaces") or term.get("namespaceSelector") is not None for term in terms):
            return True
    return False
