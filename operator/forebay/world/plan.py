"""Plan: what to do, in words that know nothing of HTTP. `cluster` carries it out in the order in which it stands.

Actions carry the objects and patches to write, finished, so that writing them takes no knowledge of workloads. A body
follows from the other fields of its action, so it takes no part in comparisons.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from forebay.api.inference_service import InferenceServiceStatus
from forebay.api.reasons import Reason
from forebay.api.warm_pool import PoolStatus
from forebay.world.world import Place, Revision, ServiceKey

Body = Mapping[str, Any]
"""An object, or a merge patch without the version that guards it."""


@dataclass(frozen=True, slots=True)
class StoreRevision:
    """Create the ControllerRevision, or give the one of the same hash this `number` and `spec_hash`.

    The actions after it rest on it: when it fails, the rest of the service's actions wait for the next tick.
    """

    revision: Revision
    body: Body = field(default_factory=dict, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class ApplyChildren:
    """Write the service's own objects again: they are missing or differ."""

    kinds: tuple[str, ...] = ()
    """Which of them."""
    bodies: tuple[Body, ...] = field(default=(), compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class CreatePod:
    revision: Revision
    ordinal: int
    rank: int
    name: str
    avoid_nodes: tuple[str, ...] = ()
    """Nodes on which replicas of the service failed repeatedly; at most 10."""
    body: Body = field(default_factory=dict, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class LiftGate:
    """Let the scheduler have a pod of a replica of several, now that all of them exist."""

    name: str
    uid: str
    resource_version: str
    gates: tuple[str, ...] = ()
    """Those of others, which stay."""
    patch: Body = field(default_factory=dict, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class AdoptPod:
    """Make an orphan ours by an ownerReference, and, when it is not needed, draining in the same write."""

    name: str
    uid: str
    resource_version: str
    drain_reason: str | None = None
    """None to let it serve on."""
    patch: Body = field(default_factory=dict, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class StartDrain:
    """Drop the serving label and note the time; the pod finishes what it has."""

    name: str
    uid: str
    resource_version: str
    reason: str
    patch: Body = field(default_factory=dict, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class CancelDrain:
    name: str
    uid: str
    resource_version: str
    patch: Body = field(default_factory=dict, compare=False, repr=False)


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
    body: Body = field(default_factory=dict, compare=False, repr=False)


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


ACTION_ORDER: Final[tuple[type[Action], ...]] = (
    StoreRevision,
    ApplyChildren,
    StartDrain,
    DeletePod,
    AdoptPod,
    CancelDrain,
    CreatePod,
    DeletePlaceholder,
    CreatePlaceholder,
    LiftGate,
    DeleteRevision,
)
"""The one order of actions. A plan lists a service's actions in it, and they are carried out as listed.

What pods rest on comes first (revision, Service, budget). Then what goes, since it makes room for what comes: at no
moment are there more replicas than the plan allows, and capacity that is needed is not lost, because a plan takes away
only what is surplus already.
"""


def in_order(actions: Iterable[Action]) -> tuple[Action, ...]:
    """The actions of one service or pool, in `ACTION_ORDER`; those of one type stay as they were."""
    return tuple(sorted(actions, key=lambda action: ACTION_ORDER.index(type(action))))


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
