"""Groups: what is special about replicas of several pods, one per node.

Pods are created one by one, and the scheduler takes them one by one; a group of which a few pods exist would hold GPUs
for nothing. So each pod comes behind a scheduling gate, and the gates are lifted when the whole group exists. That is
not gang scheduling: after that, the scheduler may still find room for some ranks only. Such a half-bound group is given
back as a whole after pendingTimeout, one at a time, so that its nodes can complete another one.
"""

from collections.abc import Collection
from typing import Final
from zlib import crc32

from forebay.api.labels import GROUP_GATE
from forebay.planner.decide.decided_context import DecidedContext
from forebay.planner.observe.replicas import REASONS_OF_SHORTAGE, Replica, ReplicaState
from forebay.planner.reconcile.steps import Step, StepKind
from forebay.world.plan import LiftGate

LONGEST_STAGGER: Final = 0.25
"""Of pendingTimeout, at most, by which services differ in how long they hold on to half a group."""


def lifts(context: DecidedContext, ending: Collection[str]) -> tuple[Step, ...]:
    """The gates of groups that are complete; `ending` are names of replicas that go in this tick."""
    steps = []
    for replica in context.having(ReplicaState.LOADING, ReplicaState.BLOCKED):
        held = [pod for pod in replica.pods if pod.held]
        revision = context.revisions.get(replica.revision)
        if not held or replica.name in ending or revision is None or len(replica.pods) < revision.shape.pods:
            continue
        actions = tuple(
            LiftGate(pod.name, pod.uid, pod.resource_version, tuple(gate for gate in pod.gates if gate != GROUP_GATE))
            for pod in held
        )
        steps.append(Step(StepKind.OTHER, actions))
    return tuple(steps)


def holds_half(replica: Replica) -> bool:
    """Whether some of its pods hold GPUs that are of no use, since others find none."""
    return replica.state is ReplicaState.BLOCKED and replica.reason in REASONS_OF_SHORTAGE and replica.half_placed


def may_give_back(context: DecidedContext, replica: Replica) -> bool:
    """Whether it is this half-bound group's turn to go: the youngest goes first, the next one only after it is gone.

    Two groups that hold a half each would otherwise both go, both come again, and meet once more. Services differ in
    their patience for the same reason.
    """
    if context.having(ReplicaState.DELETING):
        return False
    youngest = max(filter(holds_half, context.live), key=lambda r: (r.created_at, r.name), default=replica)
    stagger = LONGEST_STAGGER * (crc32(context.service.uid.encode()) % 100) / 100
    patience_seconds = context.settings.pending_timeout_seconds * (1 + stagger)
    waited_seconds = context.now - min(pod.waiting_since for pod in replica.pods)
    return replica == youngest and waited_seconds >= patience_seconds
