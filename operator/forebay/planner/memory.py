"""State: what the planner remembers between two ticks. All of it may be lost at any time.

Decisions are correct without it; it only makes them faster and avoids repeated events. What must survive a restart is
in the cluster (annotations, revisions, status). An empty state errs towards keeping replicas. Everything is bounded,
and entries of a service, a pod or a node are removed together with it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Final, Self

from forebay.api.inference_service import InferenceServiceStatus, ScheduleSpec
from forebay.api.learned_status import LearnedStatus
from forebay.api.reasons import Reason
from forebay.api.tenant_quota import QuotaStatus
from forebay.api.warm_pool import PoolSchedule, PoolStatus
from forebay.scaling.learning.growth import Growth
from forebay.scaling.learning.lead_time import LeadTimes
from forebay.scaling.learning.normalized_tokens import UNKNOWN, TokenRates
from forebay.scaling.load.arrivals import RequestLengths
from forebay.scaling.load.pod_history import PodHistory
from forebay.scaling.load.signals import PodSignals
from forebay.scaling.rules.situation import ScalingMemory
from forebay.schedules.timetable import Timetable
from forebay.sharing.tenant_tree import TenantTree
from forebay.workloads.objects.share_plan import PlannedShards
from forebay.world.settings import Settings

MOST_SENT_EVENTS: Final = 64


@dataclass(frozen=True, slots=True)
class Halt:
    """A rollout that a failing replica has halted. The halt remains after that replica is gone."""

    revision: str
    pods: tuple[str, ...]
    """Uids of the pods that failed. If one of them serves later, the rollout continues."""
    why: str


@dataclass(frozen=True, slots=True)
class SentEvent:
    """An event that was sent, remembered so that it is not repeated at every tick."""

    reason: Reason
    subject: str
    at: float


@dataclass(frozen=True, slots=True)
class Shortage:
    """A variant for which there was no capacity, or whose replicas could not start."""

    seen_at: float
    """When the shortage was last observed."""
    times: int
    """How many attempts in a row failed."""
    why: str
    """The reason, as a clause."""
    by_quota: bool = False
    """Whether a ResourceQuota that can be read left no space. Such a shortage ends when it leaves some."""


@dataclass(frozen=True, slots=True)
class ReplicaFailure:
    """A replica that ended or never served, and its node."""

    pod_uid: str
    revision: str
    node: str | None
    at: float
    ended: bool = False
    """Whether its pod ended soon after its creation, for example because the node refused it. The next one may too."""


@dataclass(frozen=True, slots=True)
class Stall:
    """A replica whose requests made no progress any more."""

    pod_uid: str
    at: float
    """When it was noticed."""


@dataclass(frozen=True, slots=True)
class Learned:
    """What has been learned about one service."""

    lead_times: LeadTimes = field(default_factory=LeadTimes)
    growth: Growth = field(default_factory=Growth)
    lengths: RequestLengths | None = None
    """Last measured lengths of requests; None before any request was measured."""
    counted: tuple[str, ...] = ()
    """Uids of existing pods whose start has been examined: it is among the lead times, or cannot be used."""
    recalled_until: float = 0.0
    """Starts that ended by this time were counted by the previous operator."""
    newest_start: float = 0.0
    """End of the latest start that was counted."""
    published: LearnedStatus | None = None
    """What the status holds."""
    publish_at: float = 0.0
    """When the status is due to be updated."""
    reset: str = ""
    """Why `status.learned` could not be used; empty once an event has reported it."""


@dataclass(frozen=True, slots=True)
class HeldPlace:
    """Capacity on a node that a placeholder holds, or held until shortly before."""

    uid: str
    """Uid of the placeholder."""
    owner_uid: str
    node: str
    gpus: int
    image: str
    at: float
    """When the placeholder was last observed to hold it."""


@dataclass(frozen=True, slots=True)
class Preemptions:
    """Places of placeholders and the pods that took them, remembered from tick to tick."""

    held: Mapping[str, HeldPlace] = field(default_factory=dict)
    """Places that are held, by uid of the placeholder."""
    in_transit: tuple[HeldPlace, ...] = ()
    """Places whose placeholder is gone and that no pod has taken yet."""
    taken: frozenset[str] = frozenset()
    """Uids of existing pods that started in the place of a placeholder."""


@dataclass(frozen=True, slots=True)
class Rest:
    """That the last plan of a service left nothing to do, and the inputs from which this follows."""

    inputs: tuple[object, ...]
    """The objects that the service was planned from. An object that is replaced by an equal one counts as a change."""
    samples: tuple[PodSignals | None, ...]
    """The signals that it was planned from, likewise."""
    room: tuple[int, int]
    """How many more replicas the ready nodes and the held places have room for, up to maxReplicas."""
    since: float
    until: float
    """When the service is planned again although no input has changed."""


@dataclass(frozen=True, slots=True)
class ServiceMemory:
    scaling: ScalingMemory = field(default_factory=ScalingMemory)
    histories: Mapping[str, PodHistory] = field(default_factory=dict)
    """By pod uid."""
    serving: int = 0
    """Replicas that served in the previous tick."""
    grown_at: float = 0.0
    """When this number last rose. Samples from before that time show the load of fewer replicas."""
    status: InferenceServiceStatus | None = None
    """The status planned last. Events report changes against it."""
    retries: int = 0
    """How often stuck replicas were given up and retried since all replicas last served."""
    failures: tuple[ReplicaFailure, ...] = ()
    """Failures of the last hour, oldest first."""
    stalls: tuple[Stall, ...] = ()
    """Stalls of the last hours, oldest first."""
    refusals: int = 0
    """In how many ticks in a row the API server refused to create a pod."""
    refused_at: float = 0.0
    halt: Halt | None = None
    shortages: Mapping[str, Shortage] | None = None
    """By name of the variant, the empty name being the service's own shape; None before the first tick."""
    timetables: Mapping[str, Timetable[ScheduleSpec]] = field(default_factory=dict)
    """By name of the schedule."""
    sent_events: tuple[SentEvent, ...] = ()
    held_back: str = ""
    """What the operator's GPU ceiling prevented in the previous tick, as a clause."""
    quota_holds: Mapping[str, str] = field(default_factory=dict)
    """Why a ResourceQuota held back replicas in the previous tick, as a clause, by revision hash."""
    placeholders_held_back: str = ""
    """Why wanted placeholders were not created, as a clause."""
    learned: Learned | None = None
    """None until it has been read from the status that the previous operator left."""
    rest: Rest | None = None
    """None while there is something to do for the service."""
    tokens: TokenRates = UNKNOWN
    """What the service carries, is asked for and uses. It stays while the service is at rest."""


