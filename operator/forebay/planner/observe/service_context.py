"""The context of one service: everything known about it in this tick before a decision."""

from collections.abc import Mapping
from dataclasses import dataclass

from forebay.api.inference_service import InferenceServiceSpec
from forebay.planner.memory import Halt, Learned, ServiceMemory
from forebay.planner.observe.nodes import earliest_end
from forebay.planner.observe.replicas import LIVE, Replica, ReplicaState
from forebay.planner.observe.variant_order import VariantOrder
from forebay.scaling.learning.lead_time import Prospect
from forebay.scaling.limits import Limits
from forebay.scaling.load.service_load import ServiceLoad
from forebay.scaling.replica_weights import ReplicaWeights
from forebay.scaling.rules.situation import ReplicaCounts
from forebay.world.settings import Settings
from forebay.world.world import PodView, Refusal, Revision, ServiceView, SpecProblem


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceContext:
    service: ServiceView
    spec: InferenceServiceSpec
    settings: Settings
    now: float
    """Unix seconds."""
    limits: Limits
    load: ServiceLoad
    counts: ReplicaCounts
    first_round: bool
    """Whether this operator has just begun to lead and has not scraped every serving replica yet."""
    variant_order: VariantOrder
    """The target revision of each shape, in the order of preference."""
    weights: Mapping[str, float]
    """Capacity of a replica by name of the variant, in replicas of the service's own shape."""
    replica_weights: ReplicaWeights
    """Capacity of each live replica, in the same unit."""
    revisions: Mapping[str, Revision]
    """Stored revisions and targets, by hash."""
    replicas: tuple[Replica, ...]
    """The service's own replicas, in every state."""
    orphans: tuple[Replica, ...]
    """Replicas without a controller that were created for this service, of a known revision."""
    taken_names: frozenset[str]
    """Names of the objects in the namespace with which a new pod could collide."""
    cordoned: frozenset[str]
    """Nodes that replicas have to leave."""
    notices: Mapping[str, float]
    """By when each node with a spot or maintenance notice ends."""
    avoid_nodes: tuple[str, ...]
    """Nodes on which replicas of this service failed."""
    memory: ServiceMemory
    """The memory as it follows from the observation; `share` adds what scaling remembers."""
    learned: Learned
    """Lead times, growth and lengths, with the starts that ended in this tick."""
    starts_learned: bool
    """Whether a start ended in this tick and was counted."""
    refusals: tuple[Refusal, ...]
    """Refused pods of this service's replicas, oldest first."""
    placeholders: tuple[PodView, ...]
    """Pods that hold places for future replicas. No rule for replicas reads them."""
    halt: Halt | None
    """The halt of the rollout; None while it is not halted."""
    prospect: Prospect
    """What the next replica would start on."""
    prospect_above_min: Prospect
    """What all replicas above minReplicas start on, for the windows of schedules."""
    preempting_pods: frozenset[str] = frozenset()
    """Uids of pods of any service that started in the place of a placeholder."""

    @property
    def target(self) -> Revision:
        """The target revision of the service's own shape."""
        return self.variant_order.targets[0]

    @property
    def live(self) -> tuple[Replica, ...]:
        """Replicas that count against maxReplicas: loading, stuck or serving."""
        return self.having(*LIVE)

    def rank(self, replica: Replica) -> int:
        """The index of the replica's shape in the order of preference."""
        known = self.revisions.get(replica.revision)
        return self.variant_order.rank("" if known is None else known.variant)

    def weight(self, variant: str) -> float:
        return self.weights.get(variant, 1.0)

    def must_leave(self, replica: Replica) -> bool:
        """Whether the replica is on a cordoned node."""
        return bool(self.cordoned) and not self.cordoned.isdisjoint(replica.nodes)

    def ends_at(self, replica: Replica) -> float | None:
        """By when the first of the replica's nodes ends; None without a notice."""
        return earliest_end(replica.nodes, self.notices) if self.notices else None

    def having(self, *states: ReplicaState) -> tuple[Replica, ...]:
        # Lists are built faster than generators are drained, and every rule of every service asks.
        return tuple([replica for replica in self.replicas if replica.state in states])


@dataclass(frozen=True, slots=True)
class UnplannedService:
    """A service for which nothing can be decided: it is being deleted, its spec cannot be used, or planning failed."""

    service: ServiceView
    memory: ServiceMemory
    problems: tuple[SpecProblem, ...] = ()
    error: str = ""
    """The traceback, when planning failed."""
