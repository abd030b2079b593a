"""Terminations: the end of replicas that have failed or drained, or that are given up after being stuck for too long.

Each replica passes through a chain of rules, and the first rule that returns a step decides. No rule reads how many
replicas are wanted; `balance` creates what is missing afterwards.
"""

from collections.abc import Callable
from typing import Final

from forebay.api.reasons import Reason
from forebay.planner.decide.decided_context import DecidedContext
from forebay.planner.observe.replicas import SHORTAGE_REASONS, Replica, ReplicaState, is_faulty
from forebay.planner.reconcile import drain, rank_groups, stalls
from forebay.planner.reconcile.rollout import lacks_spare
from forebay.planner.reconcile.steps import Step, StepKind, warning

LONGEST_RETRY_SECONDS: Final = 3600.0


def half_gone(context: DecidedContext, replica: Replica) -> tuple[Step, ...]:
    """One pod of the replica is being deleted, so its other pods are of no use."""
    if replica.state is not ReplicaState.DELETING or all(pod.deleting for pod in replica.pods):
        return ()
    return (drain.delete(replica, Reason.INCOMPLETE, "another pod of the same replica is being deleted"),)


def ended(context: DecidedContext, replica: Replica) -> tuple[Step, ...]:
    if replica.state is not ReplicaState.FAILED:
        return ()
    return (drain.delete(replica, replica.failure_reason, replica.message.rstrip("."), alarming=True),)


def node_lost(context: DecidedContext, replica: Replica) -> tuple[Step, ...]:
    if replica.state is not ReplicaState.LOST:
        return ()
    return (drain.delete_lost(replica),)


def drained(context: DecidedContext, replica: Replica) -> tuple[Step, ...]:
    if replica.state is not ReplicaState.DRAINING:
        return ()
    if replica.drain_started_at is None:
        return (drain.start(replica, Reason.LABEL_REMOVED, "its serving label was removed"),)
    timeout_seconds = context.spec.rollout.drain_timeout.seconds
    return drain.finish(replica, timeout_seconds, context.settings, context.now, context.ends_at(replica))


def half_drained(context: DecidedContext, replica: Replica) -> tuple[Step, ...]:
    """Only some pods of the replica drain, so the drain is extended to the others."""
    if replica.state is not ReplicaState.DRAINING or all(pod.drain_started_at is not None for pod in replica.pods):
        return ()
    return (drain.start(replica, replica.drain_reason or Reason.SCALE_DOWN, "other pods of the same replica drain"),)


def hung(context: DecidedContext, replica: Replica) -> tuple[Step, ...]:
    """An engine that makes no step is drained once its replacement serves, so that requests that can still finish have
    the time. Where there are no GPUs for a replacement, it makes room for one, one replica at a time."""
    if replica.reason != Reason.STALLED or replica not in stalls.replaceable(context):
        return ()
    if replica not in stalls.replaced(context) and (
        context.having(ReplicaState.DRAINING) or not lacks_spare(context, context.live)
    ):
        return ()
    return drain.remove(replica, Reason.STALLED, replica.message.rstrip("."))


def given_up(context: DecidedContext, replica: Replica) -> tuple[Step, ...]:
    """A replica that is stuck for too long is retried elsewhere, with growing intervals.

    The failing replica of a halted rollout is kept for inspection, because another one would fail as well.
    """
    if context.variant_order.has_alternative(replica):
        return ()
    due_at = retry_due_at(context, replica) if replica.state is ReplicaState.BLOCKED else None
    if due_at is None:
        return ()
    if not rank_groups.may_give_back(context, replica) if rank_groups.holds_half(replica) else context.now < due_at:
        return ()
    return drain.remove(replica, replica.failure_reason, f"{replica.message.rstrip('.')}; it is retried")


TERMINATION_RULES: Final[tuple[Callable[[DecidedContext, Replica], tuple[Step, ...]], ...]] = (
    half_gone,
    ended,
    node_lost,
    drained,
    half_drained,
    hung,
    given_up,
)


def terminations_of(context: DecidedContext) -> dict[str, Step]:
    """The steps that end replicas, by name of the replica."""
    steps: dict[str, Step] = {}
    for replica in context.replicas:
        for rule in TERMINATION_RULES:
            if steps_of_rule := rule(context, replica):
                steps[replica.name] = steps_of_rule[0]
                break
    return steps


def retry_due_at(context: DecidedContext, replica: Replica) -> float | None:
    """When a stuck replica is given up; None when it is kept for inspection, or is hung and left to `hung`."""
    if replica.reason == Reason.STALLED:
        return None
    if context.halt is not None and replica.revision == context.halt.revision and is_faulty(replica):
        return None
    return _retry_at(context, replica)


def _retry_at(context: DecidedContext, replica: Replica) -> float:
    """When a stuck replica is retried. The first attempt ends after pendingTimeout; from there the waits double, up to
    one hour.

    From the second attempt on, a replica without a node waits the whole hour, because a cluster autoscaler acts on
    pending pods. With variants this holds from the first attempt, because a variant is tried as the second one.
    """
    retries = context.memory.retries
    wait_seconds = min(LONGEST_RETRY_SECONDS, context.settings.pending_timeout_seconds * 2.0 ** min(retries, 16))
    if (retries or context.variant_order.several) and replica.reason in SHORTAGE_REASONS:
        wait_seconds = LONGEST_RETRY_SECONDS
    return min(pod.waiting_since for pod in replica.pods) + wait_seconds


def blocked_event(replica: Replica) -> Step | None:
    """The event of a stuck replica."""
    if replica.state is not ReplicaState.BLOCKED:
        return None
    return Step(
        StepKind.OTHER, (), subject=replica.name, event=warning(replica.failure_reason.of_replica, replica.message)
    )