@dataclass(frozen=True, slots=True)
class PoolMemory:
    """What is remembered of one WarmPool."""

    timetables: Mapping[str, Timetable[PoolSchedule]] = field(default_factory=dict)
    """By name of the schedule."""
    lead_times: LeadTimes = field(default_factory=LeadTimes)
    """Times from the creation of a placeholder until it holds its place."""
    counted: frozenset[str] = frozenset()
    """Uids of existing placeholders that are counted in the lead times."""
    status: PoolStatus | None = None
    """The status planned last."""


@dataclass(frozen=True, slots=True)
class TenantMemory:
    """What is remembered of all TenantQuotas."""

    statuses: Mapping[str, QuotaStatus] = field(default_factory=dict)
    """The statuses planned last, by uid of the quota."""
    claims: tuple[tuple[str, int, bool], ...] = ()
    """(uid, generation, whether it is being deleted) of the quotas that they were planned from."""
    rates: tuple[TokenRates, ...] = ()
    """The rates of the services that they were planned from. An object that is replaced by an equal one counts as a
    change."""
    trees: Mapping[str, TenantTree] = field(default_factory=dict)
    """The tenants of each model, while no claim changes."""
    planned: Mapping[str, PlannedShards] = field(default_factory=dict)
    """The same tenants as admission is told of them."""
    divided_at: float = -inf
    """When they were planned."""


@dataclass(frozen=True, slots=True)
class ObjectCounts:
    """How many objects there were when the world was last plausible."""

    services: int = 0
    nodes: int = 0
    pods: int = 0
    implausible_since: float | None = None
    """Since when the world has been implausible; None while it is plausible."""


@dataclass(frozen=True, slots=True)
class SharedInputs:
    """What the plans of all services depend on."""

    settings: Settings
    lost_nodes: tuple[str, ...]
    cordoned: tuple[str, ...]
    notices: tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True)
class State:
    since: float = 0.0
    """When this operator began to lead."""
    services: Mapping[str, ServiceMemory] = field(default_factory=dict)
    """By service uid."""
    pools: Mapping[str, PoolMemory] = field(default_factory=dict)
    """By uid of the WarmPool."""
    preemptions: Preemptions = field(default_factory=Preemptions)
    """Placeholders' places and the pods that took them."""
    nodes_down: Mapping[str, float] = field(default_factory=dict)
    """Since when each node has been not ready, or missing although pods name it."""
    notices: Mapping[str, float] = field(default_factory=dict)
    """By when each node with a spot or maintenance notice ends."""
    drains: tuple[float, ...] = ()
    """Times of the drains of the last 10 minutes."""
    creates: tuple[float, ...] = ()
    """Times of the creations of the last minute."""
    object_counts: ObjectCounts = field(default_factory=ObjectCounts)
    tenants: TenantMemory = field(default_factory=TenantMemory)
    shared_inputs: SharedInputs | None = None
    """Those of the previous tick. When they change, no service is at rest."""

    @classmethod
    def empty(cls, now: float) -> Self:
        """The state of an operator that has just begun to lead. It has observed no load yet, so it scales nothing down
        at first."""
        return cls(since=now)
