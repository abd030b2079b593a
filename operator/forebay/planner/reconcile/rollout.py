"""Rollouts and node drains: replicas that have to be replaced while the service goes on.

Both are the same turnover: create what stays, wait until it serves, then drain what leaves. One failing replica of a
new revision halts the rollout; the old revision then serves, and grows, as if nothing had been asked for.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from forebay.api.inference_service import WhenNoSpare
from forebay.api.reasons import Reason
from forebay.planner.decide.decided_context import DecidedContext
from forebay.planner.observe.replicas import REASONS_OF_SHORTAGE, Replica, ReplicaState, is_faulty
from forebay.world.world import Revision

REFUSED_FOR_LACK = (Reason.QUOTA_EXCEEDED,)


@dataclass(frozen=True, slots=True)
class Replacement:
    """The live replicas of a service by what is to become of them."""

    staying: tuple[Replica, ...]
    leaving: tuple[Replica, ...]
    """Of another revision than the targets, or on a node that is to be left."""
    failing: tuple[Replica, ...]
    """Of the revision whose rollout is halted; kept to be looked at, as long as their place is not needed."""
    growth: Revision
    """What new replicas are made of when the target has not proved itself."""
    proven: bool
    """A replica of a target serves, or there is nothing else to fall back on."""

    @property
    def live(self) -> tuple[Replica, ...]:
        return (*self.staying, *self.leaving, *self.failing)


def replacement_of(context: DecidedContext, live: Sequence[Replica]) -> Replacement:
    targets = context.variant_order.hashes
    old = [replica for replica in live if replica.revision not in targets]
    growth = _fallback(context, old) if old else context.variant_order.next_up
    proven = not old or any(r.state is ReplicaState.SERVING for r in live if r.revision in targets)
    failing = tuple(r for r in live if context.halt is not None and r.revision in targets and is_faulty(r))
    staying: list[Replica] = []
    leaving: list[Replica] = []
    for replica in live:
        if replica in failing:
            continue
        rolled = replica.revision in targets or context.halt is not None
        (staying if rolled and not context.must_leave(replica) else leaving).append(replica)
    return Replacement(tuple(staying), tuple(leaving), failing, growth, proven)


def _fallback(context: DecidedContext, old: Sequence[Replica]) -> Revision:
    """The newest of the other revisions that serves, else the newest of those that exist."""
    best = max(
        old,
        key=lambda replica: (
            replica.state is ReplicaState.SERVING,
            context.revisions[replica.revision].number if replica.revision in context.revisions else -1,
        ),
    )
    return context.revisions.get(best.revision, context.target)


def lacks_spare(context: DecidedContext, staying: Iterable[Replica]) -> str:
    """Why there is no place for a replica on top, as a clause; empty when there is, or when it is still being tried."""
    if context.spec.rollout.max_surge == 0:
        return "rollout.maxSurge is 0"
    for replica in staying:
        if replica.state is ReplicaState.BLOCKED and replica.reason in REASONS_OF_SHORTAGE:
            return f"the new replica {replica.name} finds no place ({replica.reason})"
    for refusal in reversed(context.refusals):
        if refusal.reason in REFUSED_FOR_LACK:
            return f"the API server refused {refusal.pod_name} ({refusal.reason}: {refusal.message})"
    return context.memory.held_back


def may_replace_without_spare(context: DecidedContext) -> bool:
    """Whether a serving replica may go before its replacement serves."""
    mode = context.spec.rollout.when_no_spare
    return mode is WhenNoSpare.REPLACE or (mode is WhenNoSpare.AUTO and context.one_less_would_do)
