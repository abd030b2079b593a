"""The context of a service whose count has been decided. The steps after `decide` take this type, so they cannot be
called without a decision."""

from dataclasses import dataclass, fields
from typing import Final, Self

from forebay.planner.decide.service_schedules import ServiceSchedules
from forebay.planner.decide.wake_request import WakeRequest
from forebay.planner.observe.free_gpus import FreeGpus
from forebay.planner.observe.service_context import ServiceContext
from forebay.scaling.decision import Decision
from forebay.scaling.rules.situation import Situation
from forebay.scaling.rules.stabilizer import enough_for_window
from forebay.schedules.schedule_floors import WindowFloor

_OBSERVED: Final = tuple(field.name for field in fields(ServiceContext))


@dataclass(frozen=True, slots=True, kw_only=True)
class DecidedContext(ServiceContext):
    situation: Situation
    """What the rules read."""
    decision: Decision
    schedules: ServiceSchedules
    wake_request: WakeRequest
    free_gpus: FreeGpus | None = None
    """GPUs free on the existing nodes; None while no window is near."""

    @classmethod
    def of(cls, context: ServiceContext, **decided: object) -> Self:
        """The context with `decided`: the fields that this class adds, and those that deciding has changed."""
        observed = {name: getattr(context, name) for name in _OBSERVED}
        return cls(**{**observed, **decided})

    @property
    def desired(self) -> int:
        return self.decision.applied

    @property
    def window_floors(self) -> tuple[WindowFloor, ...]:
        """What the service's schedules ask for."""
        return self.schedules.window_floors

    @property
    def one_less_would_do(self) -> bool:
        """Whether one serving replica fewer would have carried the load of the whole scaleDownCooldown and still meets
        minReplicas."""
        fewer = self.counts.serving - 1
        return (
            fewer >= self.limits.min_replicas
            and self.load.complete
            and enough_for_window(fewer, self.situation.load_window, self.limits, self.now, self.replica_weights)
        )
