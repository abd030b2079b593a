"""When the planner has to run next although no event announces it: the end of a grace period, a timeout or a
cooldown."""

from collections.abc import Iterable, Iterator
from math import inf

from forebay.planner.decide.decided_context import DecidedContext
from forebay.planner.observe.free_gpus import LOOKAHEAD_SECONDS
from forebay.planner.observe.replicas import ReplicaState
from forebay.planner.reconcile import notices
from forebay.schedules.schedule_floors import WindowFloor

SOONEST_SECONDS = 0.5


def wake_in_seconds(service_times: Iterable[float], pool_floors: Iterable[WindowFloor], now: float) -> float | None:
    """Seconds until the next due time; None without one. `service_times` are those of the services, infinite for
    services without one, and `pool_floors` is what the schedules of all WarmPools ask for."""
    pool_times = (at for window_floor in pool_floors for at in _edges(window_floor) if at > now)
    due_at = min((*service_times, *pool_times), default=inf)
    return None if due_at == inf else max(SOONEST_SECONDS, due_at - now)


def next_due(context: DecidedContext) -> float:
    """When something of the service is due next; infinite without such a time."""
    return min((at for at in _due(context) if at > context.now), default=inf)


def _due(context: DecidedContext) -> Iterator[float]:
    settings = context.settings
    for replica in context.having(ReplicaState.DRAINING):
        started_at = replica.drain_started_at
        if started_at is not None:
            yield started_at + settings.drain_grace_seconds
            yield started_at + context.spec.rollout.drain_timeout.seconds
    for node_ends_at in context.notices.values():
        yield notices.latest_start(context, node_ends_at)
        yield node_ends_at
    for replica in context.having(ReplicaState.LOADING):
        for pod in replica.pods:
            yield pod.waiting_since + settings.pending_timeout_seconds
            yield pod.waiting_since + context.spec.engine.startup_timeout.seconds
    yield from _window_times(context)
    scaling = context.memory.scaling
    after_seconds = context.limits.to_zero_after_seconds
    if after_seconds is not None and context.desired == 1:
        if scaling.idleness.since is not None:
            yield scaling.idleness.since + after_seconds
        if context.wake_request.until is not None:
            yield context.wake_request.until
    if scaling.guard_raised_at is not None:
        yield scaling.guard_raised_at + context.limits.scale_up_cooldown_seconds
    if scaling.raised_at is not None:
        yield scaling.raised_at + context.limits.scale_down_cooldown_seconds
    if scaling.lowered_at is not None:
        yield scaling.lowered_at + context.limits.scale_down_cooldown_seconds


def _window_times(context: DecidedContext) -> Iterator[float]:
    """The edges of every open or coming window, and the times by which its replicas should serve."""
    for window_floor in context.window_floors:
        yield from _edges(window_floor)
        if window_floor.counts(context.now):
            for replica in context.having(ReplicaState.LOADING):
                yield replica.created_at + window_floor.lead_seconds + SOONEST_SECONDS


def _edges(window_floor: WindowFloor) -> Iterator[float]:
    yield window_floor.warm_from - LOOKAHEAD_SECONDS
    yield window_floor.warm_from
    for window in (window_floor.opened, window_floor.coming):
        if window is not None:
            yield window.start
            yield window.end
