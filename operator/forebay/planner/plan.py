"""Plan: what to do, in words that know nothing of HTTP. `cluster` carries it out in order."""

from dataclasses import dataclass

from forebay.api.inference_service import InferenceServiceStatus
from forebay.planner.world import Revision, ServiceKey


@dataclass(frozen=True, slots=True)
class StoreRevision:
    revision: Revision


@dataclass(frozen=True, slots=True)
class ApplyChildren:
    """Write the Service and the PodDisruptionBudget again: they are missing or differ."""

    min_available: int
    """Of the budget: maxReplicas + maxSurge, in pods, so that no serving pod is ever evicted under way."""


@dataclass(frozen=True, slots=True)
class CreatePod:
    revision: Revision
    ordinal: int
    rank: int
    name: str


@dataclass(frozen=True, slots=True)
class AdoptPod:
    name: str
    uid: str
    resource_version: str


@dataclass(frozen=True, slots=True)
class StartDrain:
    """Drop the serving label and note the time; the pod finishes what it has."""

    name: str
    uid: str
    resource_version: str
    reason: str


@dataclass(frozen=True, slots=True)
class CancelDrain:
    name: str
    uid: str
    resource_version: str


@dataclass(frozen=True, slots=True)
class DeletePod:
    name: str
    uid: str
    resource_version: str
    reason: str


@dataclass(frozen=True, slots=True)
class DeleteRevision:
    name: str


Action = StoreRevision | ApplyChildren | CreatePod | AdoptPod | StartDrain | CancelDrain | DeletePod | DeleteRevision


@dataclass(frozen=True, slots=True)
class EventRecord:
    """One Kubernetes Event on the service; only for transitions, never for every tick."""

    type: str
    """Normal or Warning."""
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class ServicePlan:
    key: ServiceKey
    uid: str
    actions: tuple[Action, ...]
    status: InferenceServiceStatus
    events: tuple[EventRecord, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    services: tuple[ServicePlan, ...]
    held: str | None = None
    """Why nothing is done at all (an implausible world); None in normal running."""
    wake_in_seconds: float | None = None
    """When something is due that no event will announce, such as the end of a cooldown."""
