"""Rank groups: rules for replicas of several pods, one per node.

Pods are created and scheduled one by one, and a group of which only some pods exist would hold GPUs for nothing.
Therefore each pod is created with a scheduling gate, and the gates are lifted when the whole group exists. This is not
gang scheduling: the scheduler may still find nodes for some ranks only. Such a half-placed group is deleted as a whole
after pendingTimeout, one group at a time, so that its nodes can complete another group.
"""

from collections.abc import Collection
from typing import Final
from zlib import crc32

from forebay.api.labels import GROUP_GATE
from forebay.planner.decide.decided_context import DecidedContext
from forebay.planner.observe.replicas import SHORTAGE_REASONS, Replica, ReplicaState
from forebay.planner.reconcile.steps import Step, StepKind
from forebay.world.plan import LiftGate

LONGEST_STAGGER: Final = 0.25
"""Largest share of pendingTimeout by which services differ in how long they keep a half-placed group."""


def gate_lifts(context: DecidedContext, terminating: Collection[str]) -> tuple[Step, ...]:
    """The steps that lift the gates of complete groups. `terminating` are names of replicas that end in this tick."""
    steps = []
    for replica in context.having(ReplicaState.LOADING, ReplicaState.BLOCKED):
        gated = [pod for pod in replica.pods if pod.gated]
        revision = context.revisions.get(replica.revision)
        if not gated or replica.name in terminating or revision is None or len(replica.pods) < revision.shape.pods:
            continue
        actions = tuple(
            LiftGate(pod.name, pod.uid, pod.resource_version, tuple(gate for gate in pod.gates if gate != GROUP_GATE))
            for pod in gated
        )
        steps.append(Step(StepKind.OTHER, actions))
    return tuple(steps)


def holds_half(replica: Replica) -> bool:
    """Whether some of its pods hold GPUs for nothing, because its other pods find none."""
    return replica.state is ReplicaState.BLOCKED and replica.reason in SHORTAGE_REASONS and replica.half_placed


def may_give_back(context: DecidedContext, replica: Replica) -> bool:
    """Whether this half-placed group may be deleted now: the youngest goes first, the next one only after it is gone.

    Otherwise two groups that each hold half of their nodes would both be deleted and recreated, and block each other
    again. Services wait for different times for the same reason.
    """
    if context.having(ReplicaState.DELETING):
        return False
    youngest = max(filter(holds_half, context.live), key=lambda r: (r.created_at, r.name), default=replica)
    stagger = LONGEST_STAGGER * (crc32(context.service.uid.encode()) % 100) / 100
    hold_seconds = context.settings.pending_timeout_seconds * (1 + stagger)
    waited_seconds = context.now - min(pod.waiting_since for pod in replica.pods)
    return replica == youngest and waited_seconds >= hold_seconds
