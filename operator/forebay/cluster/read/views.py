"""Views: what the planner reads of an object, derived from its projection. Pure; the only place that knows both."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from forebay.api import labels
from forebay.api.reasons import Reason
from forebay.cluster.read.projections import (
    ChildObject,
    ContainerStatus,
    NodeObject,
    PodObject,
    RevisionObject,
    StatusCondition,
    unix_seconds,
)
from forebay.workloads.objects.child_objects import fingerprint
from forebay.workloads.objects.controller_revision import engine_version, read_revision
from forebay.workloads.objects.pod_template import CONTAINER
from forebay.world.world import ChildView, NodeView, PodView, Revision, ServiceKey

LEAVING_TAINTS: Final = frozenset(
    {
        "karpenter.sh/disrupted",
        "karpenter.sh/disruption",
        "ToBeDeletedByClusterAutoscaler",
        "cloud.google.com/impending-node-termination",
        "aws-node-termination-handler/spot-itn",
        "aws-node-termination-handler/scheduled-maintenance",
        "aws-node-termination-handler/asg-lifecycle-termination",
    }
)
"""By which those who take nodes away announce it, before or instead of a cordon."""

IMAGE_REASONS: Final = frozenset(
    {
        "ErrImagePull",
        "ImagePullBackOff",
        "InvalidImageName",
        "ErrImageNeverPull",
        "ImageInspectError",
        "RegistryUnavailable",
        "SignatureValidationFailed",
    }
)
"""Of a waiting container, as the kubelet writes them."""
CONFIGURATION_REASONS: Final = frozenset({"CreateContainerConfigError", "CreateContainerError", "RunContainerError"})
"""A Secret or ConfigMap that is missing, mostly."""
MESSAGE_LENGTH: Final = 500
"""Characters of a message from the cluster that we pass on; schedulers list every node."""


@dataclass(frozen=True, slots=True)
class PodFacts:
    """A pod for the planner, and where its engine answers."""

    view: PodView
    ip: str | None
    port: int | None
    """The container port named `http`."""


@dataclass(frozen=True, slots=True)
class OwnedRevision:
    """A stored revision and whose it is; `revision` is None for one that other code wrote."""

    owner_uid: str | None
    revision: Revision | None
    engine_version: str | None = None
    """The vLLM version that its pods run; metric names depend on it."""


def pod_facts(pod: PodObject) -> PodFacts:
    containers = pod.spec.containers or ()
    ports = (port for container in containers for port in container.ports or () if port.name == "http")
    return PodFacts(pod_view(pod), pod.status.pod_ip, next((port.container_port for port in ports), None))


def same_pod(one: PodFacts, other: PodFacts) -> bool:
    """Whether nothing changed but the version: a field that is none of ours."""
    return one == replace(other, view=replace(other.view, resource_version=one.view.resource_version))


def pod_view(pod: PodObject) -> PodView:
    metadata, ours = pod.metadata, pod.metadata.labels or {}
    annotations = metadata.annotations or {}
    ready = _condition(pod.status.conditions, "Ready")
    is_ready = ready is not None and ready.status == "True"
    changed_at = unix_seconds(ready.last_transition_time) if ready else None
    statuses = [*(pod.status.init_container_statuses or ()), *(pod.status.container_statuses or ())]
    why, message = (None, "") if is_ready else _blocked(pod.status.conditions, statuses)
    return PodView(
        key=ServiceKey(metadata.namespace, ours.get(labels.SERVICE, "")),
        name=metadata.name,
        uid=metadata.uid,
        resource_version=metadata.resource_version,
        owner_uid=metadata.controller_uid,
        service_uid=ours.get(labels.SERVICE_UID),
        revision=ours.get(labels.REVISION, ""),
        ordinal=_number(ours.get(labels.ORDINAL)),
        rank=_number(ours.get(labels.RANK, "0")),
        serving=ours.get(labels.SERVING) == "true",
        created_at=unix_seconds(metadata.creation_timestamp) or 0.0,
        phase=pod.status.phase,
        gpus=_gpus(pod),
        node=pod.spec.node_name,
        ready=is_ready,
        ready_since=changed_at if is_ready else None,
        unready_since=None if is_ready else changed_at,
        deleting=metadata.deletion_timestamp is not None,
        drain_started_at=unix_seconds(annotations.get(labels.DRAIN_STARTED)),
        drain_reason=annotations.get(labels.DRAIN_REASON),
        blocked=why,
        blocked_message=message[:MESSAGE_LENGTH],
        restarts=sum(status.restart_count for status in statuses),
        place=ours.get(labels.PLACE, "") if ours.get(labels.ROLE) == labels.PLACEHOLDER else None,
        scheduled_at=_scheduled_at(pod.status.conditions),
        running_since=_running_since(pod.status.container_statuses or ()),
        gates=tuple(gate.name for gate in pod.spec.scheduling_gates or ()),
    )


def node_view(node: NodeObject) -> NodeView:
    ready = _condition(node.status.conditions, "Ready")
    is_ready = ready is not None and ready.status == "True"
    leaving = any(taint.key in LEAVING_TAINTS for taint in node.spec.taints or ())
    return NodeView(
        name=node.metadata.name,
        ready=is_ready,
        cordoned=bool(node.spec.unschedulable) or leaving or node.metadata.deletion_timestamp is not None,
        gpus=_extended(node.status.allocatable or {}),
        labels=node.metadata.labels or {},
        unready_since=unix_seconds(ready.last_transition_time) if ready and not is_ready else None,
        created_at=unix_seconds(node.metadata.creation_timestamp) or 0.0,
    )


def child_view(child: ChildObject, kind: str) -> ChildView:
    return ChildView(
        kind=kind,
        namespace=child.metadata.namespace,
        name=child.metadata.name,
        owner_uid=child.metadata.controller_uid,
        fingerprint=fingerprint(kind, child.metadata.labels or {}, child.spec or {}),
    )


def owned_revision(stored: RevisionObject) -> OwnedRevision:
    metadata = stored.metadata
    revision = read_revision(
        name=metadata.name,
        labels=metadata.labels or {},
        annotations=metadata.annotations or {},
        number=stored.revision,
        data=stored.data or {},
    )
    return OwnedRevision(metadata.controller_uid, revision, engine_version(revision) if revision else None)


def _blocked(
    conditions: Iterable[StatusCondition] | None, statuses: Iterable[ContainerStatus]
) -> tuple[Reason | None, str]:
    """Why a pod that is not ready does not get there by waiting, in one word of ours and in the cluster's own."""
    scheduled = _condition(conditions, "PodScheduled")
    if scheduled is not None and scheduled.status == "False":
        # SchedulingGated too: somebody's gate is as much a wait for a place as a full cluster.
        return Reason.UNSCHEDULABLE, scheduled.message or scheduled.reason or ""
    for status in statuses:
        waiting = status.state.waiting if status.state else None
        reason = (waiting.reason if waiting else None) or ""
        said = f"container {status.name}: {reason}: {(waiting.message if waiting else None) or ''}".rstrip(": ")
        if reason in IMAGE_REASONS:
            return Reason.IMAGE_PULL, said
        if reason == "CrashLoopBackOff":
            return Reason.CRASH_LOOP, said
        if reason in CONFIGURATION_REASONS:
            return Reason.CONTAINER_CONFIG, said
    return None, ""


