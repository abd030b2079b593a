"""Upcoming: what will happen to a service next without intervention, and when.

It is computed from the same context as the plan, so it names the limits that the planner itself will act on.
"""

from collections.abc import Callable, Iterator
from math import ceil, inf
from typing import Final

from forebay.api.instants import rfc3339
from forebay.api.reasons import Reason
from forebay.planner.decide.decided_context import DecidedContext
from forebay.planner.observe.replicas import Replica, ReplicaState
from forebay.planner.observe.variant_order import variant_label
from forebay.planner.reconcile import stalls
from forebay.planner.reconcile.rank_groups import holds_half
from forebay.planner.reconcile.reconcile_outcome import ServiceOutcome
from forebay.planner.reconcile.rollout import replacement_of
from forebay.planner.reconcile.steps import StepKind
from forebay.planner.reconcile.terminations import retry_due_at
from forebay.planner.report.variant_status import failback_due
from forebay.scaling.decision import Due, count, seconds
from forebay.scaling.learning.lead_time import ENOUGH_STARTS, LeadTimes, WarmState

MOST_NAMED: Final = 3
"""Replicas of one state that are named one by one; the others are counted."""
EXPECTED: Final = 0.95
"""Share of starts that take no longer than the time after which a replica is expected to serve."""


DueOf = Callable[[DecidedContext, Replica], Due | None]


def upcoming_of(outcome: ServiceOutcome) -> tuple[Due, ...]:
    """The soonest first. Entries without a time of their own come last."""
    dues = [
        *outcome.context.decision.upcoming,
        *_dues_of(outcome, ReplicaState.LOADING, _loading_due, "loading", "expected to serve or given up"),
        *_dues_of(outcome, ReplicaState.BLOCKED, _blocked_due, "stuck", "retried"),
        *_dues_of(outcome, ReplicaState.DRAINING, _draining_due, "draining", "deleted"),
        *_schedules(outcome.context),
        *_current_steps(outcome),
        *_rollout(outcome),
        *failback_due(outcome.context),
        *([Due(None, f"On hold: {outcome.held_back}.")] if outcome.held_back else []),
    ]
    return tuple(sorted(dues, key=lambda due: (due.at is None, due.at or 0.0)))


def _schedules(context: DecidedContext) -> Iterator[Due]:
    """The next edge of each schedule."""
    for window_floor in context.window_floors:
        name, window, replicas = (
            window_floor.schedule.name,
            window_floor.window,
            count(window_floor.replicas, "replica"),
        )
        if window is None or window_floor.fault:
            continue
        if window_floor.opened is not None:
            yield Due(window.end, f"Schedule {name} ends: its floor of {replicas} is lifted and the load decides.")
        elif window_floor.counts(context.now):
            yield Due(window.start, f"Schedule {name} opens: {replicas} must serve by then.")
        else:
            start = rfc3339(window.start)
            yield Due(window_floor.warm_from, f"Schedule {name} starts warming: {replicas} must serve by {start}.")


def _current_steps(outcome: ServiceOutcome) -> Iterator[Due]:
    """What the plan of this tick does."""
    created = [step for step in outcome.balance.steps if step.kind is StepKind.CREATE]
    drained = [step for step in outcome.balance.steps if step.kind is StepKind.DRAIN]
    if created:
        yield Due(None, f"{count(len(created), 'replica')} {'is' if len(created) == 1 else 'are'} being created.")
    for step in drained[:MOST_NAMED]:
        yield Due(None, f"{step.subject} begins to drain: it gets no new requests and finishes those it has.")


def _dues_of(outcome: ServiceOutcome, state: ReplicaState, due_of: DueOf, doing: str, done: str) -> Iterator[Due]:
    """The replicas in a state: the first few by name, then the number of the others and the time of the last one."""
    known = (due for replica in outcome.replicas(state) if (due := due_of(outcome.context, replica)))
    dues = sorted(known, key=lambda due: due.at or 0.0)
    yield from dues[:MOST_NAMED]
    more = len(dues) - MOST_NAMED
    if more > 0:
        are, last_at = "is" if more == 1 else "are", dues[-1].at
        by_then = "" if last_at is None else f"; by then {'it' if more == 1 else 'each'} is {done}"
        yield Due(last_at, f"{count(more, 'more replica')} {are} {doing}{by_then}.")


