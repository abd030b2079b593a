"""The status of each schedule of a WarmPool: whether its window has, or will have, enough places, and if not, why.

The windows are the same as those of a service. Placeholders exist to be preempted, so a preempted one has not failed.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from forebay.api.instants import rfc3339
from forebay.api.spec.schedule_spec import ScheduleState
from forebay.api.warm_pool import PoolScheduleStatus
from forebay.planner.observe.fleet_context import FleetContext
from forebay.planner.observe.free_gpus import looks_ahead
from forebay.planner.reconcile.placeholders import placeholder_counts_of
from forebay.planner.reconcile.reconcile_outcome import PoolOutcome
from forebay.scaling.decision import count
from forebay.schedules.schedule_floors import WindowFloor
from forebay.schedules.window_state import NODE_SHARE, PendingPod, WindowContext, not_in_time, window_status_of
from forebay.world.settings import Settings
from forebay.world.world import PodView


@dataclass(frozen=True, slots=True)
class PoolScheduleCase(WindowContext):
    """A schedule of a pool whose window is open or still to come."""

    waiting: tuple[PodView, ...]
    """Placeholders that are not ready yet."""
    free: int
    """Places for which the ready nodes have free GPUs, besides all running pods and held places."""
    under_ceiling: int | None
    """Placeholders that the operator's GPU ceiling allows this pool; None without a ceiling."""
    settings: Settings
    held_back: str
    """Why placeholders are not created now, as a clause."""
    near: bool
    """Whether the window is near enough to check the nodes for its places."""

    @property
    def to_place(self) -> int:
        """Placeholders that still have to find a node."""
        placed = sum(pod.node is not None for pod in self.waiting)
        return max(0, self.missing - placed)


Check = Callable[[PoolScheduleCase], str | None]


def placeholder_stuck(case: PoolScheduleCase) -> str | None:
    """A placeholder has waited for a node for half of the lead time, or its image cannot be pulled."""
    if not case.counts or not case.missing:
        return None
    longest_wait_seconds = case.window_floor.lead_seconds * NODE_SHARE
    for pod in case.waiting:
        detail = f": {pod.blocked_message.rstrip('.')}" if pod.blocked_message else ""
        if pod.node is None and case.now - pod.created_at >= longest_wait_seconds:
            return f"{pod.name} has had no node since {rfc3339(pod.created_at)}{detail}"
        if pod.node is not None and pod.blocked:
            return f"{pod.name} does not start ({pod.blocked}){detail}"
    return None


def held_back(case: PoolScheduleCase) -> str | None:
    return case.held_back or None if case.counts and case.missing else None


def ceiling_too_low(case: PoolScheduleCase) -> str | None:
    if not case.near or case.under_ceiling is None or case.window_floor.replicas <= case.under_ceiling:
        return None
    return (
        f"the operator's ceiling of {case.settings.max_gpus} GPUs allows {case.under_ceiling} of "
        f"{count(case.window_floor.replicas, 'placeholder')}"
    )


def nodes_too_full(case: PoolScheduleCase) -> str | None:
    if not case.near or case.to_place <= case.free:
        return None
    return (
        f"{count(case.to_place, 'placeholder')} still {'needs' if case.to_place == 1 else 'need'} a node, and the "
        f"matching nodes have room for {case.free} (pods of others and nodes that an autoscaler may add are not "
        "counted)"
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
            ended = "There is no upcoming window."
            return PoolScheduleStatus(
                name=name, state=ScheduleState.IDLE, message=ended, placeholders=window_floor.replicas
            )
        start, before = rfc3339(window.start), known.get(name)
        same = before is not None and before.start == start and before.placeholders == window_floor.replicas
        case = PoolScheduleCase(
            window_floor=window_floor,
            window=window,
            now=fleet.now,
            before=before if same else None,
            ready_times=ready,
            pending=tuple(PendingPod(pod.name, pod.created_at) for pod in counts.waiting),
            verb="hold GPUs",
            consumable=True,
            waiting=counts.waiting,
            free=outcome.schedules.free,
            under_ceiling=outcome.under_ceiling,
            settings=fleet.world.settings,
            held_back=outcome.placeholders.held_back,
            near=looks_ahead(window_floor, fleet.now),
        )
        why = next((hindrance for check in HINDRANCES if (hindrance := check(case))), "")
        return PoolScheduleStatus(**dict(window_status_of(case, why)), placeholders=window_floor.replicas)

    return tuple(status_of(window_floor) for window_floor in outcome.schedules.window_floors)
