"""World: everything that a decision may read, as frozen values. Nothing else can influence a plan."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from forebay.api.inference_service import InferenceServiceSpec, InferenceServiceStatus
from forebay.api.labels import GROUP_GATE
from forebay.api.reasons import Reason
from forebay.api.status import CapacityStatus, PlanStatus
from forebay.api.warm_pool import PoolSchedule, PoolStatus
from forebay.scaling.learning.replica_capacity import ReplicaCapacity
from forebay.scaling.load.signals import PodSignals
from forebay.world.quota import QuotaView
from forebay.world.settings import Settings
from forebay.world.share_plans import StoredSharePlans
from forebay.world.tenants import TenantQuotaView


@dataclass(frozen=True, slots=True, order=True)
class ServiceKey:
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class ReplicaShape:
    """A replica consists of `pods` pods, one per rank, each with `gpus_per_pod` of `resource_name`."""

    pods: int
    gpus_per_pod: int
    resource_name: str
    node_selector: tuple[tuple[str, str], ...] = ()

    @property
    def gpus(self) -> int:
        return self.pods * self.gpus_per_pod


@dataclass(frozen=True, slots=True)
class Place:
    """Capacity on a node for one pod of a shape. `data` is canonical JSON; `workloads` builds a placeholder from it."""

    hash: str
    """Short hash of the scheduling constraints, the resources and the image. Each placeholder carries it as a label."""
    gpus: int
    data: str
    image: str = ""
    """The engine's image, which the placeholder pulls to its node."""


@dataclass(frozen=True, slots=True)
class Revision:
    """The pod-affecting fields of a spec, resolved once. `data` is canonical JSON; `workloads` builds pods from it."""

    hash: str
    """Short hash of all resolved fields; part of pod names. Operators that resolve a spec alike get the same hash."""
    spec_hash: str
    """Hash of the pod-affecting fields as the user wrote them, and of `forebay.dev/restarted-at`."""
    shape: ReplicaShape
    data: str
    number: int = 0
    """Sequence number among the service's revisions; 0 while the revision is not stored."""
    name: str = ""
    """Name of the stored ControllerRevision; empty while the revision is not stored."""
    place: Place | None = None
    """What a placeholder for one of its pods holds; None when no placeholder can be made."""
    variant: str = ""
    """Name of the revision's variant; empty for the service's own shape."""


@dataclass(frozen=True, slots=True)
class SpecProblem:
    """A fault in a spec that the schema cannot reject. While there is one, nothing is created for the service."""

    reason: Reason
    """Reason of the condition."""
    message: str
    """The field, its value, what is wrong and what would work."""


@dataclass(frozen=True, slots=True)
class VariantView:
    """Another way to run the replicas of a service."""

    wanted: Revision
    """The revision that the variant resolves to; it carries the variant's name."""
    replica_capacity: ReplicaCapacity | None = None
    """Capacity of one replica of the variant, for scaling; None while unknown."""
    misfits: tuple[SpecProblem, ...] = ()
    """Why its engines could not start according to the capacity plan. Such a variant is used only if it has run
    before."""


@dataclass(frozen=True, slots=True)
class ServiceView:
    key: ServiceKey
    uid: str
    generation: int
    created_at: float
    deleting: bool
    spec: InferenceServiceSpec | None
    """None when the stored spec does not parse; `problems` then says why."""
    status: InferenceServiceStatus
    wanted: Revision | None
    """What this operator version resolves the spec to; None while there are `problems`."""
    problems: tuple[SpecProblem, ...] = ()
    children: tuple["ChildView", ...] = ()
    """The service's own objects as they should be; compared with `World.children`."""
    resource_version: str = ""
    """resourceVersion of the object that was read. A status is written only if the object still has this version."""
    warnings: tuple[SpecProblem, ...] = ()
    """Faults in the spec that do not stop it from running."""
    misfits: tuple[SpecProblem, ...] = ()
    """Why its engines could not start according to the capacity plan. Nothing is created for such a spec unless it
    has run before."""
    plan: PlanStatus | None = None
    """The capacity plan; None when the spec says too little for one."""
    capacity_status: CapacityStatus | None = None
    """Capacity of one replica according to the plan."""
    replica_capacity: ReplicaCapacity | None = None
    """Capacity of one replica, for scaling; None while its model or its GPU is unknown."""
    variants: tuple[VariantView, ...] = ()
    """Variants in the order of preference; the service's own shape, `wanted`, precedes them."""
    wake_requested_at: str = ""
    """The annotation that asks for a replica, as it was written; empty without one."""


