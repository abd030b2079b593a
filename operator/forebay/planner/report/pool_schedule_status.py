"""How it stands with each schedule of a WarmPool: will its window find enough places, did it, and if not, why.

The same windows as those of a service. A placeholder is there to be used up, so one that a replica has displaced has
not failed.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from forebay.api.instants import rfc3339
from forebay.api.spec.schedule_spec import ScheduleState
from forebay.api.warm_pool import PoolScheduleStatus
from forebay.planner.observe.fleet_context import FleetContext
from forebay.planner.observe.free_gpus import looks_ahead
from forebay.planner.reconcile.outcome import PoolOutcome
from forebay.planner.reconcile.placeholders import placeholder_counts_of
from forebay.scaling.decision import count
from forebay.schedules.schedule_floors import WindowFloor
from forebay.schedules.window_state import NODE_SHARE, PendingPod, WindowContext, not_in_time, window_status_of
from forebay.world.settings import Settings
from forebay.world.world import PodView


@dataclass(frozen=True, slots=True)
class PoolCase(WindowContext):
    """One schedule of a pool with a window that is open or ahead."""

    waiting: tuple[PodView, ...]
    """Placeholders that do not hold a place yet."""
    free: int
    """Places that the ready nodes have room for, beside all that runs and all that is held."""
    under_ceiling: int | None
    """Placeholders that the operator's ceiling of GPUs leaves this pool; None without one."""
    settings: Settings
    held: str
    """Why placeholders are not created just now, as a clause."""
    near: bool
    """Whether the window is so near that its places on the nodes are looked for."""

    @property
    def to_place(self) -> int:
        """Placeholders that still have to find a node."""
        placed = sum(pod.node is not None for pod in self.waiting)
        return max(0, self.missing - placed)


Check = Callable[[PoolCase], str | None]


def placeholder_stuck(case: PoolCase) -> str | None:
    """One that has waited for a node for half of the lead time, or whose image cannot be pulled."""
    if not case.counts or not case.missing:
        return None
    patience = case.window_floor.lead_seconds * NODE_SHARE
    for pod in case.waiting:
        detail = f": {pod.blocked_message.rstrip('.')}" if pod.blocked_message else ""
        if pod.node is None and case.now - pod.created_at >= patience:
            return f"{pod.name} finds no node since {rfc3339(pod.created_at)}{detail}"
        if pod.node is not None and pod.blocked:
            return f"{pod.name} does not start ({pod.blocked}){detail}"
    return None


def held_back(case: PoolCase) -> str | None:
    return case.held or None if case.counts and case.missing else None


def ceiling_too_low(case: PoolCase) -> str | None:
    if not case.near or case.under_ceiling is None or case.window_floor.replicas <= case.under_ceiling:
        return None
    return (
        f"the operator's ceiling of {case.settings.max_gpus} GPUs leaves {case.under_ceiling} of "
        f"{count(case.window_floor.replicas, 'placeholder')}"
    )


def nodes_too_full(case: PoolCase) -> str | None:
    if not case.near or case.to_place <= case.free:
        return None
    return (
        f"{count(case.to_place, 'placeholder')} {'has' if case.to_place == 1 else 'have'} still to be placed, and the "
        f"nodes that match have room for {case.free} (Forebay's own pods are counted, neither those of others nor "
        "nodes that an autoscaler may add)"
    )


HINDRANCES: Final[tuple[Check, ...]] = (
    placeholder_stuck,
    held_back,
    ceiling_too_low,
    nodes_too_full,
    not_in_time,
)


def pool_schedule_statuses(outcome: PoolOutcome, fleet: FleetContext) -> tuple[PoolScheduleStatus, ...]:
    """`outcome.wanted` must not be None."""
    assert outcome.wanted is not None
    known = {status.name: status for status in outcome.pool.status.schedules}
    counts = placeholder_counts_of(outcome.wanted)
    ready = tuple(sorted(pod.ready_since or pod.created_at for pod in counts.holding))

    def status_of(window_floor: WindowFloor) -> PoolScheduleStatus:
        name, window = window_floor.schedule.name, window_floor.window
        if window_floor.fault:
            return PoolScheduleStatus(name=name, state=ScheduleState.AT_RISK, message=f"{window_floor.fault}.")
        if window is None:
            ended = "No window is ahead."
            return PoolScheduleStatus(
                name=name, state=ScheduleState.IDLE, message=ended, placeholders=window_floor.replicas
            )
        start, before = rfc3339(window.start), known.get(name)
        same = before is not None and before.start == start and before.placeholders == window_floor.replicas
        case = PoolCase(
            window_floor=window_floor,
            window=window,
            now=fleet.now,
            before=before if same else None,
            ready_times=ready,
            coming=tuple(PendingPod(pod.name, pod.created_at) for pod in counts.waiting),
            verb="hold a place",
            consumable=True,
            waiting=counts.waiting,
            free=outcome.schedules.free,
            under_ceiling=outcome.under_ceiling,
            settings=fleet.world.settings,
            held=outcome.share.held,
            near=looks_ahead(window_floor, fleet.now),
        )
        why = next((hindrance for check in HINDRANCES if (hindrance := check(case))), "")
        return PoolScheduleStatus(**dict(window_status_of(case, why)), placeholders=window_floor.replicas)

    return tuple(status_of(window_floor) for window_floor in outcome.schedules.window_floors)
