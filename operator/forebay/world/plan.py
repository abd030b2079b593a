"""Plan: the actions, statuses and events that the planner returns, independent of HTTP.

`cluster` carries out the actions in the order in which they are listed. Each action holds the finished object or patch,
so that `cluster` needs to know nothing about workloads. A body follows from the other fields of its action, so it takes
no part in comparisons.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from forebay.api.inference_service import InferenceServiceStatus
from forebay.api.reasons import Reason
from forebay.api.tenant_quota import QuotaStatus
from forebay.api.warm_pool import PoolStatus
from forebay.world.world import Place, Revision, ServiceKey

Body = Mapping[str, Any]
"""An object, or a merge patch without the resourceVersion that guards it."""


@dataclass(frozen=True, slots=True)
class StoreRevision:
    """Create the ControllerRevision, or give the one of the same hash this `number` and `spec_hash`.

    Later actions depend on it. When it fails, the service's other actions wait for the next tick.
    """

    revision: Revision
    body: Body = field(default_factory=dict, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class ApplyChildren:
    """Write the service's own objects again, because they are missing or differ."""

    kinds: tuple[str, ...] = ()
    """Kinds of the objects to write."""
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
    """Release a pod of a multi-pod replica to the scheduler, now that all pods of the replica exist."""

    name: str
    uid: str
    resource_version: str
    gates: tuple[str, ...] = ()
    """Scheduling gates of others, which stay."""
    patch: Body = field(default_factory=dict, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class AdoptPod:
    """Adopt an orphan by an ownerReference. The same write starts its drain when it is not needed."""

    name: str
    uid: str
    resource_version: str
    drain_reason: str | None = None
    """None lets it continue to serve."""
    patch: Body = field(default_factory=dict, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class StartDrain:
    """Remove the serving label and record the time. The pod finishes the requests it has."""

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
    """Overrides the pod's own grace period. None keeps the pod's own, which is long enough for every stream."""


@dataclass(frozen=True, slots=True)
class DeleteRevision:
    name: str


@dataclass(frozen=True, slots=True)
class CreatePlaceholder:
    place: Place
    name: str
    priority_class: str
    """Name of the PriorityClass that lets every serving pod preempt the placeholder."""
    body: Body = field(default_factory=dict, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class DeletePlaceholder:
    """Delete a placeholder at once: no request runs in it."""

    name: str
    uid: str
    resource_version: str
    reason: str
    """A clause for the log."""


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
"""The one order of actions. A plan lists a service's actions in this order, and they are carried out as listed.

What pods depend on comes first: the revision, the Service and the disruption budget. Removals come before creations,
because they make room for them; so there are never more replicas than the plan allows. Needed capacity is not lost,
because a plan removes only what is already surplus.
"""


def in_order(actions: Iterable[Action]) -> tuple[Action, ...]:
    """The actions of one service or pool in `ACTION_ORDER`. Actions of the same type keep their order."""
    return tuple(sorted(actions, key=lambda action: ACTION_ORDER.index(type(action))))


@dataclass(frozen=True, slots=True)
class EventRecord:
    """One Kubernetes Event on the service. Events report transitions only, never every tick."""

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
    """The traceback for the log when planning this service failed. The actions are then empty."""


@dataclass(frozen=True, slots=True)
class PoolPlan:
    """What is planned for one WarmPool."""

    key: ServiceKey
    uid: str
    actions: tuple[Action, ...]
    status: PoolStatus


@dataclass(frozen=True, slots=True)
class TenantPlan:
    """What is planned for one TenantQuota."""

    name: str
    uid: str
    status: QuotaStatus

    @property
    def key(self) -> ServiceKey:
        """The quota in logs, where the kind stands for the namespace."""
        return ServiceKey("TenantQuota", self.name)


@dataclass(frozen=True, slots=True)
class StoreSharePlan:
    """Write one shard of a model's share plan for admission."""

    model: str
    name: str
    resource_version: str | None
    """Of the stored one; None creates it."""
    body: Body = field(default_factory=dict, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class DeleteSharePlan:
    """Delete a shard whose model is gone, or has no quota any more."""

    model: str
    """Empty when the shard cannot be read."""
    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class Plan:
    services: tuple[ServicePlan, ...]
    held: str | None = None
    """Why the whole plan is held back (an implausible world). None in normal operation."""
    wake_in_seconds: float | None = None
    """Seconds until something is due that no event announces, such as the end of a cooldown."""
    warm_pools: tuple[PoolPlan, ...] = ()
    tenants: tuple[TenantPlan, ...] = ()
    share_plans: tuple[StoreSharePlan | DeleteSharePlan, ...] = ()
