"""Views: convert the projection of an object into what the planner reads. Pure."""

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

NODE_REMOVAL_TAINTS: Final = frozenset(
    {
        "karpenter.sh/disrupted",
        "karpenter.sh/disruption",
        "ToBeDeletedByClusterAutoscaler",
        "aws-node-termination-handler/rebalance-recommendation",
        "cloud.google.com/maintenance-window-started",
    }
)
"""Taints by which autoscalers and clouds announce the removal of a node without a deadline, before or instead of a
cordon.

`DeletionCandidateOfClusterAutoscaler` is none of them: the autoscaler considers the node and has not decided. Nor are
taints that only say what the node is, such as `kubernetes.azure.com/scalesetpriority` of spot nodes.
"""
NODE_NOTICE_TAINTS: Final = frozenset(
    {
        "aws-node-termination-handler/spot-itn",
        "aws-node-termination-handler/scheduled-maintenance",
        "aws-node-termination-handler/asg-lifecycle-termination",
        "cloud.google.com/impending-node-termination",
        "remediator.kubernetes.azure.com/unschedulable",
        "remediator.aks.microsoft.com/unschedulable",
    }
)
"""Taints by which clouds and their termination handlers give notice that the machine of a node ends within minutes."""
NODE_SHUT_DOWN_TAINTS: Final = frozenset(
    {"node.kubernetes.io/out-of-service", "node.cloudprovider.kubernetes.io/shutdown"}
)
"""Taints of a node whose machine is off. The first may outlast the shutdown, until an administrator removes it."""

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
"""The kubelet's reasons for a waiting container whose image cannot be pulled."""
CONFIGURATION_REASONS: Final = frozenset({"CreateContainerConfigError", "CreateContainerError", "RunContainerError"})
"""The kubelet's reasons for a container that cannot be created; often a Secret or ConfigMap is missing."""
MESSAGE_LENGTH: Final = 500
"""The length in characters to which messages from the cluster are cut; schedulers list every node."""


@dataclass(frozen=True, slots=True)
class PodFacts:
    """A pod for the planner, and the address of its engine."""

    view: PodView
    ip: str | None
    port: int | None
    """The container port named `http`."""


@dataclass(frozen=True, slots=True)
class OwnedRevision:
    """A stored revision and its owner; `revision` is None when Forebay did not write it."""

    owner_uid: str | None
    revision: Revision | None
    engine_version: str | None = None
    """The vLLM version of its pods; metric names depend on it."""


def pod_facts(pod: PodObject) -> PodFacts:
    containers = pod.spec.containers or ()
    ports = (port for container in containers for port in container.ports or () if port.name == "http")
    return PodFacts(pod_view(pod), pod.status.pod_ip, next((port.container_port for port in ports), None))


def same_pod(one: PodFacts, other: PodFacts) -> bool:
    """Whether only the resourceVersion differs, so that no field changed that the planner reads."""
    return one == replace(other, view=replace(other.view, resource_version=one.view.resource_version))


def _place_hash(pod_labels: Mapping[str, str]) -> str | None:
    """Which place a placeholder holds; None for a pod that is part of a replica."""
    is_placeholder = pod_labels.get(labels.ROLE) == labels.PLACEHOLDER
    return pod_labels.get(labels.PLACEHOLDER_SHAPE, "") if is_placeholder else None


def pod_view(pod: PodObject) -> PodView:
    metadata, pod_labels = pod.metadata, pod.metadata.labels or {}
    annotations = metadata.annotations or {}
    ready = _condition(pod.status.conditions, "Ready")
    is_ready = ready is not None and ready.status == "True"
    changed_at = unix_seconds(ready.last_transition_time) if ready else None
    statuses = [*(pod.status.init_container_statuses or ()), *(pod.status.container_statuses or ())]
    blocked, message = (None, "") if is_ready else _blocked(pod.status.conditions, statuses)
    return PodView(
        key=ServiceKey(metadata.namespace, pod_labels.get(labels.SERVICE, "")),
        name=metadata.name,
        uid=metadata.uid,
        resource_version=metadata.resource_version,
        owner_uid=metadata.controller_uid,
        service_uid=pod_labels.get(labels.SERVICE_UID),
        revision=pod_labels.get(labels.REVISION, ""),
        ordinal=_number(pod_labels.get(labels.ORDINAL)),
        rank=_number(pod_labels.get(labels.RANK, "0")),
        serving=pod_labels.get(labels.SERVING) == "true",
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
        blocked=blocked,
        blocked_message=message[:MESSAGE_LENGTH],
        restarts=sum(status.restart_count for status in statuses),
        place=pod_labels.get(labels.PLACEHOLDER_SHAPE, "")
        if pod_labels.get(labels.ROLE) == labels.PLACEHOLDER
        else None,
        scheduled_at=_scheduled_at(pod.status.conditions),
        running_since=_running_since(pod.status.container_statuses or ()),
        gates=tuple(gate.name for gate in pod.spec.scheduling_gates or ()),
    )


