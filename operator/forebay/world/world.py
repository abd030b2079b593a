"""World: everything a decision may read, frozen. What is not here cannot influence a plan."""

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
from forebay.world.settings import Settings


@dataclass(frozen=True, slots=True, order=True)
class ServiceKey:
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class ReplicaShape:
    """What one replica is made of: `pods` pods (one per rank), each with `gpus_per_pod` of `resource_name`."""

    pods: int
    gpus_per_pod: int
    resource_name: str
    node_selector: tuple[tuple[str, str], ...] = ()

    @property
    def gpus(self) -> int:
        return self.pods * self.gpus_per_pod


@dataclass(frozen=True, slots=True)
class Place:
    """Room for one pod of a shape. `data` is canonical JSON that `workloads` builds a placeholder from."""

    hash: str
    """Short; on each placeholder's label. Of everything that decides where it may be, what it takes and its image."""
    gpus: int
    data: str
    image: str = ""
    """The engine's, which is pulled there."""


@dataclass(frozen=True, slots=True)
class Revision:
    """The pod-affecting fields of a spec, resolved once. `data` is canonical JSON that `workloads` builds pods from."""

    hash: str
    """Short; part of pod names. Of everything resolved, so two operators that resolve alike agree."""
    spec_hash: str
    """Of the pod-affecting fields as the user wrote them (and `forebay.dev/restarted-at`)."""
    shape: ReplicaShape
    data: str
    number: int = 0
    """Order in which revisions of a service came to be; 0 for one that is not stored yet."""
    name: str = ""
    """Name of the stored ControllerRevision; empty for one that is not stored yet."""
    place: Place | None = None
    """What a placeholder for one of its pods holds; None for a revision that has none."""
    variant: str = ""
    """Name of the variant that it is of; empty for the service's own shape."""


@dataclass(frozen=True, slots=True)
class SpecProblem:
    """Something in a spec that the schema could not refuse. Nothing is created for the service while one stands."""

    reason: Reason
    """For the condition."""
    message: str
    """Field, value, reason and what would work."""


@dataclass(frozen=True, slots=True)
class VariantView:
    """Another way to run the replicas of a service."""

    wanted: Revision
    """With the variant's name."""
    replica_capacity: ReplicaCapacity | None = None
    """What scaling counts one replica of it with; None while that is not known."""
    misfits: tuple[SpecProblem, ...] = ()
    """Why its engines could not start, by the capacity plan: it is not used unless it has run before."""


@dataclass(frozen=True, slots=True)
class ServiceView:
    key: ServiceKey
    uid: str
    generation: int
    created_at: float
    deleting: bool
    spec: InferenceServiceSpec | None
    """None when the stored spec does not parse; `problems` says why."""
    status: InferenceServiceStatus
    wanted: Revision | None
    """What the spec resolves to with today's operator; None while `problems` stand."""
    problems: tuple[SpecProblem, ...] = ()
    children: tuple["ChildView", ...] = ()
    """What the service's own objects should look like; compared with `World.children`."""
    resource_version: str = ""
    """Of the object that was read; a status decided on it is written onto this version only."""
    warnings: tuple[SpecProblem, ...] = ()
    """What people should know of a spec that runs all the same."""
    misfits: tuple[SpecProblem, ...] = ()
    """Why its engines could not start, by the capacity plan: nothing is created for a spec that has never run."""
    plan: PlanStatus | None = None
    """The capacity plan, where the spec says enough for one."""
    capacity_status: CapacityStatus | None = None
    """What one replica carries by it."""
    replica_capacity: ReplicaCapacity | None = None
    """What scaling counts one replica with; None while its model or its GPU is not known."""
    variants: tuple[VariantView, ...] = ()
    """In the order of preference, after `wanted`."""
    wake_requested_at: str = ""
    """The annotation with which somebody asks for a replica, as it was written; empty without one."""


@dataclass(frozen=True, slots=True)
class PodView:
    key: ServiceKey
    """Namespace, and the service named by the pod's label."""
    name: str
    uid: str
    resource_version: str
    owner_uid: str | None
    """Uid of the controller; None for an orphan."""
    service_uid: str | None
    """Uid of the service it was created for, by label; tells an orphan's home."""
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
    """Why it does not start, one of Unschedulable, ImagePull, ContainerConfig, CrashLoop, or None."""
    blocked_message: str = ""
    restarts: int = 0
    unready_since: float | None = None
    """When the Ready condition last became False: when the pod was placed, or when it ceased to be ready. None before
    it is placed. Time limits for loading count from here, so that they survive a restart of the operator."""
    place: str | None = None
    """Hash of the place it holds, for a placeholder; None for a pod that is part of a replica."""
    scheduled_at: float | None = None
    """When it got its node."""
    running_since: float | None = None
    """When its engine's process was started last; None while it does not run."""
    gates: tuple[str, ...] = ()
    """Scheduling gates: while there is one, the scheduler does not look at the pod."""

    @property
    def held(self) -> bool:
        """Whether it waits for the other pods of its replica to exist."""
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
    """Unschedulable, or tainted for disruption (Karpenter, cluster-autoscaler): its replicas are to move."""
    gpus: Mapping[str, int]
    """Allocatable GPUs by resource name."""
    labels: Mapping[str, str] = field(default_factory=dict)
    unready_since: float | None = None
    """When its Ready condition left True; None while ready, or unknown."""
    created_at: float = 0.0


@dataclass(frozen=True, slots=True)
class ChildView:
    """A Service, PodDisruptionBudget or other owned object, reduced to who owns it and what it says."""

    kind: str
    namespace: str
    name: str
    owner_uid: str | None
    fingerprint: str
    """Hash of the fields we set, read back from the live object, so that a change by hand is seen."""
    body: Mapping[str, Any] | None = field(default=None, compare=False, repr=False)
    """The object as we would write it; None for one that was read."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A pod that the API server would not create, remembered for as long as it explains something (10 minutes)."""

    service_uid: str
    pod_name: str
    reason: str
    """QuotaExceeded, NameTaken (the name belongs to somebody else's object), or Refused for all the rest."""
    message: str
    at: float
    placeholder: bool = False
    """It would have been a placeholder; replicas do not wait for that."""


@dataclass(frozen=True, slots=True)
class WarmPoolView:
    """Places that belong to no service."""

    key: ServiceKey
    """The namespace of its pods, which is the operator's, and its name."""
    uid: str
    generation: int
    resource_version: str
    deleting: bool
    placeholders: int
    place: Place | None
    """None when the stored spec does not parse; `problem` says why."""
    status: PoolStatus
    problem: str = ""
    shape: ReplicaShape | None = None
    """Of the pod that takes one place; None like `place`."""
    schedules: tuple[PoolSchedule, ...] = ()


@dataclass(frozen=True, slots=True)
class World:
    services: tuple[ServiceView, ...]
    revisions: Mapping[str, tuple[Revision, ...]]
    """Stored revisions by service uid, oldest first."""
    pods: tuple[PodView, ...]
    nodes: tuple[NodeView, ...]
    children: tuple[ChildView, ...]
    signals: Mapping[str, PodSignals]
    """By pod uid."""
    settings: Settings
    refusals: tuple[Refusal, ...] = ()
    warm_pools: tuple[WarmPoolView, ...] = ()
