"""The agenda: what comes next for a service without anybody doing anything, and when.

From the same scene that the plan is made from, so it names the limits that the planner itself will act on.
"""

from collections.abc import Callable, Iterator
from math import ceil, inf
from typing import Final

from forebay.api.instants import rfc3339
from forebay.api.reasons import Reason
from forebay.planner.decide.decided_context import DecidedContext
from forebay.planner.observe.replicas import Replica, ReplicaState
from forebay.planner.observe.variant_order import shown
from forebay.planner.reconcile.outcome import ServiceOutcome
from forebay.planner.reconcile.rank_groups import holds_half
from forebay.planner.reconcile.rollout import replacement_of
from forebay.planner.reconcile.steps import StepKind
from forebay.planner.reconcile.terminations import retry_due_at
from forebay.planner.report.variant_status import returns
from forebay.scaling.decision import Due, count, seconds
from forebay.scaling.learning.lead_time import ENOUGH_STARTS, LeadTimes, WarmState

MOST_NAMED: Final = 3
"""Replicas of one state that are named one by one; the others are counted."""
EXPECTED: Final = 0.95
"""Share of starts within the time by which a replica is expected."""


Teller = Callable[[DecidedContext, Replica], Due | None]


def upcoming_of(outcome: ServiceOutcome) -> tuple[Due, ...]:
    """The soonest first, and what has no time of its own after that."""
    found = [
        *outcome.context.decision.upcoming,
        *_named(outcome, ReplicaState.LOADING, _arrival, "loading", "expected or given up"),
        *_named(outcome, ReplicaState.BLOCKED, _retry, "stuck", "tried anew"),
        *_named(outcome, ReplicaState.DRAINING, _end, "draining", "deleted at the latest"),
        *_schedules(outcome.context),
        *_now(outcome),
        *_rollout(outcome),
        *returns(outcome.context),
        *([Due(None, f"Not done yet: {outcome.held}.")] if outcome.held else []),
    ]
    return tuple(sorted(found, key=lambda due: (due.at is None, due.at or 0.0)))


def _schedules(context: DecidedContext) -> Iterator[Due]:
    """The next edge of each."""
    for window_floor in context.window_floors:
        name, window, replicas = (
            window_floor.schedule.name,
            window_floor.window,
            count(window_floor.replicas, "replica"),
        )
        if window is None or window_floor.fault:
            continue
        if window_floor.opened is not None:
            yield Due(window.end, f"Schedule {name} ends: its floor of {replicas} no longer holds, the load decides.")
        elif window_floor.counts(context.now):
            yield Due(window.start, f"Schedule {name} opens: {replicas} have to serve by then.")
        else:
            start = rfc3339(window.start)
            yield Due(window_floor.warm_from, f"Schedule {name} begins to count: {replicas} have to serve by {start}.")


def _now(outcome: ServiceOutcome) -> Iterator[Due]:
    """What the plan of this very moment does."""
    created = [step for step in outcome.balance.steps if step.kind is StepKind.CREATE]
    drained = [step for step in outcome.balance.steps if step.kind is StepKind.DRAIN]
    if created:
        yield Due(None, f"{count(len(created), 'replica')} {'is' if len(created) == 1 else 'are'} being created.")
    for step in drained[:MOST_NAMED]:
        yield Due(None, f"{step.subject} begins to drain: it gets no new requests and finishes those it has.")


def _named(outcome: ServiceOutcome, state: ReplicaState, tell: Teller, doing: str, fate: str) -> Iterator[Due]:
    """The first of them by name; of the others how many there are, and when the last of them has met its fate."""
    found = (tell(outcome.context, replica) for replica in outcome.replicas(state))
    told = sorted((due for due in found if due), key=lambda due: due.at or 0.0)
    yield from told[:MOST_NAMED]
    more = len(told) - MOST_NAMED
    if more > 0:
        are, last_at = "is" if more == 1 else "are", told[-1].at
        by_then = "" if last_at is None else f"; by then {'it' if more == 1 else 'each'} is {fate}"
        yield Due(last_at, f"{count(more, 'more replica')} {are} {doing}{by_then}.")


def _arrival(context: DecidedContext, replica: Replica) -> Due | None:
    """When a replica on its way is expected, or given up."""
    since = min(pod.waiting_since for pod in replica.pods)
    homeless = [pod for pod in replica.pods if pod.node is None]
    if homeless:
        patience = context.settings.pending_timeout_seconds
        why = f" ({homeless[0].blocked_message.rstrip('.')})" if homeless[0].blocked_message else ""
        return Due(
            since + patience,
            f"{replica.name} counts as stuck if it has found no node by then{why}: the operator's --pending-timeout.",
        )
    lead_times = LeadTimes() if context.memory.learned is None else context.memory.learned.lead_times
    warm = all(pod.uid in context.preempting_pods for pod in replica.pods)
    state = WarmState.PLACEHOLDER_NODE if warm else WarmState.READY_NODE
    lead, seen = lead_times.quantile_seconds(state, EXPECTED), len(lead_times.of(state))
    expected_at, limit = since + lead, context.spec.engine.startup_timeout.seconds
    if expected_at > context.now and lead < limit:
        basis = (
            "95 of 100 starts took no longer" if seen >= ENOUGH_STARTS else f"assumed, with {count(seen, 'start')} seen"
        )
        return Due(expected_at, f"{replica.name} is expected to serve {seconds(lead)} after it got its node ({basis}).")
    return Due(since + limit, f"{replica.name} is given up if it does not serve by then: engine.startupTimeout.")


def _retry(context: DecidedContext, replica: Replica) -> Due | None:
    why, due_at = replica.message.rstrip("."), retry_due_at(context, replica)
    if replica.reason == Reason.STALLED:
        return Due(None, f"{why}; {_of_the_stalled(context)}.")
    if due_at is None:
        return Due(None, f"{why}; it is kept to be looked at.")
    shape, at = context.variant_order.yields_to(replica) or (None, inf)
    if holds_half(replica):
        then = "tries anew" if shape is None or at > context.now else f"one of {shown(shape.variant)} is tried"
        return Due(None, f"{replica.name} has only some of its nodes; in its turn it gives them back, and {then}.")
    if shape is not None and at <= due_at:
        return Due(at if at > context.now else None, f"{why}; one of {shown(shape.variant)} is tried in its place.")
    return Due(due_at, f"{why}; another one is tried in its place.")


def _of_the_stalled(context: DecidedContext) -> str:
    if any(replica.state is ReplicaState.SERVING for replica in context.live):
        return "it is replaced in its turn, one at a time"
    return "nothing is done about it until one of all that stand still counts on"


def _end(context: DecidedContext, replica: Replica) -> Due | None:
    started_at = replica.drain_started_at
    if started_at is None:
        return None
    timeout = context.spec.rollout.drain_timeout.seconds
    left = "an unknown number of requests" if replica.in_flight is None else _requests(replica.in_flight)
    return Due(
        started_at + timeout,
        f"{replica.name} is deleted at the latest: drainTimeout ({seconds(timeout)}). It goes before that once it has "
        f"finished its {left}.",
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
            f"revision {context.target.hash}: a new one serves first, then an old one drains.",
        )


def instant(due: Due) -> str | None:
    return None if due.at is None else rfc3339(due.at)
