"""The results of the reconcile step: for one service, for one WarmPool and for the fleet."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from forebay.planner.decide.decided_context import DecidedContext
from forebay.planner.memory import PoolMemory, ServiceMemory
from forebay.planner.observe.replicas import Replica, ReplicaState
from forebay.planner.observe.service_context import UnplannedService
from forebay.planner.reconcile.balance import Balance
from forebay.planner.reconcile.placeholders import PlaceholderOutcome, WantedPlaceholders
from forebay.planner.reconcile.pool_schedules import PoolSchedules
from forebay.planner.reconcile.quota_budget import QuotaHold
from forebay.planner.reconcile.steps import Step
from forebay.scaling.load.pod_history import PodHistory
from forebay.world.plan import Action, DeleteSharePlan, StoreSharePlan
from forebay.world.world import ServiceView, WarmPoolView


@dataclass(frozen=True, slots=True)
class ServiceOutcome:
    """A decided service, and the steps and actions for it in this tick."""

    context: DecidedContext
    balance: Balance
    held_back: str = ""
    """Why steps are not taken, as a clause: the operator's own limits, or the back-off after failures."""
    held_back_by_ceiling: bool = False
    """Whether the ceiling of GPUs was one of those limits."""
    quota_hold: QuotaHold | None = None
    """The replicas that ResourceQuotas leave no space for."""
    steps: tuple[Step, ...] = ()
    actions: tuple[Action, ...] = ()
    placeholders: PlaceholderOutcome | None = None
    """The actions on its placeholders; None when they are not considered."""
    error: str = ""
    """The traceback when planning its placeholders failed. Its replicas are planned all the same."""

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
    """A service without a decision: running drains end, and nothing new begins."""

    unplanned: UnplannedService
    replicas: tuple[Replica, ...] | None = None
    """None when its pods were not examined."""
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
    """A WarmPool, and the actions for it in this tick."""

    pool: WarmPoolView
    """The pool with the status planned last, which may differ from the stored one when a write failed."""
    memory: PoolMemory
    schedules: PoolSchedules
    wanted: WantedPlaceholders | None = None
    """None when nothing is done: the pool is being deleted, its spec cannot be used, or planning it failed."""
    placeholders: PlaceholderOutcome = field(default_factory=PlaceholderOutcome)
    actions: tuple[Action, ...] = ()
    under_ceiling: int | None = None
    """Placeholders that the operator's GPU ceiling allows this pool; None without a ceiling."""
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
    share_plans: tuple[StoreSharePlan | DeleteSharePlan, ...] = ()
