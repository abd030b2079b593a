"""Action objects: the bodies and patches that the planner's actions write to the cluster."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final, assert_never

from forebay.api import labels
from forebay.api.instants import micro_time
from forebay.workloads.objects.controller_revision import controller_revision
from forebay.workloads.objects.ownership import Owner, child_labels, owner_reference
from forebay.workloads.objects.placeholder import build_placeholder
from forebay.workloads.objects.pod import build_pod
from forebay.world.plan import (
    Action,
    AdoptPod,
    ApplyChildren,
    CancelDrain,
    CreatePlaceholder,
    CreatePod,
    DeletePlaceholder,
    DeletePod,
    DeleteRevision,
    LiftGate,
    StartDrain,
    StoreRevision,
)

_SERVING: Final[Mapping[str, Any]] = {
    "metadata": {
        "labels": {labels.SERVING: "true"},
        "annotations": {labels.DRAIN_STARTED: None, labels.DRAIN_REASON: None},
    }
}


def with_objects(
    actions: Iterable[Action], owner: Owner, hostnames: Mapping[str, str], now: float
) -> tuple[Action, ...]:
    """The actions with their bodies and patches. `hostnames` maps node names to hostname labels."""
    return tuple(_with_object(action, owner, hostnames, now) for action in actions)


def _with_object(action: Action, owner: Owner, hostnames: Mapping[str, str], now: float) -> Action:
    match action:
        case StoreRevision():
            return replace(action, body=controller_revision(owner, action.revision, action.revision.number))
        case CreatePod():
            avoid = [hostnames.get(node, node) for node in action.avoid_nodes]
            body = build_pod(owner, action.revision, action.ordinal, action.rank, action.name, avoid)
            return replace(action, body=body)
        case CreatePlaceholder():
            body = build_placeholder(owner, action.place, action.name, action.priority_class)
            return replace(action, body=body)
        case AdoptPod():
            return replace(action, patch=_adoption(owner, action, now))
        case StartDrain():
            return replace(action, patch={"metadata": _draining(action.reason, now)})
        case CancelDrain():
            return replace(action, patch=_SERVING)
        case LiftGate():
            gates = [{"name": gate} for gate in action.gates]
            return replace(action, patch={"metadata": {}, "spec": {"schedulingGates": gates}})
        case ApplyChildren() | DeletePod() | DeletePlaceholder() | DeleteRevision():
            return action
        case _:
            assert_never(action)


def _adoption(owner: Owner, action: AdoptPod, now: float) -> dict[str, Any]:
    """One patch that sets the controller and, if needed, starts the drain. Between two patches the pod would count as
    needed."""
    draining = _draining(action.drain_reason, now) if action.drain_reason is not None else {}
    return {
        "metadata": {
            "ownerReferences": [owner_reference(owner)],
            "labels": {**child_labels(owner), **draining.get("labels", {})},
            "annotations": draining.get("annotations", {}),
        }
    }


def _draining(reason: str, now: float) -> dict[str, Any]:
    return {
        "labels": {labels.SERVING: None},
        "annotations": {labels.DRAIN_STARTED: micro_time(now), labels.DRAIN_REASON: reason},
    }
