"""What reconciling came to: for one service, for one WarmPool, and for the fleet."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from forebay.planner.decide.decided_context import DecidedContext
from forebay.planner.memory import PoolMemory, ServiceMemory
from forebay.planner.observe.replicas import Replica, ReplicaState
from forebay.planner.observe.service_context import UnplannedService
from forebay.planner.reconcile.balance import Balance
from forebay.planner.reconcile.placeholders import PlaceholderShare, WantedPlaceholders
from forebay.planner.reconcile.pool_schedules import PoolSchedules
from forebay.planner.reconcile.steps import Step
from forebay.scaling.load.pod_history import PodHistory
from forebay.world.plan import Action
from forebay.world.world import ServiceView, WarmPoolView


@dataclass(frozen=True, slots=True)
class ServiceOutcome:
    """A decided service, and what is done for it in this tick."""

    context: DecidedContext
    balance: Balance
    held: str = ""
    """What the operator's own limits, or a wait after failures, keep from being done."""
    held_by_ceiling: bool = False
    """Whether the ceiling of GPUs was one of those limits."""
    steps: tuple[Step, ...] = ()
    actions: tuple[Action, ...] = ()
    placeholders: PlaceholderShare | None = None
    """What is done about its placeholders; None where nothing is looked at."""
    error: str = ""
    """The traceback, when planning its placeholders failed; its replicas are planned all the same."""

    @property
    def service(self) -> ServiceView:
        return self.context.service

    @property
    def memory(self) -> ServiceMemory:
        return self.context.memory

    def replicas(self, *states: ReplicaState) -> tuple[Replica, ...]:
        return self.context.having(*states)


@dataclass(frozen=True, slots=True)
class UnplannedOutcome:
    """A service for which nothing was decided: drains under way end, and nothing begins."""

    unplanned: UnplannedService
    replicas: tuple[Replica, ...] | None = None
    """None when they were not looked at."""
    histories: Mapping[str, PodHistory] | None = None
    steps: tuple[Step, ...] = ()
    actions: tuple[Action, ...] = ()

    @property
    def service(self) -> ServiceView:
        return self.unplanned.service

    @property
    def memory(self) -> ServiceMemory:
        return self.unplanned.memory


@dataclass(frozen=True, slots=True)
class PoolOutcome:
    """A WarmPool, and what is done for it in this tick."""

    pool: WarmPoolView
    """With the status as planned last, which a write that failed has not brought there."""
    memory: PoolMemory
    schedules: PoolSchedules
    wanted: WantedPlaceholders | None = None
    """None when nothing is done: the pool is being deleted, its spec cannot be used, or planning it failed."""
    share: PlaceholderShare = field(default_factory=PlaceholderShare)
    actions: tuple[Action, ...] = ()
    under_ceiling: int | None = None
    """Placeholders that the operator's ceiling of GPUs leaves this pool; None without one."""
    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class FleetOutcome:
    services: tuple[ServiceOutcome | UnplannedOutcome, ...]
    """In the order of their keys."""
    pools: tuple[PoolOutcome, ...]
    """By name."""
    drains: tuple[float, ...]
    """Times of the drains of the last 10 minutes, those of this tick included."""
    creates: tuple[float, ...]
    """Times of the creations of the last minute, those of this tick included."""