def node_view(node: NodeObject) -> NodeView:
    ready = _condition(node.status.conditions, "Ready")
    is_ready = ready is not None and ready.status == "True"
    taints = {taint.key for taint in node.spec.taints or ()}
    notice, shut_down = not taints.isdisjoint(NODE_NOTICE_TAINTS), not taints.isdisjoint(NODE_SHUT_DOWN_TAINTS)
    leaving = notice or shut_down or not taints.isdisjoint(NODE_REMOVAL_TAINTS)
    return NodeView(
        name=node.metadata.name,
        ready=is_ready,
        cordoned=bool(node.spec.unschedulable) or leaving or node.metadata.deletion_timestamp is not None,
        gpus=_extended(node.status.allocatable or {}),
        labels=node.metadata.labels or {},
        unready_since=unix_seconds(ready.last_transition_time) if ready and not is_ready else None,
        created_at=unix_seconds(node.metadata.creation_timestamp) or 0.0,
        notice=notice,
        shut_down=shut_down and not is_ready,
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
    """Why a pod does not become ready by waiting: the Reason, and the message of the cluster."""
    scheduled = _condition(conditions, "PodScheduled")
    if scheduled is not None and scheduled.status == "False":
        # This includes SchedulingGated: a gate keeps a pod from a node just as a full cluster does.
        return Reason.UNSCHEDULABLE, scheduled.message or scheduled.reason or ""
    for status in statuses:
        waiting = status.state.waiting if status.state else None
        reason = (waiting.reason if waiting else None) or ""
        text = f"container {status.name}: {reason}: {(waiting.message if waiting else None) or ''}".rstrip(": ")
        if reason in IMAGE_REASONS:
            return Reason.IMAGE_PULL, text
        if reason == "CrashLoopBackOff":
            return Reason.CRASH_LOOP, text
        if reason in CONFIGURATION_REASONS:
            return Reason.CONTAINER_CONFIG, text
    return None, ""


def _scheduled_at(conditions: Iterable[StatusCondition] | None) -> float | None:
    scheduled = _condition(conditions, "PodScheduled")
    return unix_seconds(scheduled.last_transition_time) if scheduled and scheduled.status == "True" else None


def _running_since(statuses: Iterable[ContainerStatus]) -> float | None:
    """The start time of the engine's current process."""
    states = (status.state for status in statuses if status.name == CONTAINER)
    running = next((state.running for state in states if state is not None), None)
    return unix_seconds(running.started_at) if running is not None else None


def _condition(conditions: Iterable[StatusCondition] | None, kind: str) -> StatusCondition | None:
    return next((condition for condition in conditions or () if condition.type == kind), None)


def _gpus(pod: PodObject) -> int:
    """The number of GPUs of a pod: the largest extended resource of each container, summed.

    Only the revision knows the name of the GPU resource. Other devices, such as network devices, are never more
    numerous.
    """
    containers = pod.spec.containers or ()
    limits = (container.resources.limits or {} for container in containers if container.resources)
    return sum(max(_extended(resources).values(), default=0) for resources in limits)


def _extended(quantities: Mapping[str, str | int | float]) -> dict[str, int]:
    """The extended resources; they have a domain in their name and are whole numbers."""
    return {name: int(str(value)) for name, value in quantities.items() if "/" in name and str(value).isdecimal()}


def _number(text: str | None) -> int:
    """A number in a label; -1 for other text, which Forebay itself never writes."""
    return int(text) if text is not None and text.isascii() and text.isdecimal() else -1
