"""The status of a service's variants: replicas of each, why a variant is used, and what ends its use."""

from collections import Counter
from collections.abc import Iterator

from forebay.api.instants import rfc3339
from forebay.api.status import VariantState, VariantStatus
from forebay.planner.decide.decided_context import DecidedContext
from forebay.planner.observe.replicas import Replica, ReplicaState
from forebay.planner.observe.variant_order import retry_at, variant_label
from forebay.planner.reconcile.rollout import replacement_of
from forebay.planner.reconcile.variant_failback import Failback, failback_of, surge_of
from forebay.scaling.decision import Due, seconds
from forebay.world.world import Revision


def variant_statuses(context: DecidedContext) -> tuple[VariantStatus, ...]:
    """The variants in order of preference; empty for a service with only one shape."""
    return (
        tuple(_status(context, target) for target in context.variant_order.targets)
        if context.variant_order.several
        else ()
    )


def failback_due(context: DecidedContext) -> Iterator[Due]:
    """When replicas go back to each shape that is preferred to a serving one."""
    variant_order = context.variant_order
    yield from _failback_under_way(context)
    used = [context.rank(replica) for replica in context.having(ReplicaState.SERVING)]
    for rank, target in enumerate(variant_order.targets):
        behind, due_at = sum(other > rank for other in used), variant_order.retry_at(target.variant)
        if not behind or due_at is None:
            continue
        yield Due(
            due_at if not variant_order.short_in_this_tick(target.variant) else None,
            f"{variant_label(target.variant)} is tried again with one extra replica; once it serves, "
            f"{_less_preferred(behind)} drains ({variant_order.shortages[target.variant].why}).",
        )


def _failback_under_way(context: DecidedContext) -> Iterator[Due]:
    """A failback to a shape that is being tried or may be tried now."""
    failback = failback_of(context, replacement_of(context, context.live))
    if failback is None:
        return
    new, behind = variant_label(failback.new.variant), _less_preferred(len(failback.leaving))
    coming = [replica for replica in context.having(ReplicaState.LOADING) if replica.revision == failback.new.hash]
    if coming and len(context.live) > context.desired:
        yield Due(None, f"Once {coming[0].name} ({new}) serves, {behind} drains.")
    elif waits := _why_not_yet(context, failback):
        yield Due(None, f"{new} may be tried again to replace {behind}; it waits for {waits}.")


def _less_preferred(replicas: int) -> str:
    return "the less preferred replica" if replicas == 1 else f"one of {replicas} less preferred replicas"


def _status(context: DecidedContext, target: Revision) -> VariantStatus:
    states = Counter(replica.state for replica in context.replicas if _is_of(context, replica, target.variant))
    return VariantStatus(
        name=variant_label(target.variant),
        ready=states[ReplicaState.SERVING],
        loading=states[ReplicaState.LOADING],
        draining=states[ReplicaState.DRAINING],
        carries_percent=round(100 * context.weight(target.variant)),
        state=_state(context, target),
        message=_message(context, target),
    )


def _is_of(context: DecidedContext, replica: Replica, variant: str) -> bool:
    known = context.revisions.get(replica.revision)
    return known is not None and known.variant == variant


def _state(context: DecidedContext, target: Revision) -> VariantState:
    if context.variant_order.retry_at(target.variant) is not None:
        return VariantState.SHORT
    return VariantState.NEXT if target == context.variant_order.next_target else VariantState.STANDBY


def _message(context: DecidedContext, target: Revision) -> str:
    """Why a variant is short of capacity. A time that changes with every tick is left out, because it would cause a
    write at every tick."""
    variant_order = context.variant_order
    due_at = variant_order.retry_at(target.variant)
    if due_at is None:
        return ""
    shortage = variant_order.shortages[target.variant]
    if variant_order.short_in_this_tick(target.variant):
        hold = seconds(retry_at(shortage, variant_order.hold_seconds) - shortage.seen_at)
        return f"{shortage.why}. It is tried again {hold} after the shortage ends."
    return f"{shortage.why}. It is tried again at {rfc3339(due_at)}."


def _why_not_yet(context: DecidedContext, failback: Failback) -> str:
    """What a failback waits for, as a clause; empty when it will begin within moments."""
    most, surge = context.limits.max_replicas, surge_of(failback, context)
    if not context.load.complete:
        return "the load of all serving replicas to be known"
    if len(context.live) >= most + surge:
        why = (
            "its replicas have less capacity than those they replace"
            if failback.carries_less
            else "rollout.maxSurge is 0"
        )
        return f"room under maxReplicas ({most}), because {why}"
    return ""
