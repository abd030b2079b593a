"""Plan: what to do, in words that know nothing of HTTP. `cluster` carries it out in order."""

from dataclasses import dataclass

from forebay.api.inference_service import InferenceServiceStatus
from forebay.api.reasons import Reason
from forebay.api.warm_pool import PoolStatus
from forebay.world.world import Place, Revision, ServiceKey


@dataclass(frozen=True, slots=True)
class StoreRevision:
    """Create the ControllerRevision, or give the one of the same hash this `number` and `spec_hash`.

    The actions after it rest on it: when it fails, the rest of the service's actions wait for the next tick.
    """

    revision: Revision


@dataclass(frozen=True, slots=True)
class ApplyChildren:
    """Write the service's own objects again: they are missing or differ."""

    min_available: int
    """Of the budget: maxReplicas + maxSurge, in pods, so that no serving pod is ever evicted under way."""
    kinds: tuple[str, ...] = ()
    """Which of them."""
    groups: bool = False
    """Whether replicas are of several pods, which have to find each other."""


@dataclass(frozen=True, slots=True)
class CreatePod:
    revision: Revision
    ordinal: int
    rank: int
    name: str
    avoid_nodes: tuple[str, ...] = ()
    """Nodes on which replicas of the service failed repeatedly; at most 10."""


@dataclass(frozen=True, slots=True)
class LiftGate:
    """Let the scheduler have a pod of a replica of several, now that all of them exist."""

    name: str
    uid: str
    resource_version: str
    gates: tuple[str, ...] = ()
    """Those of others, which stay."""


@dataclass(frozen=True, slots=True)
class AdoptPod:
    """Make an orphan ours by an ownerReference, and, when it is not needed, draining in the same write."""

    name: str
    uid: str
    resource_version: str
    drain_reason: str | None = None
    """None to let it serve on."""


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
    grace_seconds: int | None = None
    """Instead of the pod's own grace period; None keeps that, which is long enough for every stream."""


@dataclass(frozen=True, slots=True)
class DeleteRevision:
    name: str


@dataclass(frozen=True, slots=True)
class CreatePlaceholder:
    place: Place
    name: str
    priority_class: str
    """Of the PriorityClass that lets every serving pod take its place."""


@dataclass(frozen=True, slots=True)
class DeletePlaceholder:
    """Nothing runs in it, so nothing is waited for."""

    name: str
    uid: str
    resource_version: str
    reason: str
    """A clause, for the log."""


Action = (
    StoreRevision
    | ApplyChildren
    | CreatePod
    | LiftGate
    | AdoptPod
    | StartDrain
    | CancelDrain
    | DeletePod
    | DeletePlaceholder
    | CreatePlaceholder
    | DeleteRevision
)


@dataclass(frozen=True, slots=True)
class EventRecord:
    """One Kubernetes Event on the service; only for transitions, never for every tick."""

    type: str
    """Normal or Warning."""
    reason: Reason
    message: str


@dataclass(frozen=True, slots=True)
class ServicePlan:
    key: ServiceKey
    uid: str
    actions: tuple[Action, ...]
    status: InferenceServiceStatus
    events: tuple[EventRecord, ...] = ()
    error: str | None = None
    """The traceback, for the log, when planning this service failed; its actions are then empty."""


@dataclass(frozen=True, slots=True)
class PoolPlan:
    """A WarmPool's share."""

    key: ServiceKey
    uid: str
    actions: tuple[Action, ...]
    status: PoolStatus


@dataclass(frozen=True, slots=True)
class Plan:
    services: tuple[ServicePlan, ...]
    held: str | None = None
    """Why nothing is done at all (an implausible world); None in normal running."""
    wake_in_seconds: float | None = None
    """When something is due that no event will announce, such as the end of a cooldown."""
    warm_pools: tuple[PoolPlan, ...] = ()