def _loading_due(context: DecidedContext, replica: Replica) -> Due | None:
    """When a loading replica is expected to serve, or is given up."""
    since = min(pod.waiting_since for pod in replica.pods)
    unplaced = [pod for pod in replica.pods if pod.node is None]
    if unplaced:
        timeout = context.settings.pending_timeout_seconds
        detail = f" ({unplaced[0].blocked_message.rstrip('.')})" if unplaced[0].blocked_message else ""
        return Due(
            since + timeout,
            f"{replica.name} counts as stuck if it has no node by then{detail}: the operator's --pending-timeout.",
        )
    lead_times = LeadTimes() if context.memory.learned is None else context.memory.learned.lead_times
    warm = all(pod.uid in context.preempting_pods for pod in replica.pods)
    state = WarmState.PLACEHOLDER_NODE if warm else WarmState.READY_NODE
    lead, starts = lead_times.quantile_seconds(state, EXPECTED), len(lead_times.of(state))
    expected_at, limit = since + lead, context.spec.engine.startup_timeout.seconds
    if expected_at > context.now and lead < limit:
        basis = (
            "95 of 100 starts took no longer"
            if starts >= ENOUGH_STARTS
            else f"assumed, {count(starts, 'start')} measured"
        )
        return Due(expected_at, f"{replica.name} is expected to serve {seconds(lead)} after it got its node ({basis}).")
    return Due(since + limit, f"{replica.name} is given up if it does not serve by then: engine.startupTimeout.")


def _blocked_due(context: DecidedContext, replica: Replica) -> Due | None:
    reason, due_at = replica.message.rstrip("."), retry_due_at(context, replica)
    if replica.reason == Reason.STALLED:
        return _stalled_due(context, replica, reason)
    if due_at is None:
        return Due(None, f"{reason}; it is kept for inspection.")
    shape, at = context.variant_order.retry_target(replica) or (None, inf)
    if holds_half(replica):
        new = "it" if shape is None or at > context.now else f"a replica of {variant_label(shape.variant)}"
        return Due(
            None,
            f"{replica.name} has only some of its nodes; it is deleted when its turn comes, and then {new} is tried.",
        )
    if shape is not None and at <= due_at:
        return Due(
            at if at > context.now else None, f"{reason}; a replica of {variant_label(shape.variant)} is tried instead."
        )
    return Due(due_at, f"{reason}; another replica is tried instead.")


def _stalled_due(context: DecidedContext, replica: Replica, reason: str) -> Due:
    if replica in stalls.replaceable(context):
        return Due(None, f"{reason}; it drains once its replacement serves.")
    due_at = stalls.due_at(context, replica)
    if due_at > context.now:
        return Due(due_at, f"{reason}; another replica is created in its place, as replicas stalled before it, too.")
    if context.having(ReplicaState.SERVING):
        return Due(None, f"{reason}; it is replaced after the other stalled replicas.")
    return Due(None, f"{reason}; none is replaced until one of the stalled replicas makes a step.")


def _draining_due(context: DecidedContext, replica: Replica) -> Due | None:
    started_at = replica.drain_started_at
    if started_at is None:
        return None
    timeout = context.spec.rollout.drain_timeout.seconds
    left = (
        "its requests, whose number is unknown" if replica.in_flight is None else f"its {_requests(replica.in_flight)}"
    )
    ends_at, limit = started_at + timeout, f"drainTimeout ({seconds(timeout)})"
    node_ends_at = context.ends_at(replica)
    if node_ends_at is not None and node_ends_at < ends_at:
        ends_at, limit = node_ends_at, "the spot or maintenance notice of its node"
    return Due(
        ends_at,
        f"{replica.name} is deleted at the latest: {limit}. It is deleted earlier once it has finished {left}.",
    )


def _requests(in_flight: float) -> str:
    return count(ceil(in_flight), "request")


def _rollout(outcome: ServiceOutcome) -> Iterator[Due]:
    context = outcome.context
    if context.halt is not None or outcome.balance.waits:
        return
    old = [
        replica
        for replica in replacement_of(context, context.live).leaving
        if replica.revision not in context.variant_order.hashes
    ]
    if old:
        yield Due(
            None,
            f"{count(len(old), 'replica')} of an older revision {'is' if len(old) == 1 else 'are'} replaced by "
            f"revision {context.target.hash}: each old replica drains once a new one serves.",
        )


def instant(due: Due) -> str | None:
    return None if due.at is None else rfc3339(due.at)
