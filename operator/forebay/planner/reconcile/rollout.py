"""Rollouts and node drains: the replacement of replicas while the service keeps serving.

Both follow the same steps: create a new replica, wait until it serves, then drain an old one. One failing replica of a
new revision halts the rollout; the old revision then serves and scales as if no rollout had been requested.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from forebay.api.inference_service import WhenNoSpare
from forebay.api.reasons import Reason
from forebay.planner.decide.decided_context import DecidedContext
from forebay.planner.observe.replicas import SHORTAGE_REASONS, Replica, ReplicaState, is_faulty
from forebay.planner.reconcile import stalls
from forebay.world.world import Revision

CAPACITY_REFUSALS = (Reason.QUOTA_EXCEEDED,)


@dataclass(frozen=True, slots=True)
class Replacement:
    """The live replicas of a service, by whether they stay."""

    staying: tuple[Replica, ...]
    leaving: tuple[Replica, ...]
    """Replicas of a revision that is no target, or on a cordoned node."""
    ending: tuple[Replica, ...]
    """Those of `leaving` whose node ends soon, by a spot or maintenance notice. They hold no place under maxReplicas,
    so that the replacements of all of them can start at once."""
    failing: tuple[Replica, ...]
    """Faulty replicas of the halted revision, kept for inspection as long as their place is not needed."""
    suspects: tuple[Replica, ...]
    """Stalled replicas that are being replaced. They leave once enough others serve."""
    growth: Revision
    """The revision of new replicas until a target is proven."""
    proven: bool
    """Whether a replica of a target serves, or there is no other revision to fall back on."""

    @property
    def lasting(self) -> tuple[Replica, ...]:
        """The replicas that hold a place under maxReplicas."""
        return tuple(replica for replica in self.live if replica not in self.ending)

    @property
    def leaving_later(self) -> tuple[Replica, ...]:
        """The leaving replicas that stay until others serve in their place."""
        return tuple(replica for replica in self.leaving if replica not in self.ending)

    @property
    def live(self) -> tuple[Replica, ...]:
        return (*self.staying, *self.leaving, *self.failing, *self.suspects)


def replacement_of(context: DecidedContext, live: Sequence[Replica]) -> Replacement:
    targets = context.variant_order.hashes
    old = [replica for replica in live if replica.revision not in targets]
    growth = _fallback(context, old) if old else context.variant_order.next_target
    proven = not old or any(r.state is ReplicaState.SERVING for r in live if r.revision in targets)
    failing = tuple(r for r in live if context.halt is not None and r.revision in targets and is_faulty(r))
    suspects = tuple(replica for replica in stalls.replaceable(context) if replica in live)
    staying: list[Replica] = []
    leaving: list[Replica] = []
    for replica in live:
        if replica in failing or replica in suspects:
            continue
        rolled = replica.revision in targets or context.halt is not None
        (staying if rolled and not context.must_leave(replica) else leaving).append(replica)
    ending = tuple(replica for replica in leaving if context.ends_at(replica) is not None)
    return Replacement(tuple(staying), tuple(leaving), ending, failing, suspects, growth, proven)


def _fallback(context: DecidedContext, old: Sequence[Replica]) -> Revision:
    """The newest serving revision among those of the old replicas, else the newest of them."""
    best = max(
        old,
        key=lambda replica: (
            replica.state is ReplicaState.SERVING,
            context.revisions[replica.revision].number if replica.revision in context.revisions else -1,
        ),
    )
    return context.revisions.get(best.revision, context.target)


def lacks_spare(context: DecidedContext, staying: Iterable[Replica]) -> str:
    """Why there is no capacity for a surge replica, as a clause; empty when there is, or while one is being tried."""
    if context.spec.rollout.max_surge == 0:
        return "rollout.maxSurge is 0"
    for replica in staying:
        if replica.state is ReplicaState.BLOCKED and replica.reason in SHORTAGE_REASONS:
            return f"the new replica {replica.name} cannot be placed ({replica.reason})"
    for refusal in reversed(context.refusals):
        if refusal.reason in CAPACITY_REFUSALS:
            return f"the API server refused {refusal.pod_name} ({refusal.reason}: {refusal.message})"
    return context.memory.held_back or next(iter(context.memory.quota_holds.values()), "")


def may_replace_without_spare(context: DecidedContext) -> bool:
    """Whether a serving replica may go before its replacement serves."""
    mode = context.spec.rollout.when_no_spare
    return mode is WhenNoSpare.REPLACE or (mode is WhenNoSpare.AUTO and context.one_less_would_do)
