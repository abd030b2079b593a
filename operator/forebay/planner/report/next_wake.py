"""When the next thing is due that no event announces: the end of a drain's grace, of a time limit, of a cooldown."""

from collections.abc import Iterable, Iterator

from forebay.planner.observe.free_gpus import LOOKAHEAD_SECONDS
from forebay.planner.observe.replicas import ReplicaState
from forebay.planner.observe.service_context import ServiceContext
from forebay.schedules.schedule_floors import WindowFloor

SOONEST_SECONDS = 0.5


def wake_in_seconds(
    scenes: Iterable[ServiceContext | None], of_pools: Iterable[WindowFloor], now: float
) -> float | None:
    """`of_pools` is what the schedules of all WarmPools ask for."""
    of_services = (at for scene in scenes if scene is not None for at in _due(scene))
    due = [at for at in (*of_services, *(at for booked in of_pools for at in _edges(booked))) if at > now]
    return max(SOONEST_SECONDS, min(due) - now) if due else None


def _due(scene: ServiceContext) -> Iterator[float]:
    settings = scene.settings
    for replica in scene.having(ReplicaState.DRAINING):
        started_at = replica.drain_started_at
        if started_at is not None:
            yield started_at + settings.drain_grace_seconds
            yield started_at + scene.spec.rollout.drain_timeout.seconds
    for replica in scene.having(ReplicaState.LOADING):
        for pod in replica.pods:
            yield pod.waiting_since + settings.pending_timeout_seconds
            yield pod.waiting_since + scene.spec.engine.startup_timeout.seconds
    yield from _calendar(scene)
    scaling = scene.memory.scaling
    after_seconds = scene.limits.to_zero_after_seconds
    if after_seconds is not None and scene.desired == 1:
        if scaling.idleness.since is not None:
            yield scaling.idleness.since + after_seconds
        if scene.woken_until is not None:
            yield scene.woken_until
    if scaling.jumped_at is not None:
        yield scaling.jumped_at + scene.limits.scale_up_cooldown_seconds
    if scaling.raised_at is not None:
        yield scaling.raised_at + scene.limits.scale_down_cooldown_seconds


def _calendar(scene: ServiceContext) -> Iterator[float]:
    """The edges of every window that is open or next, and the moments at which replicas for it are due."""
    for booked in scene.bookings:
        yield from _edges(booked)
        if booked.counts(scene.now):
            for replica in scene.having(ReplicaState.LOADING):
                yield replica.created_at + booked.lead_seconds + SOONEST_SECONDS


def _edges(booked: WindowFloor) -> Iterator[float]:
    yield booked.warm_from - LOOKAHEAD_SECONDS
    yield booked.warm_from
    for window in (booked.opened, booked.coming):
        if window is not None:
            yield window.start
            yield window.end
