"""The record: a decision as status keeps it, and the ring of those that came before.

Everything that people are told of a decision is rendered from here. Values that move with every tick carry no time of
their own, so a service on which nothing changes is not written again.
"""

from collections.abc import Sequence
from typing import Final

from forebay.api.instants import rfc3339
from forebay.api.reasons import Reason
from forebay.api.status import (
    MOST_LINES,
    MOST_PAST_DECISIONS,
    MOST_PROPOSALS,
    DecisionStatus,
    PastDecision,
    ProposalStatus,
    SignalsStatus,
    UpcomingStatus,
)
from forebay.planner.decide.decided_context import DecidedContext
from forebay.planner.observe.replicas import ReplicaState
from forebay.planner.reconcile.reconcile_outcome import ServiceOutcome
from forebay.planner.report.upcoming import instant, upcoming_of

LATEST: Final = 8
"""Of so many last decisions every one is kept. Of those before only changes of the number, so that two rules that take
turns do not push out what people ask for later."""


def decision_status(outcome: ServiceOutcome) -> DecisionStatus:
    decision = outcome.context.decision
    return DecisionStatus(
        rule=decision.rule,
        because=decision.because,
        desired=decision.desired,
        inputs=dict(decision.inputs),
        signals=signals_status(outcome.context),
        proposals=tuple(
            ProposalStatus(rule=p.rule, replicas=p.replicas, because=p.because, waits_for=p.waits_for)
            for p in decision.proposals[:MOST_PROPOSALS]
        ),
        would_raise=decision.would_raise[:MOST_LINES],
        would_lower=decision.would_lower[:MOST_LINES],
        upcoming=tuple(UpcomingStatus(at=instant(due), what=due.what) for due in upcoming_of(outcome)[:MOST_LINES]),
    )


def signals_status(context: DecidedContext) -> SignalsStatus:
    """Ages are told by their limit while all is fresh: a time that moved with every scrape would be written each."""
    load = context.load
    silent = [each.since for each in load.silent if not each.new]
    return SignalsStatus(
        state=str(load.freshness) if load.replicas else Reason.NOTHING_SERVES,
        answering=load.known,
        serving=load.replicas,
        fresh_seconds=round(context.settings.stale_after_seconds),
        silent_since=rfc3339(min(silent)) if silent else None,
    )


def decisions(before: Sequence[PastDecision], outcome: ServiceOutcome, now: float) -> tuple[PastDecision, ...]:
    """With the decision of now, when it gives another number or another rule than the last."""
    decision = outcome.context.decision
    last = before[-1] if before else None
    what = (decision.rule, decision.desired, decision.applied)
    if last is not None and (last.rule, last.desired, last.replicas) == what:
        return tuple(before)
    new = PastDecision(
        at=rfc3339(now),
        rule=decision.rule,
        because=decision.because,
        desired=decision.desired,
        replicas=decision.applied,
        before=decision.before if last is None else last.replicas,
        ready=len(outcome.replicas(ReplicaState.SERVING)),
    )
    return _ring((*before, new))


def _ring(past: tuple[PastDecision, ...]) -> tuple[PastDecision, ...]:
    old, latest = past[:-LATEST], past[-LATEST:]
    changes = [decision for decision in old if decision.replicas != decision.before]
    return (*changes, *latest)[-MOST_PAST_DECISIONS:]
