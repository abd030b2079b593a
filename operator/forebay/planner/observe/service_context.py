"""The context of one service: what is known of it in this tick, before anything is decided."""

from collections.abc import Mapping
from dataclasses import dataclass

from forebay.api.inference_service import InferenceServiceSpec
from forebay.planner.memory import Halt, Learned, ServiceMemory
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
    variant_order: VariantOrder
    """Which shapes replicas should be of."""
    weights: Mapping[str, float]
    """What a replica of each variant carries, in replicas of the service's own shape."""
    replica_weights: ReplicaWeights
    """What each live replica carries, in the same unit."""
    revisions: Mapping[str, Revision]
    """Known ones by hash: stored, and the targets."""
    replicas: tuple[Replica, ...]
    """Ours, in every state."""
    orphans: tuple[Replica, ...]
    """Without a controller, of a known revision, created for this service."""
    taken_names: frozenset[str]
    """Of every object in the namespace that a new pod could collide with."""
    cordoned: frozenset[str]
    """Nodes that are to be left."""
    avoid_nodes: tuple[str, ...]
    """Nodes on which replicas of this service failed."""
    memory: ServiceMemory
    """As it follows from what was observed; `share` writes what scaling remembers."""
    learned: Learned
    """What is known of lead times and growth, with the starts that this tick has seen."""
    starts_learned: bool
    """Whether this tick has seen a start that was not counted before."""
    refusals: tuple[Refusal, ...]
    """Of this service's pods, oldest first."""
    placeholders: tuple[PodView, ...]
    """Pods that hold places for replicas to come; none of the rules for replicas sees them."""
    halt: Halt | None
    prospect: Prospect
    """What the next replica would start on."""
    prospect_above_min: Prospect
    """The same of all replicas above minReplicas, for the windows of schedules."""
    preempting_pods: frozenset[str] = frozenset()
    """Uids of pods, of whatever service, that started in the place of a placeholder."""

    @property
    def target(self) -> Revision:
        """Of the service's own shape."""
        return self.variant_order.targets[0]

    @property
    def live(self) -> tuple[Replica, ...]:
        """Those that count against maxReplicas: on their way, stuck or serving."""
        return self.having(*LIVE)

    def rank(self, replica: Replica) -> int:
        """How far down the order of preference its shape is."""
        known = self.revisions.get(replica.revision)
        return self.variant_order.rank("" if known is None else known.variant)

    def weight(self, variant: str) -> float:
        return self.weights.get(variant, 1.0)

    def must_leave(self, replica: Replica) -> bool:
        """Whether it is on a node that is to be left."""
        return bool(self.cordoned) and not self.cordoned.isdisjoint(replica.nodes)

    def having(self, *states: ReplicaState) -> tuple[Replica, ...]:
        return tuple(replica for replica in self.replicas if replica.state in states)


@dataclass(frozen=True, slots=True)
class UnplannedService:
    """A service for which nothing can be decided: it is being deleted, its spec cannot be used, or planning failed."""

    service: ServiceView
    memory: ServiceMemory
    problems: tuple[SpecProblem, ...] = ()
    error: str = ""
    """The traceback, when planning failed."""
