"""How it stands with each schedule: will its window find enough replicas, did it, and if not, why.

Every hindrance is a small check that returns a sentence, or nothing. Before a start they tell that it is at risk, while
there is time to act; after it they tell why it was missed.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from forebay.api.inference_service import ScalingMode, ScheduleState, ScheduleStatus
from forebay.api.instants import rfc3339
from forebay.planner.decide.decided_context import DecidedContext
from forebay.planner.observe.free_gpus import FreeGpus
from forebay.planner.observe.replicas import Replica, ReplicaState
from forebay.planner.reconcile.outcome import ServiceOutcome
from forebay.scaling.decision import count
from forebay.schedules.schedule_floors import WindowFloor
from forebay.schedules.window_state import NODE_SHARE, PendingPod, WindowContext, not_in_time, window_status_of


@dataclass(frozen=True, slots=True)
class ScheduleCase(WindowContext):
    """One schedule of a service with a window that is open or ahead, and the replicas there are for it."""

    outcome: ServiceOutcome
    loading: tuple[Replica, ...]

    @property
    def context(self) -> DecidedContext:
        return self.outcome.context


Check = Callable[[ScheduleCase], str | None]


def above_max_replicas(case: ScheduleCase) -> str | None:
    most = case.context.limits.max_replicas
    if case.window_floor.replicas <= most:
        return None
    return f"scaling.maxReplicas is {most}; raise it, or lower the floor"


def mode_paused(case: ScheduleCase) -> str | None:
    if case.context.spec.scaling.mode is not ScalingMode.PAUSED or not _to_create(case):
        return None
    return "scaling.mode is Paused, so no replica is created"


def replica_stuck(case: ScheduleCase) -> str | None:
    """One that is marked as stuck, or that has waited for a node for half of the lead time."""
    if not case.counts or not case.missing:
        return None
    stuck = case.outcome.replicas(ReplicaState.BLOCKED)
    if stuck and len(case.loading) < case.missing:
        return stuck[0].message.rstrip(".")
    patience = case.window_floor.lead_seconds * NODE_SHARE
    for replica in case.loading:
        for pod in replica.pods:
            if pod.node is None and case.now - pod.created_at >= patience:
                detail = f": {pod.blocked_message.rstrip('.')}" if pod.blocked_message else ""
                return f"{pod.name} finds no node since {rfc3339(pod.created_at)}{detail}"
    return None


def held_back(case: ScheduleCase) -> str | None:
    """The operator's own limits, or a wait after creations that failed."""
    return case.outcome.held or None if case.counts and _to_create(case) else None


def ceiling_too_low(case: ScheduleCase) -> str | None:
    free_gpus, needed = case.context.free_gpus, _to_create(case)
    if free_gpus is None or free_gpus.under_ceiling is None or needed <= free_gpus.under_ceiling:
        return None
    return (
        f"the operator's ceiling of {case.context.settings.max_gpus} GPUs leaves {free_gpus.under_ceiling} of the "
        f"{count(needed, 'replica')} that are still to come"
    )


def nodes_too_full(case: ScheduleCase) -> str | None:
    free_gpus, needed = case.context.free_gpus, _to_place(case)
    if free_gpus is None or needed <= free_gpus.replicas:
        return None
    return _no_room(free_gpus, needed, case.context)


HINDRANCES: Final[tuple[Check, ...]] = (
    above_max_replicas,
    mode_paused,
    replica_stuck,
    held_back,
    ceiling_too_low,
    nodes_too_full,
    not_in_time,
)


def schedule_statuses(outcome: ServiceOutcome, before: tuple[ScheduleStatus, ...]) -> tuple[ScheduleStatus, ...]:
    known = {seen.name: seen for seen in before}
    return tuple(
        _status(window_floor, outcome, known.get(window_floor.schedule.name))
        for window_floor in outcome.context.window_floors
    )


def ready_since(replica: Replica) -> float:
    """When the last of its pods became ready."""
    return max(pod.ready_since or pod.created_at for pod in replica.pods)


def _status(window_floor: WindowFloor, outcome: ServiceOutcome, before: ScheduleStatus | None) -> ScheduleStatus:
    name, window = window_floor.schedule.name, window_floor.window
    if window_floor.fault:
        return ScheduleStatus(name=name, state=ScheduleState.AT_RISK, message=f"{window_floor.fault}.")
    if window is None:
        idle = ScheduleStatus(name=name, state=ScheduleState.IDLE, message="No window is ahead.")
        return idle.model_copy(update={"replicas": window_floor.replicas, **_released(window_floor, outcome.context)})
    start = rfc3339(window.start)
    same = before is not None and before.start == start and before.replicas == window_floor.replicas
    loading = outcome.replicas(ReplicaState.LOADING)
    case = ScheduleCase(
        window_floor=window_floor,
        window=window,
        now=outcome.context.now,
        before=before if same else None,
        ready_times=tuple(sorted(ready_since(replica) for replica in outcome.replicas(ReplicaState.SERVING))),
        coming=tuple(PendingPod(replica.name, replica.created_at) for replica in loading),
        verb="serve",
        consumable=False,
        outcome=outcome,
        loading=loading,
    )
    why = next((said for check in HINDRANCES if (said := check(case))), "")
    told = dict(window_status_of(case, why))
    return ScheduleStatus(**told, replicas=window_floor.replicas, **_released(window_floor, outcome.context))


def _released(window_floor: WindowFloor, context: DecidedContext) -> dict[str, str]:
    released_at = window_floor.released_at
    if released_at is None:
        return {}
    surplus = max(0, min(window_floor.replicas, context.limits.max_replicas) - context.limits.min_replicas)
    drains = surplus * context.spec.rollout.drain_timeout.seconds
    until = released_at + (context.limits.scale_down_cooldown_seconds + drains if surplus else 0.0)
    return {"floor_released_at": rfc3339(released_at), "drains_until": rfc3339(until)}


def _to_create(case: ScheduleCase) -> int:
    """Replicas that are asked for and do not exist yet, as far as maxReplicas lets them."""
    wanted = min(case.window_floor.replicas, case.context.limits.max_replicas)
    return max(0, wanted - len(case.ready_times) - len(case.loading))


def _to_place(case: ScheduleCase) -> int:
    """The same with those that have not found a node."""
    placed = sum(all(pod.node is not None for pod in replica.pods) for replica in case.loading)
    wanted = min(case.window_floor.replicas, case.context.limits.max_replicas)
    return max(0, wanted - len(case.ready_times) - placed)


def _no_room(free_gpus: FreeGpus, needed: int, context: DecidedContext) -> str:
    shape = context.target.shape
    each = f"{count(shape.pods, 'pod')} with {shape.gpus_per_pod} × {shape.resource_name}"
    are = "is" if needed == 1 else "are"
    return (
        f"{count(needed, 'replica')} of {each} {are} still to be placed, and the nodes that match ({free_gpus.nodes}) "
        f"have {count(free_gpus.gpus, 'GPU')} free, enough for {free_gpus.replicas} (Forebay's own pods are counted, "
        "neither those of others nor nodes that an autoscaler may add)"
    )
