"""Endings: replicas that are over, or that have been stuck for so long that they are given up.

A chain of checks, one replica at a time; the first that speaks decides. None of them looks at how many replicas are
wanted: what is missing afterwards is created by `balance`.
"""

from collections.abc import Callable
from typing import Final

from forebay.api.reasons import Reason
from forebay.planner.decide.decided_context import DecidedContext
from forebay.planner.observe.replicas import REASONS_OF_SHORTAGE, Replica, ReplicaState, is_faulty
from forebay.planner.reconcile import drain, rank_groups
from forebay.planner.reconcile.steps import Step, StepKind, warning

LONGEST_RETRY_SECONDS: Final = 3600.0


def half_gone(context: DecidedContext, replica: Replica) -> tuple[Step, ...]:
    """One pod of it is being deleted, so the rest is of no use."""
    if replica.state is not ReplicaState.DELETING or all(pod.deleting for pod in replica.pods):
        return ()
    return (drain.delete(replica, Reason.INCOMPLETE, "another pod of the same replica is being deleted"),)


def ended(context: DecidedContext, replica: Replica) -> tuple[Step, ...]:
    if replica.state is not ReplicaState.FAILED:
        return ()
    return (drain.delete(replica, replica.trouble, replica.message.rstrip("."), alarming=True),)


def node_lost(context: DecidedContext, replica: Replica) -> tuple[Step, ...]:
    if replica.state is not ReplicaState.LOST:
        return ()
    return (drain.delete(replica, Reason.NODE_LOST, replica.message.rstrip("."), alarming=True, kind=StepKind.DRAIN),)


def drained(context: DecidedContext, replica: Replica) -> tuple[Step, ...]:
    if replica.state is not ReplicaState.DRAINING:
        return ()
    if replica.drain_started_at is None:
        return (drain.start(replica, Reason.LABEL_REMOVED, "its serving label was taken off"),)
    timeout_seconds = context.spec.rollout.drain_timeout.seconds
    return drain.finish(replica, timeout_seconds, context.settings, context.now)


def half_drained(context: DecidedContext, replica: Replica) -> tuple[Step, ...]:
    """A drain that reached only some pods of a replica is brought to the others."""
    if replica.state is not ReplicaState.DRAINING or all(pod.drain_started_at is not None for pod in replica.pods):
        return ()
    return (drain.start(replica, replica.drain_reason or Reason.SCALE_DOWN, "it drains as a whole"),)


def hung(context: DecidedContext, replica: Replica) -> tuple[Step, ...]:
    """An engine that makes no step serves nobody; what little may still end in it gets its time by drain.

    One at a time, and never when all of several stand still at once: that would be the metrics.
    """
    if replica.reason != Reason.STALLED or context.having(ReplicaState.DRAINING):
        return ()
    stalled = [other for other in context.live if other.reason == Reason.STALLED]
    others = [other for other in context.live if other not in stalled and other.state is ReplicaState.SERVING]
    if replica != stalled[0] or (len(stalled) > 1 and not others):
        return ()
    return drain.remove(replica, Reason.STALLED, replica.message.rstrip("."))


def given_up(context: DecidedContext, replica: Replica) -> tuple[Step, ...]:
    """Stuck for too long: tried once more elsewhere, then less and less often.

    The failing replica of a halted rollout is kept to be looked at: another one of the same would fail as well.
    """
    if context.variant_order.makes_way(replica):
        return ()
    due_at = retry_due_at(context, replica) if replica.state is ReplicaState.BLOCKED else None
    if due_at is None:
        return ()
    if not rank_groups.may_give_back(context, replica) if rank_groups.holds_half(replica) else context.now < due_at:
        return ()
    return drain.remove(replica, replica.trouble, f"{replica.message.rstrip('.')}; it is tried once more")


ENDINGS: Final[tuple[Callable[[DecidedContext, Replica], tuple[Step, ...]], ...]] = (
    half_gone,
    ended,
    node_lost,
    drained,
    half_drained,
    hung,
    given_up,
)


def terminations_of(context: DecidedContext) -> dict[str, Step]:
    """What ends, by the name of the replica."""
    steps: dict[str, Step] = {}
    for replica in context.replicas:
        for ending in ENDINGS:
            if found := ending(context, replica):
                steps[replica.name] = found[0]
                break
    return steps


def retry_due_at(context: DecidedContext, replica: Replica) -> float | None:
    """When a stuck replica is given up; None when it is kept to be looked at, or when others decide over it."""
    if replica.reason == Reason.STALLED:
        return None
    if context.halt is not None and replica.revision == context.halt.revision and is_faulty(replica):
        return None
    return _retry_at(context, replica)


def _retry_at(context: DecidedContext, replica: Replica) -> float:
    """The first try ends with pendingTimeout. The waits double from there, up to an hour.

    A replica that finds no node waits the hour at once: its waiting is what a cluster autoscaler needs to see. Where
    there are variants the second try was one of those.
    """
    retries = context.memory.retries
    wait_seconds = min(LONGEST_RETRY_SECONDS, context.settings.pending_timeout_seconds * 2.0 ** min(retries, 16))
    if (retries or context.variant_order.several) and replica.reason in REASONS_OF_SHORTAGE:
        wait_seconds = LONGEST_RETRY_SECONDS
    return min(pod.waiting_since for pod in replica.pods) + wait_seconds


def noted_block(replica: Replica) -> Step | None:
    """The event of a replica that has just been found stuck."""
    if replica.state is not ReplicaState.BLOCKED:
        return None
    return Step(StepKind.OTHER, (), subject=replica.name, event=warning(replica.trouble.of_replica, replica.message))