def _scheduled_at(conditions: Iterable[StatusCondition] | None) -> float | None:
    scheduled = _condition(conditions, "PodScheduled")
    return unix_seconds(scheduled.last_transition_time) if scheduled and scheduled.status == "True" else None


def _running_since(statuses: Iterable[ContainerStatus]) -> float | None:
    """When the engine's present process was started."""
    states = (status.state for status in statuses if status.name == CONTAINER)
    running = next((state.running for state in states if state is not None), None)
    return unix_seconds(running.started_at) if running is not None else None


def _condition(conditions: Iterable[StatusCondition] | None, kind: str) -> StatusCondition | None:
    return next((condition for condition in conditions or () if condition.type == kind), None)


def _gpus(pod: PodObject) -> int:
    """GPUs a pod holds: of each container the largest extended resource.

    Which of them is the GPU only its revision knows; network devices that come along are never more.
    """
    containers = pod.spec.containers or ()
    limits = (container.resources.limits or {} for container in containers if container.resources)
    return sum(max(_extended(each).values(), default=0) for each in limits)


def _extended(quantities: Mapping[str, str | int | float]) -> dict[str, int]:
    """Extended resources, which have a domain in their name and come in whole numbers."""
    return {name: int(str(value)) for name, value in quantities.items() if "/" in name and str(value).isdecimal()}


def _number(text: str | None) -> int:
    """A number from a label; -1 for what people wrote there, which no plan ever does."""
    return int(text) if text is not None and text.isascii() and text.isdecimal() else -1
