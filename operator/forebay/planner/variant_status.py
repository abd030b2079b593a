"""What people read of a service's variants: replicas of each, why one is used, and what brings another back."""

from collections import Counter
from collections.abc import Iterator

from forebay.api.instants import rfc3339
from forebay.api.status import VariantState, VariantStatus
from forebay.planner.replicas import Replica, ReplicaState
from forebay.planner.scene import Scene
from forebay.planner.variants import opens_at, shown
from forebay.planner.world import Revision
from forebay.scaling.decision import Due, count, seconds


def variant_statuses(scene: Scene) -> tuple[VariantStatus, ...]:
    """In order of preference; none for a service that has only one shape."""
    return tuple(_status(scene, target) for target in scene.lineup.targets) if scene.lineup.several else ()


def returns(scene: Scene) -> Iterator[Due]:
    """What brings replicas back to each shape that is preferred to one that serves."""
    lineup = scene.lineup
    used = [scene.rank(replica) for replica in scene.having(ReplicaState.SERVING)]
    for rank, target in enumerate(lineup.targets):
        behind, due_at = sum(other > rank for other in used), lineup.opens_at(target.variant)
        if not behind or due_at is None:
            continue
        yield Due(
            due_at if not _waits_now(scene, target) else None,
            f"{shown(target.variant)} is tried again, with one replica on top of what is wanted; once it serves, one "
            f"of {count(behind, 'replica')} that {'is' if behind == 1 else 'are'} less preferred drains "
            f"({lineup.shortages[target.variant].why}).",
        )


def _status(scene: Scene, target: Revision) -> VariantStatus:
    states = Counter(replica.state for replica in scene.replicas if _is_of(scene, replica, target.variant))
    return VariantStatus(
        name=shown(target.variant),
        ready=states[ReplicaState.SERVING],
        loading=states[ReplicaState.LOADING] + states[ReplicaState.BLOCKED],
        draining=states[ReplicaState.DRAINING],
        carries_percent=round(100 * scene.weight(target.variant)),
        state=_state(scene, target),
        message=_message(scene, target),
    )


def _is_of(scene: Scene, replica: Replica, variant: str) -> bool:
    known = scene.revisions.get(replica.revision)
    return known is not None and known.variant == variant


def _state(scene: Scene, target: Revision) -> VariantState:
    if scene.lineup.opens_at(target.variant) is not None:
        return VariantState.SHORT
    return VariantState.NEXT if target == scene.lineup.next_up else VariantState.STANDBY


def _message(scene: Scene, target: Revision) -> str:
    """A time that moves with every tick is not told: it would be written with every tick."""
    lineup = scene.lineup
    due_at = lineup.opens_at(target.variant)
    if due_at is None:
        return ""
    shortage = lineup.shortages[target.variant]
    if _waits_now(scene, target):
        hold = seconds(opens_at(shortage, lineup.hold_seconds) - shortage.seen_at)
        return f"{shortage.why}. It is tried again {hold} after that has ended."
    return f"{shortage.why}. It is tried again at {rfc3339(due_at)}."


def _waits_now(scene: Scene, target: Revision) -> bool:
    """Whether it is being found short at this very moment."""
    return scene.lineup.shortages[target.variant].seen_at == scene.now
