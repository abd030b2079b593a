"""A planner loop whose steps do what a test sets, and record when they ran."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from email.utils import formatdate
from math import floor

from forebay.api.inference_service import DecisionStatus, InferenceServiceStatus, ReplicaStatus
from forebay.api.status import VariantState, VariantStatus
from forebay.cluster.client.server_clock import ServerClock
from forebay.controller.loop import Loop, LoopPace, TickSteps
from forebay.controller.loop_health import LoopHealth
from forebay.controller.operator_metrics import Metrics
from forebay.controller.wake import Wake
from forebay.world.plan import Plan, ServicePlan
from forebay.world.settings import Settings
from forebay.world.world import ServiceKey, World
from tests.controller.virtual_time import now

EPOCH = 1_700_000_000.0
"""Wall time (unix seconds) at which every test begins."""
EMPTY_WORLD = World(services=(), revisions={}, pods=(), nodes=(), children=(), signals={}, settings=Settings())
NOTHING_TO_DO = Plan(services=())


def a_service_plan(
    name: str = "chat",
    *,
    desired: int = 2,
    ready: int = 2,
    rule: str = "min_replicas",
    namespace: str = "team-a",
    variants: Mapping[str, int] | None = None,
) -> ServicePlan:
    """`variants` gives the ready replicas of each variant."""
    return ServicePlan(
        key=ServiceKey(namespace, name),
        uid=f"uid-{name}",
        actions=(),
        status=InferenceServiceStatus(
            replicas=ReplicaStatus(desired=desired, ready=ready),
            variants=tuple(
                VariantStatus(name=name, ready=count, state=VariantState.STANDBY)
                for name, count in (variants or {}).items()
            ),
            decision=DecisionStatus(rule=rule, because=f"{desired} replicas are enough", desired=desired),
        ),
    )


@dataclass
class LoopUnderTest:
    """A loop with its surroundings; a test sets the attributes to change what the next tick finds."""

    world: World = EMPTY_WORLD
    next_plan: Plan = NOTHING_TO_DO
    observe_error: Exception | None = None
    plan_error: Exception | None = None
    act_error: Exception | None = None
    act_seconds: float = 0.0
    failed_actions: int = 0
    leading: bool = True
    observed_at: list[float] = field(default_factory=list)
    planned_at: list[float] = field(default_factory=list)
    acted_at: list[float] = field(default_factory=list)
    """When each `execute` ended."""
    states: list[int] = field(default_factory=list)
    """The memory that each plan was given: the number of earlier plans."""
    before_act: Callable[[], None] = lambda: None
    server_ahead: float | None = None
    """How far the server's clock is ahead of the operator's; None for answers without a date."""
    planned_for: list[float] = field(default_factory=list)
    """The `now` of each plan."""
    forgotten_at: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.wake = Wake(debounce_seconds=1.0)
        self.health = LoopHealth(limit_seconds=60.0, started_at=now())
        self.metrics = Metrics(self.health, now)
        self.clock = ServerClock(monotonic=now, wall=lambda: EPOCH + now())
        self.loop = Loop(
            TickSteps(self._observe, self._plan, self._act, lambda _: 0, lambda: self.forgotten_at.append(now())),
            is_leader=lambda: self.leading,
            wake=self.wake,
            health=self.health,
            metrics=self.metrics,
            pace=LoopPace(tick_seconds=5.0),
            clock=self.clock,
            monotonic=now,
        )

    async def _observe(self, _: float) -> World:
        self.observed_at.append(now())
        if self.server_ahead is not None:
            date = formatdate(floor(EPOCH + now() + self.server_ahead), usegmt=True)
            self.clock.answered(date, now(), now())
        if self.observe_error is not None:
            raise self.observe_error
        return self.world

    def _plan(self, _: World, state: int, planned_for: float) -> tuple[Plan, int]:
        self.planned_at.append(now())
        self.planned_for.append(planned_for)
        self.states.append(state)
        if self.plan_error is not None:
            raise self.plan_error
        self.before_act()
        return self.next_plan, state + 1

    async def _act(self, _: World, __: Plan, ___: float) -> int:
        await asyncio.sleep(self.act_seconds)
        if self.act_error is not None:
            raise self.act_error
        self.acted_at.append(now())
        return self.failed_actions

    def sample(self, name: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(name, labels)

    def due_in(self, seconds: float | None) -> None:
        self.next_plan = replace(self.next_plan, wake_in_seconds=seconds)

    async def runs_for(self, seconds: float) -> None:
        """Run the loop for that many seconds, then stop it and wait until it has ended."""
        asyncio.get_running_loop().call_later(seconds, self.wake.stop)
        await self.loop.run()
