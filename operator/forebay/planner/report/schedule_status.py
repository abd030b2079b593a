"""The status of each schedule of a service: whether its window has, or will have, enough replicas, and if not, why.

Each hindrance is a small check that returns a clause or None. Before a window starts, a hindrance shows that the start
is at risk while there is still time to act. After the start it explains why the start was missed.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from forebay.api.inference_service import ScalingMode, ScheduleState, ScheduleStatus
from forebay.api.instants import rfc3339
from forebay.planner.decide.decided_context import DecidedContext
from forebay.planner.observe.free_gpus import FreeGpus
from forebay.planner.observe.replicas import Replica, ReplicaState
from forebay.planner.reconcile.reconcile_outcome import ServiceOutcome
from forebay.scaling.decision import count
from forebay.schedules.schedule_floors import WindowFloor
from forebay.schedules.window_state import NODE_SHARE, PendingPod, WindowContext, not_in_time, window_status_of


@dataclass(frozen=True, slots=True)
class ScheduleCase(WindowContext):
    """A schedule of a service whose window is open or still to come, and the replicas available for it."""

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
    """A replica is marked as stuck, or has waited for a node for half of the lead time."""
    if not case.counts or not case.missing:
        return None
    stuck = case.outcome.replicas(ReplicaState.BLOCKED)
    if stuck and len(case.loading) < case.missing:
        return stuck[0].message.rstrip(".")
    longest_wait_seconds = case.window_floor.lead_seconds * NODE_SHARE
    for replica in case.loading:
        for pod in replica.pods:
            if pod.node is None and case.now - pod.created_at >= longest_wait_seconds:
                detail = f": {pod.blocked_message.rstrip('.')}" if pod.blocked_message else ""
                return f"{pod.name} has had no node since {rfc3339(pod.created_at)}{detail}"
    return None


def held_back(case: ScheduleCase) -> str | None:
    """The operator's own limits, or the back-off after failed creations, prevent a creation."""
    return case.outcome.held_back or None if case.counts and _to_create(case) else None


def ceiling_too_low(case: ScheduleCase) -> str | None:
    free_gpus, needed = case.context.free_gpus, _to_create(case)
    if free_gpus is None or free_gpus.under_ceiling is None or needed <= free_gpus.under_ceiling:
        return None
    return (
        f"the operator's ceiling of {case.context.settings.max_gpus} GPUs allows {free_gpus.under_ceiling} of the "
        f"{count(needed, 'missing replica')}"
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
    known = {status.name: status for status in before}
    return tuple(
        _status(window_floor, outcome, known.get(window_floor.schedule.name))
        for window_floor in outcome.context.window_floors
    )


def _status(window_floor: WindowFloor, outcome: ServiceOutcome, before: ScheduleStatus | None) -> ScheduleStatus:
    name, window = window_floor.schedule.name, window_floor.window
    if window_floor.fault:
        return ScheduleStatus(name=name, state=ScheduleState.AT_RISK, message=f"{window_floor.fault}.")
    if window is None:
        idle = ScheduleStatus(name=name, state=ScheduleState.IDLE, message="There is no upcoming window.")
        return idle.model_copy(update={"replicas": window_floor.replicas, **_released(window_floor, outcome.context)})
    start = rfc3339(window.start)
    same = before is not None and before.start == start and before.replicas == window_floor.replicas
    loading = outcome.replicas(ReplicaState.LOADING)
    case = ScheduleCase(
        window_floor=window_floor,
        window=window,
        now=outcome.context.now,
        before=before if same else None,
        ready_times=tuple(sorted(replica.ready_since for replica in outcome.replicas(ReplicaState.SERVING))),
        pending=tuple(PendingPod(replica.name, replica.created_at) for replica in loading),
        verb="serve",
        consumable=False,
        outcome=outcome,
        loading=loading,
    )
    why = next((hindrance for check in HINDRANCES if (hindrance := check(case))), "")
    fields = dict(window_status_of(case, why))
    return ScheduleStatus(**fields, replicas=window_floor.replicas, **_released(window_floor, outcome.context))


def _released(window_floor: WindowFloor, context: DecidedContext) -> dict[str, str]:
    released_at = window_floor.released_at
    if released_at is None:
        return {}
    surplus = max(0, min(window_floor.replicas, context.limits.max_replicas) - context.limits.min_replicas)
    drains = surplus * context.spec.rollout.drain_timeout.seconds
    until = released_at + (context.limits.scale_down_cooldown_seconds + drains if surplus else 0.0)
    return {"floor_released_at": rfc3339(released_at), "drains_until": rfc3339(until)}


def _to_create(case: ScheduleCase) -> int:
    """Replicas that the schedule asks for within maxReplicas and that do not exist yet."""
    wanted = min(case.window_floor.replicas, case.context.limits.max_replicas)
    return max(0, wanted - len(case.ready_times) - len(case.loading))


def _to_place(case: ScheduleCase) -> int:
    """Replicas that still need a node: those to create, and those that exist without one."""
    placed = sum(all(pod.node is not None for pod in replica.pods) for replica in case.loading)
    wanted = min(case.window_floor.replicas, case.context.limits.max_replicas)
    return max(0, wanted - len(case.ready_times) - placed)


def _no_room(free_gpus: FreeGpus, needed: int, context: DecidedContext) -> str:
    shape = context.target.shape
    content = f"{count(shape.pods, 'pod')} with {shape.gpus_per_pod} × {shape.resource_name}"
    need = "needs" if needed == 1 else "need"
    return (
        f"{count(needed, 'replica')} of {content} still {need} a node, and the matching nodes "
        f"({free_gpus.nodes}) have {count(free_gpus.gpus, 'GPU')} free, enough for {free_gpus.replicas} "
        "(pods of others and nodes that an autoscaler may add are not counted)"
    )
