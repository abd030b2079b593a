"""Returning: replicas of a variant go back to a shape that is preferred, one at a time.

As in a rollout, one of the preferred shape is created on top, and one of the variant drains once that one serves and no
rule needs both. Unlike in a rollout, nothing is ever replaced in place, and nothing is begun while the load is unknown
or anything else is under way: what is there serves as well, it only costs more.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from forebay.api.inference_service import ScalingMode
from forebay.planner.observe.replica_shares import weight_of
from forebay.planner.observe.replicas import Replica, ReplicaState
from forebay.planner.observe.service_context import ServiceContext
from forebay.planner.observe.variant_order import shown
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


def failback_of(scene: ServiceContext, rest: Replacement) -> Failback | None:
    """None while nothing is to go back, or while a rollout or a node drain comes first."""
    lineup = scene.lineup
    if not lineup.several or not lineup.open or rest.leaving or rest.failing or scene.halt is not None:
        return None
    new = lineup.next_up
    rank = lineup.rank(new.variant)
    leaving = [r for r in rest.staying if r.state is ReplicaState.SERVING and scene.rank(r) > rank]
    if not leaving:
        return None
    carried = max(weight_of(replica, scene.revisions, scene.weights) for replica in leaving)
    return Failback(new, tuple(leaving), carries_less=scene.weight(new.variant) < carried)


def surge_of(exchange: Failback | None, scene: ServiceContext) -> int:
    """Replicas above the bounds that a return may take: one, where rollouts may have any."""
    if exchange is None or exchange.carries_less:
        return 0
    return min(1, scene.spec.rollout.max_surge)


def on_top(exchange: Failback | None) -> int:
    """Replicas above what is wanted that a return may take."""
    return 0 if exchange is None else 1


def may_begin(scene: ServiceContext, rest: Replacement, exchange: Failback) -> bool:
    """Whether one of the preferred shape may be tried now: all that is wanted serves, and nothing else is under way.

    Nor does anything begin to go in this very tick, such as the one whose place the last return has taken.
    """
    if exchange.carries_less and scene.spec.scaling.mode is not ScalingMode.AUTO:
        return False
    return _quiet(scene, rest) and len(rest.staying) == scene.desired and len(rest.live) == len(scene.live)


def may_finish(scene: ServiceContext, rest: Replacement, exchange: Failback) -> bool:
    """Whether a replica that is less preferred is not needed any more.

    Where the new shape carries as much, what is wanted serves without the one that goes. Where it carries less, every
    rule has to do without it, also those that maxReplicas cuts.
    """
    needed = max(scene.desired, scene.decision.unbounded) if exchange.carries_less else scene.desired
    return _quiet(scene, rest) and len(rest.staying) > needed


def _quiet(scene: ServiceContext, rest: Replacement) -> bool:
    """Whether all there is serves, with the load of each known."""
    return (
        scene.load.complete
        and not scene.having(ReplicaState.DRAINING, ReplicaState.DELETING, ReplicaState.LOST)
        and all(replica.state is ReplicaState.SERVING for replica in rest.staying)
    )


def last_of(victims: Sequence[Replica], exchange: Failback) -> Replica:
    """The first to go of those that may."""
    return next(replica for replica in victims if replica in exchange.leaving)
