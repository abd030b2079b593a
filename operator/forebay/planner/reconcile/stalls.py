"""Stalled replicas: which of them are replaced now.

A stall is a suspicion: the engine may hang, or its metrics may stand still while it serves. So a stalled replica stays
in service until its replacement serves, and a replacement that stalls as well is given more time than the one before.
When all of several replicas stall at once, their metrics are more likely at fault, and nothing is replaced.
"""

from typing import Final

from forebay.api.reasons import Reason
from forebay.planner.decide.decided_context import DecidedContext
from forebay.planner.observe.replicas import Replica, ReplicaState

LONGEST_WAIT_SECONDS: Final = 3600.0


def replaceable(context: DecidedContext) -> tuple[Replica, ...]:
    """The stalled replicas that are replaced now: at most two for each that serves, so that a wrong suspicion costs
    little."""
    stalled = _stalled(context)
    if not stalled:
        return ()
    serving = len(context.having(ReplicaState.SERVING))
    if len(stalled) > 1 and not serving:
        return ()
    return tuple([replica for replica in stalled if due_at(context, replica) <= context.now][: max(1, 2 * serving)])


def replaced(context: DecidedContext) -> tuple[Replica, ...]:
    """The stalled replicas whose replacements serve."""
    spare = len(context.having(ReplicaState.SERVING)) + len(_stalled(context)) - context.desired
    return replaceable(context)[: max(0, spare)]


def _stalled(context: DecidedContext) -> list[Replica]:
    return [replica for replica in context.live if replica.reason == Reason.STALLED]


def due_at(context: DecidedContext, replica: Replica) -> float:
    """When the stalled replica is replaced: at once, or later where it was created after earlier stalls.

    The time from its last step doubles with each of them, up to an hour.
    """
    stalls = context.memory.stalls
    noticed_at = next((stall.at for stall in stalls if stall.pod_uid == replica.pods[0].uid), context.now)
    earlier = len({stall.at for stall in stalls if stall.at <= replica.created_at})
    wait_seconds = context.settings.stall_after_seconds * (2.0 ** min(earlier, 16) - 1)
    return noticed_at + min(LONGEST_WAIT_SECONDS, wait_seconds)
