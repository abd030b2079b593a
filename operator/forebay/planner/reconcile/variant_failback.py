"""Returning: replicas of a variant go back to a shape that is preferred, one at a time.

As in a rollout, one of the preferred shape is created on top, and one of the variant drains once that one serves and no
rule needs both. Unlike in a rollout, nothing is ever replaced in place, and nothing is begun while the load is unknown
or anything else is under way: what is there serves as well, it only costs more.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from forebay.api.inference_service import ScalingMode
from forebay.planner.decide.decided_context import DecidedContext
from forebay.planner.observe.replicas import Replica, ReplicaState
from forebay.planner.observe.variant_order import shown
from forebay.planner.observe.variant_weights import weight_of
from forebay.planner.reconcile.rollout import Replacement
from forebay.world.world import Revision


@dataclass(frozen=True, slots=True)
class Failback:
    """What a return would put in the place of what."""

    new: Revision
    leaving: tuple[Replica, ...]
    """Replicas that serve and whose shape is less preferred than `new`."""
    carries_less: bool = False
    """One of the new shape carries less than the one that goes."""

    @property
    def why(self) -> str:
        return f"a replica of {shown(self.new.variant)}, which is preferred, serves in its place"


def failback_of(context: DecidedContext, rest: Replacement) -> Failback | None:
    """None while nothing is to go back, or while a rollout or a node drain comes first."""
    variant_order = context.variant_order
    if not variant_order.several or not variant_order.open or rest.leaving or rest.failing or context.halt is not None:
        return None
    new = variant_order.next_up
    rank = variant_order.rank(new.variant)
    leaving = [r for r in rest.staying if r.state is ReplicaState.SERVING and context.rank(r) > rank]
    if not leaving:
        return None
    carried = max(weight_of(replica, context.revisions, context.weights) for replica in leaving)
    return Failback(new, tuple(leaving), carries_less=context.weight(new.variant) < carried)


def surge_of(failback: Failback | None, context: DecidedContext) -> int:
    """Replicas above the bounds that a return may take: one, where rollouts may have any."""
    if failback is None or failback.carries_less:
        return 0
    return min(1, context.spec.rollout.max_surge)


def on_top(failback: Failback | None) -> int:
    """Replicas above what is wanted that a return may take."""
    return 0 if failback is None else 1


def may_begin(context: DecidedContext, rest: Replacement, failback: Failback) -> bool:
    """Whether one of the preferred shape may be tried now: all that is wanted serves, and nothing else is under way.

    Nor does anything begin to go in this very tick, such as the one whose place the last return has taken.
    """
    if failback.carries_less and context.spec.scaling.mode is not ScalingMode.AUTO:
        return False
    return _quiet(context, rest) and len(rest.staying) == context.desired and len(rest.live) == len(context.live)


def may_finish(context: DecidedContext, rest: Replacement, failback: Failback) -> bool:
    """Whether a replica that is less preferred is not needed any more.

    Where the new shape carries as much, what is wanted serves without the one that goes. Where it carries less, every
    rule has to do without it, also those that maxReplicas cuts.
    """
    needed = max(context.desired, context.decision.unbounded) if failback.carries_less else context.desired
    return _quiet(context, rest) and len(rest.staying) > needed


def _quiet(context: DecidedContext, rest: Replacement) -> bool:
    """Whether all there is serves, with the load of each known."""
    return (
        context.load.complete
        and not context.having(ReplicaState.DRAINING, ReplicaState.DELETING, ReplicaState.LOST)
        and all(replica.state is ReplicaState.SERVING for replica in rest.staying)
    )


def last_of(victims: Sequence[Replica], failback: Failback) -> Replica:
    """The first to go of those that may."""
    return next(replica for replica in victims if replica in failback.leaving)
