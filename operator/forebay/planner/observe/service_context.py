"""The scene: everything that is decided from when one service is planned."""

from collections.abc import Mapping
from dataclasses import dataclass

from forebay.api.inference_service import InferenceServiceSpec
from forebay.planner.memory import Halt, ServiceMemory
from forebay.planner.observe.free_gpus import FreeGpus
from forebay.planner.observe.replicas import LIVE, Replica, ReplicaState
from forebay.planner.observe.variant_order import VariantOrder
from forebay.scaling.decision import Decision
from forebay.scaling.limits import Limits
from forebay.scaling.load.service_load import ServiceLoad
from forebay.schedules.schedule_floors import WindowFloor
from forebay.world.settings import Settings
from forebay.world.world import PodView, Refusal, Revision, ServiceView


@dataclass(frozen=True, slots=True)
class ServiceContext:
    service: ServiceView
    spec: InferenceServiceSpec
    settings: Settings
    now: float
    variant_order: VariantOrder
    """What replicas should be of."""
    weights: Mapping[str, float]
    """What a replica of each variant carries, in replicas of the service's own shape."""
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
    memory: ServiceMemory
    refusals: tuple[Refusal, ...]
    """Of this service's pods, oldest first."""
    placeholders: tuple[PodView, ...]
    """Pods that hold places for replicas to come; none of the rules for replicas sees them."""
    limits: Limits
    load: ServiceLoad
    decision: Decision
    halt: Halt | None
    woken_until: float | None
    """When the floor of a wake call ends; None without one, or while no replica serves."""
    one_less_would_do: bool
    """The load of the whole scaleDownCooldown, and minReplicas, would be met by one serving replica less."""
    window_floors: tuple[WindowFloor, ...] = ()
    """What its schedules ask for."""
    preempting_pods: frozenset[str] = frozenset()
    """Uids of pods, of whatever service, that started in the place of a placeholder."""
    free_gpus: FreeGpus | None = None
    """For more replicas, on the nodes as they are; None while no window is near."""

    @property
    def target(self) -> Revision:
        """Of the service's own shape."""
        return self.variant_order.targets[0]

    @property
    def desired(self) -> int:
        return self.decision.applied

    @property
    def live(self) -> tuple[Replica, ...]:
        """Those that hold a place under maxReplicas: on their way, stuck or serving."""
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
