"""What people read of a service's variants: replicas of each, why one is used, and what brings another back."""

from collections import Counter
from collections.abc import Iterator

from forebay.api.instants import rfc3339
from forebay.api.status import VariantState, VariantStatus
from forebay.planner.observe.replicas import Replica, ReplicaState
from forebay.planner.observe.service_context import ServiceContext
from forebay.planner.observe.variant_order import opens_at, shown
from forebay.planner.reconcile.rollout import replacement_of
from forebay.planner.reconcile.variant_failback import Failback, failback_of, surge_of
from forebay.scaling.decision import Due, count, seconds
from forebay.world.world import Revision


def variant_statuses(scene: ServiceContext) -> tuple[VariantStatus, ...]:
    """In order of preference; none for a service that has only one shape."""
    return tuple(_status(scene, target) for target in scene.lineup.targets) if scene.lineup.several else ()


def returns(scene: ServiceContext) -> Iterator[Due]:
    """What brings replicas back to each shape that is preferred to one that serves."""
    lineup = scene.lineup
    yield from _return_under_way(scene)
    used = [scene.rank(replica) for replica in scene.having(ReplicaState.SERVING)]
    for rank, target in enumerate(lineup.targets):
        behind, due_at = sum(other > rank for other in used), lineup.opens_at(target.variant)
        if not behind or due_at is None:
            continue
        yield Due(
            due_at if not lineup.short_now(target.variant) else None,
            f"{shown(target.variant)} is tried again, with one replica on top of what is wanted; once it serves, one "
            f"of {_less_preferred(behind)} drains ({lineup.shortages[target.variant].why}).",
        )


def _return_under_way(scene: ServiceContext) -> Iterator[Due]:
    """To a shape that may be tried, or is."""
    exchange = failback_of(scene, replacement_of(scene, scene.live))
    if exchange is None:
        return
    new, behind = shown(exchange.new.variant), _less_preferred(len(exchange.leaving))
    coming = [replica for replica in scene.having(ReplicaState.LOADING) if replica.revision == exchange.new.hash]
    if coming and len(scene.live) > scene.desired:
        yield Due(None, f"Once {coming[0].name} serves, which is of {new}, one of {behind} drains.")
    elif waits := _why_not_yet(scene, exchange):
        yield Due(None, f"{new} may be tried again, to take the place of one of {behind}; that waits for {waits}.")


def _less_preferred(replicas: int) -> str:
    return f"{count(replicas, 'replica')} that {'is' if replicas == 1 else 'are'} less preferred"


def _status(scene: ServiceContext, target: Revision) -> VariantStatus:
    states = Counter(replica.state for replica in scene.replicas if _is_of(scene, replica, target.variant))
    return VariantStatus(
        name=shown(target.variant),
        ready=states[ReplicaState.SERVING],
        loading=states[ReplicaState.LOADING],
        draining=states[ReplicaState.DRAINING],
        carries_percent=round(100 * scene.weight(target.variant)),
        state=_state(scene, target),
        message=_message(scene, target),
    )


def _is_of(scene: ServiceContext, replica: Replica, variant: str) -> bool:
    known = scene.revisions.get(replica.revision)
    return known is not None and known.variant == variant


def _state(scene: ServiceContext, target: Revision) -> VariantState:
    if scene.lineup.opens_at(target.variant) is not None:
        return VariantState.SHORT
    return VariantState.NEXT if target == scene.lineup.next_up else VariantState.STANDBY


def _message(scene: ServiceContext, target: Revision) -> str:
    """A time that moves with every tick is not told: it would be written with every tick."""
    lineup = scene.lineup
    due_at = lineup.opens_at(target.variant)
    if due_at is None:
        return ""
    shortage = lineup.shortages[target.variant]
    if lineup.short_now(target.variant):
        hold = seconds(opens_at(shortage, lineup.hold_seconds) - shortage.seen_at)
        return f"{shortage.why}. It is tried again {hold} after that has ended."
    return f"{shortage.why}. It is tried again at {rfc3339(due_at)}."


def _why_not_yet(scene: ServiceContext, exchange: Failback) -> str:
    """What a return waits for, as a clause; empty where it is a matter of moments."""
    most, surge = scene.limits.max_replicas, surge_of(exchange, scene)
    if not scene.load.complete:
        return "the load of every replica that serves to be known"
    if len(scene.live) >= most + surge:
        why = "one of it carries less than one that would go" if exchange.carries_less else "rollout.maxSurge is 0"
        return f"room under maxReplicas ({most}), since {why}"
    return ""
