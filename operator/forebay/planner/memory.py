"""State: what the planner remembers between two ticks. All of it may be lost at any time.

Nothing here is needed to be right, only to be quick or quiet: what must survive a restart is in the cluster
(annotations, revisions, status). An empty state errs towards keeping replicas. Everything is bounded, and what belongs
to a service, a pod or a node goes when that goes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Self

from forebay.api.inference_service import InferenceServiceStatus, ScheduleSpec
from forebay.api.learned_status import LearnedStatus
from forebay.api.reasons import Reason
from forebay.api.warm_pool import PoolSchedule, PoolStatus
from forebay.scaling.learning.growth import Growth
from forebay.scaling.learning.lead_time import LeadTimes
from forebay.scaling.load.arrivals import RequestLengths
from forebay.scaling.load.pod_history import PodHistory
from forebay.scaling.rules.situation import ScalingMemory
from forebay.schedules.timetable import Timetable

MOST_NOTES: Final = 64


@dataclass(frozen=True, slots=True)
class Halt:
    """A rollout that a failing replica has stopped; kept when that replica is gone."""

    revision: str
    pods: tuple[str, ...]
    """Uids of the pods that failed; should one of them come to serve, the rollout goes on."""
    why: str


@dataclass(frozen=True, slots=True)
class Note:
    """An event that was sent, so that it is not sent again at every tick."""

    reason: Reason
    subject: str
    at: float


@dataclass(frozen=True, slots=True)
class Shortage:
    """A variant that could not be had."""

    seen_at: float
    """When that was seen last."""
    times: int
    """How often in a row it was tried in vain."""
    why: str
    """A clause."""


@dataclass(frozen=True, slots=True)
class ReplicaFailure:
    """A replica that ended or never served, and where."""

    pod_uid: str
    revision: str
    node: str | None
    at: float
    ended: bool = False
    """Its pod ended by itself soon after it was created (refused by the node), and so might the next."""


@dataclass(frozen=True, slots=True)
class Learned:
    """Of one service, as far as it is known."""

    lead_times: LeadTimes = field(default_factory=LeadTimes)
    growth: Growth = field(default_factory=Growth)
    lengths: RequestLengths | None = None
    """Of requests, as last seen; None before any were."""
    counted: tuple[str, ...] = ()
    """Uids of living pods whose start is among the lead times, or tells nothing."""
    recalled_until: float = 0.0
    """Starts that were over by then were counted by the operator before."""
    newest_start: float = 0.0
    """When the last start that was counted was over."""
    published: LearnedStatus | None = None
    """As it stands in the status."""
    publish_at: float = 0.0
    reset: str = ""
    """Why what the status says could not be used; until people have been told."""


@dataclass(frozen=True, slots=True)
class HeldPlace:
    """Where a placeholder holds a place, or did until a moment ago."""

    uid: str
    """Of the placeholder."""
    owner_uid: str
    node: str
    gpus: int
    image: str
    at: float
    """When it was seen holding it last."""


@dataclass(frozen=True, slots=True)
class Preemptions:
    """What is remembered from tick to tick."""

    held: Mapping[str, HeldPlace] = field(default_factory=dict)
    """By uid of the placeholder."""
    in_transit: tuple[HeldPlace, ...] = ()
    """Given up, and not taken yet."""
    taken: frozenset[str] = frozenset()
    """Uids of living pods that started in the place of a placeholder."""


@dataclass(frozen=True, slots=True)
class ServiceMemory:
    scaling: ScalingMemory = field(default_factory=ScalingMemory)
    histories: Mapping[str, PodHistory] = field(default_factory=dict)
    """By pod uid."""
    serving: int = 0
    """Replicas that served last time."""
    grown_at: float = 0.0
    """When they last became more; what was seen before that was suffered by fewer."""
    status: InferenceServiceStatus | None = None
    """As planned last; what changes against it is an event."""
    retries: int = 0
    """How often stuck replicas were given up and tried anew since all of them served."""
    failures: tuple[ReplicaFailure, ...] = ()
    """Of the last hour, oldest first."""
    refusals: int = 0
    """How often in a row the API server would not create a pod."""
    refused_at: float = 0.0
    halt: Halt | None = None
    shortages: Mapping[str, Shortage] | None = None
    """By name of the variant, the service's own shape under the empty one; None before anything was looked at."""
    timetables: Mapping[str, Timetable[ScheduleSpec]] = field(default_factory=dict)
    """By name of the schedule."""
    notes: tuple[Note, ...] = ()
    held_back: str = ""
    """What the operator's own limits kept from being done in the last tick."""
    placeholders_held: str = ""
    """Why placeholders that are wanted were not there to be created, as a clause."""
    learned: Learned | None = None
    """None until it has been read from the status that the operator before has left."""


@dataclass(frozen=True, slots=True)
class PoolMemory:
    """Of one WarmPool."""

    timetables: Mapping[str, Timetable[PoolSchedule]] = field(default_factory=dict)
    """By name of the schedule."""
    lead_times: LeadTimes = field(default_factory=LeadTimes)
    """From the creation of a placeholder until it holds its place."""
    counted: frozenset[str] = frozenset()
    """Uids of living placeholders that are in the lead times."""
    status: PoolStatus | None = None
    """As planned last."""


@dataclass(frozen=True, slots=True)
class Census:
    """How much there was to see when the world was last believed."""

    services: int = 0
    nodes: int = 0
    pods: int = 0
    doubted_since: float | None = None


@dataclass(frozen=True, slots=True)
class State:
    since: float = 0.0
    """When this operator began to watch."""
    services: Mapping[str, ServiceMemory] = field(default_factory=dict)
    """By service uid."""
    pools: Mapping[str, PoolMemory] = field(default_factory=dict)
    """By uid of the WarmPool."""
    preemptions: Preemptions = field(default_factory=Preemptions)
    """Who holds places, and who has taken one."""
    nodes_down: Mapping[str, float] = field(default_factory=dict)
    """Since when a node is not ready, or missing while pods name it."""
    drains: tuple[float, ...] = ()
    """Times of the drains of the last 10 minutes."""
    creates: tuple[float, ...] = ()
    """Times of the creations of the last minute."""
    census: Census = field(default_factory=Census)

    @classmethod
    def empty(cls, now: float) -> Self:
        """Of an operator that has just begun to lead. It has watched nothing, so nothing is scaled down at first."""
        return cls(since=now)
