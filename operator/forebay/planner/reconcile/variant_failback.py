"""Variant failback: replacing replicas of a variant by ones of a preferred shape, one at a time.

As in a rollout, a replica of the preferred shape is created on top, and one of the variant drains once the new one
serves and no rule needs both. Unlike a rollout, a failback never replaces in place. It does not begin while the load is
unknown or another change is in progress, because the existing replicas serve as well and only cost more.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from forebay.api.inference_service import ScalingMode
from forebay.planner.decide.decided_context import DecidedContext
from forebay.planner.observe.replicas import Replica, ReplicaState
from forebay.planner.observe.variant_order import variant_label
from forebay.planner.observe.variant_weights import weight_of
from forebay.planner.reconcile.rollout import Replacement
from forebay.world.world import Revision


@dataclass(frozen=True, slots=True)
class Failback:
    """The revision that a failback creates, and the replicas that it may replace."""

    new: Revision
    leaving: tuple[Replica, ...]
    """Serving replicas whose shape is less preferred than `new`."""
    carries_less: bool = False
    """Whether a replica of the new shape has less capacity than the largest of `leaving`."""

    @property
    def why(self) -> str:
        return f"a replica of {variant_label(self.new.variant)}, which is preferred, serves instead"


def failback_of(context: DecidedContext, replacement: Replacement) -> Failback | None:
    """The failback to make; None when there is nothing to replace, or while a rollout or a node drain comes first."""
    variant_order = context.variant_order
    if (
        not variant_order.several
        or not variant_order.available
        or replacement.leaving
        or replacement.failing
        or context.halt is not None
    ):
        return None
    new = variant_order.next_target
    rank = variant_order.rank(new.variant)
    leaving = [r for r in replacement.staying if r.state is ReplicaState.SERVING and context.rank(r) > rank]
    if not leaving:
        return None
    carried = max(weight_of(replica, context.revisions, context.weights) for replica in leaving)
    return Failback(new, tuple(leaving), carries_less=context.weight(new.variant) < carried)


def surge_of(failback: Failback | None, context: DecidedContext) -> int:
    """Replicas above maxReplicas that a failback may use: one, if maxSurge allows any."""
    if failback is None or failback.carries_less:
        return 0
    return min(1, context.spec.rollout.max_surge)


def extra_replicas(failback: Failback | None) -> int:
    """Replicas above the wanted count that a failback may use."""
    return 0 if failback is None else 1


def may_begin(context: DecidedContext, replacement: Replacement, failback: Failback) -> bool:
    """Whether a replica of the preferred shape may be tried now: the wanted count serves, no other change is in
    progress, and no replica begins to leave in this tick, such as the one that the previous failback replaced."""
    if failback.carries_less and context.spec.scaling.mode is not ScalingMode.AUTO:
        return False
    return (
        _all_serve(context, replacement)
        and len(replacement.staying) == context.desired
        and len(replacement.live) == len(context.live)
    )


def may_finish(context: DecidedContext, replacement: Replacement, failback: Failback) -> bool:
    """Whether a less preferred replica is no longer needed.

    When the new shape has at least its capacity, the wanted count must serve without the leaving replica. When it has
    less, all rules must be satisfied without the leaving replica, including proposals that maxReplicas cuts.
    """
    needed = max(context.desired, context.decision.unbounded) if failback.carries_less else context.desired
    return _all_serve(context, replacement) and len(replacement.staying) > needed


def _all_serve(context: DecidedContext, replacement: Replacement) -> bool:
    """Whether all staying replicas serve with known load, and no replica is being removed."""
    return (
        context.load.complete
        and not context.having(ReplicaState.DRAINING, ReplicaState.DELETING, ReplicaState.LOST)
        and all(replica.state is ReplicaState.SERVING for replica in replacement.staying)
    )


def next_victim(victims: Sequence[Replica], failback: Failback) -> Replica:
    """The first of `victims` that the failback may replace."""
    return next(replica for replica in victims if replica in failback.leaving)