@dataclass(frozen=True, slots=True)
class PodView:
    key: ServiceKey
    """The pod's namespace, and the service that its label names."""
    name: str
    uid: str
    resource_version: str
    owner_uid: str | None
    """Uid of the controller; None for an orphan."""
    service_uid: str | None
    """Uid of the service it was created for, from its label; for an orphan, the only link to its service."""
    revision: str
    ordinal: int
    rank: int
    serving: bool
    created_at: float
    phase: str
    gpus: int
    node: str | None = None
    ready: bool = False
    ready_since: float | None = None
    deleting: bool = False
    drain_started_at: float | None = None
    drain_reason: str | None = None
    blocked: Reason | None = None
    """Why the pod does not start: Unschedulable, ImagePull, ContainerConfig or CrashLoop; None when nothing blocks
    it."""
    blocked_message: str = ""
    restarts: int = 0
    unready_since: float | None = None
    """When the Ready condition last became False: when the pod was scheduled, or when it stopped being ready. None
    before it is scheduled. Time limits for loading count from here, so they survive a restart of the operator."""
    place: str | None = None
    """Hash of the place that a placeholder holds; None for a pod of a replica."""
    scheduled_at: float | None = None
    """When the pod got its node."""
    running_since: float | None = None
    """When its engine process last started; None while it does not run."""
    gates: tuple[str, ...] = ()
    """Scheduling gates. The scheduler ignores the pod while it has one."""

    @property
    def gated(self) -> bool:
        """Whether the pod waits until all pods of its replica exist."""
        return GROUP_GATE in self.gates

    @property
    def waiting_since(self) -> float:
        """Since when the pod has been on its way to ready."""
        return self.created_at if self.unready_since is None else max(self.created_at, self.unready_since)


@dataclass(frozen=True, slots=True)
class NodeView:
    name: str
    ready: bool
    cordoned: bool
    """Whether its replicas have to move: it is unschedulable, being deleted, or tainted by whoever removes it, such as
    an autoscaler or a cloud."""
    gpus: Mapping[str, int]
    """Allocatable GPUs by resource name."""
    labels: Mapping[str, str] = field(default_factory=dict)
    unready_since: float | None = None
    """When its Ready condition stopped being True; None while it is ready or the time is unknown."""
    created_at: float = 0.0
    notice: bool = False
    """Whether a spot or maintenance notice says that its machine ends within minutes. Such a node is cordoned too."""
    shut_down: bool = False
    """Whether an administrator or the cloud says that its machine is off."""


ChildKey = tuple[str, str, str]
"""Kind, namespace and name of an object that a service owns besides its pods."""


@dataclass(frozen=True, slots=True)
class ChildView:
    """A Service, PodDisruptionBudget or other owned object, reduced to its owner and a fingerprint of its content."""

    kind: str
    namespace: str
    name: str
    owner_uid: str | None
    fingerprint: str
    """Hash of the fields that Forebay sets, computed from the live object, so that manual changes are detected."""
    body: Mapping[str, Any] | None = field(default=None, compare=False, repr=False)
    """The object as Forebay would write it; None for an object that was read."""

    @property
    def child_key(self) -> ChildKey:
        return self.kind, self.namespace, self.name


@dataclass(frozen=True, slots=True)
class Refusal:
    """A pod that the API server refused to create. It is remembered for 10 minutes, to explain what is missing."""

    service_uid: str
    pod_name: str
    reason: str
    """QuotaExceeded, NameTaken (another owner's object has the name), or Refused for every other cause."""
    message: str
    at: float
    placeholder: bool = False
    """Whether the pod was to be a placeholder. Replicas do not wait because of such a refusal."""


@dataclass(frozen=True, slots=True)
class WarmPoolView:
    """A WarmPool: placeholders that belong to no service."""

    key: ServiceKey
    """The namespace of its pods, which is the operator's namespace, and the pool's name."""
    uid: str
    generation: int
    resource_version: str
    deleting: bool
    placeholders: int
    place: Place | None
    """None when the stored spec does not parse; `problem` then says why."""
    status: PoolStatus
    problem: str = ""
    shape: ReplicaShape | None = None
    """Shape of the pod that one place is for; None when `place` is None."""
    schedules: tuple[PoolSchedule, ...] = ()


@dataclass(frozen=True, slots=True)
class World:
    services: tuple[ServiceView, ...]
    revisions: Mapping[str, tuple[Revision, ...]]
    """Stored revisions by service uid, each service's oldest first."""
    pods: tuple[PodView, ...]
    nodes: tuple[NodeView, ...]
    children: tuple[ChildView, ...]
    signals: Mapping[str, PodSignals]
    """Metrics by pod uid."""
    settings: Settings
    refusals: tuple[Refusal, ...] = ()
    warm_pools: tuple[WarmPoolView, ...] = ()
    quotas: tuple[QuotaView, ...] = ()
    """ResourceQuotas of the namespaces that have services or placeholders; empty as well when they cannot be read."""
    tenant_quotas: tuple[TenantQuotaView, ...] | None = None
    """None while they are not known: they have not been listed yet, or only one namespace is served."""
    share_plans: StoredSharePlans | None = None
    """None while they are not known."""
