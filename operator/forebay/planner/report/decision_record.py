"""The decision record: the current decision in the status, and a bounded list of past decisions.

Events and `forebay explain` are rendered from this record. Values that change with every tick carry no time stamp of
their own, so the status of an unchanged service is not written again.
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
"""The latest decisions are all kept. Of older ones only those that changed the number of replicas are kept, so that two
alternating rules do not push out the decisions that matter later."""


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
    """While all signals are fresh, their age limit is reported instead of their age, because an age would change, and
    be written, with every scrape."""
    load = context.load
    silent = [pod.since for pod in load.silent if not pod.new]
    return SignalsStatus(
        state=str(load.freshness) if load.replicas else Reason.NOTHING_SERVES,
        answering=load.known,
        serving=load.replicas,
        fresh_seconds=round(context.settings.stale_after_seconds),
        silent_since=rfc3339(min(silent)) if silent else None,
    )


def past_decisions(before: Sequence[PastDecision], outcome: ServiceOutcome, now: float) -> tuple[PastDecision, ...]:
    """The past decisions, with the current one added when its number or its rule differs from the last."""
    decision = outcome.context.decision
    last = before[-1] if before else None
    current = (decision.rule, decision.desired, decision.applied)
    if last is not None and (last.rule, last.desired, last.replicas) == current:
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
