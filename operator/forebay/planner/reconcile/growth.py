"""Growth: the replicas that are missing, taken back from a drain or created."""

from collections.abc import Callable, Iterator, Mapping

from forebay.api.reasons import Reason
from forebay.planner.decide.decided_context import DecidedContext
from forebay.planner.observe.replicas import Replica, ReplicaState
from forebay.planner.reconcile import drain, variant_failback
from forebay.planner.reconcile.rollout import Replacement
from forebay.planner.reconcile.steps import Step, StepKind, normal
from forebay.planner.reconcile.variant_failback import failback_of
from forebay.scaling.decision import count
from forebay.world.names import free_ordinals, pod_names
from forebay.world.plan import CreatePod
from forebay.world.world import Revision

Grant = Callable[[Step], bool]
"""Whether the operator's own limits permit a step. A refused step is skipped in this tick."""


def allowed_surge(context: DecidedContext, replacement: Replacement) -> int:
    """How many replicas may exist beyond maxReplicas while some are replaced."""
    if replacement.leaving or replacement.failing or replacement.suspects:
        return context.spec.rollout.max_surge
    return variant_failback.surge_of(failback_of(context, replacement), context)


def grow(
    context: DecidedContext, replacement: Replacement, terminating: Mapping[str, Step], grant: Grant, may_create: bool
) -> list[Step]:
    """Add the missing replicas: drains are cancelled before anything is created."""
    missing = _missing(context, replacement)
    room = context.limits.max_replicas + allowed_surge(context, replacement) - len(replacement.lasting)
    steps: list[Step] = []
    if missing and len(missing) > room and replacement.failing:
        # A failing replica is removed to make room; its replacement follows in a later tick.
        spared = replacement.failing[: len(missing) - max(0, room)]
        why = "a new replica needs its place under maxReplicas"
        steps += [step for replica in spared for step in drain.remove(replica, Reason.ROLLOUT, why)]
    cancellable = [replica for replica in _cancellable(context) if replica.name not in terminating]
    ordinals: dict[str, Iterator[int]] = {}
    for revision in missing[: max(0, room)]:
        again = next((replica for replica in cancellable if _may_serve_instead(context, replica, revision)), None)
        if again is not None:
            cancellable.remove(again)
            steps.append(drain.cancel(again, f"{count(context.desired, 'replica')} wanted again"))
        elif may_create:
            if revision.hash not in ordinals:
                ordinals[revision.hash] = _ordinals(context, revision)
            step = _create(context, revision, next(ordinals[revision.hash]))
            steps += [step] if grant(step) else []
    # Without room, an incomplete replica may itself be surplus and end in the next tick, so it is not completed.
    return steps + [step for step in _complete(context, replacement) if may_create and room >= 0 and grant(step)]


def _missing(context: DecidedContext, replacement: Replacement) -> list[Revision]:
    """The revision of each replica to create.

    Until a replica of a target serves, only the surge is tried with the target, and all other new replicas get the
    fallback revision that is known to work. Replicas whose node ends soon are replaced all at once.
    """
    later = replacement.leaving_later
    counted = len(replacement.staying) + len(later)
    tried_in_vain = any(replica.state is ReplicaState.BLOCKED for replica in replacement.staying)
    surge = context.spec.rollout.max_surge if later and not tried_in_vain else 0
    missing = max(0, context.desired + surge - counted)
    if context.halt is not None:
        return [replacement.growth] * missing
    new = min(missing, max(0, context.desired - len(replacement.staying)))
    if replacement.proven:
        return _new_revisions(context, replacement, new or _failbacks_to_begin(context, replacement))
    new = min(new, max(0, max(1, context.spec.rollout.max_surge) - len(replacement.staying)))
    old = min(missing - new, max(0, context.desired - counted - new))
    return _new_revisions(context, replacement, new) + [replacement.growth] * old


def _new_revisions(context: DecidedContext, replacement: Replacement, new: int) -> list[Revision]:
    """The target of each of `new` replicas. A shape with an earlier shortage is tried with one replica at a time."""
    next_target, reliable = context.variant_order.next_target, context.variant_order.reliable
    if next_target == reliable:
        return [next_target] * new
    tried = any(r.revision == next_target.hash and r.state is ReplicaState.LOADING for r in replacement.staying)
    first = 0 if tried else min(1, new)
    return [next_target] * first + [reliable] * (new - first)


def _failbacks_to_begin(context: DecidedContext, replacement: Replacement) -> int:
    """1 when a replica of a preferred shape is to be tried on top of the wanted count, else 0."""
    failback = failback_of(context, replacement)
    return int(failback is not None and variant_failback.may_begin(context, replacement, failback))


def _may_serve_instead(context: DecidedContext, replica: Replica, revision: Revision) -> bool:
    """Whether a draining replica may serve again in place of a new one: it has the same revision, or both revisions
    are targets, whatever their shapes."""
    hashes = context.variant_order.hashes
    return replica.revision == revision.hash or (revision.hash in hashes and replica.revision in hashes)


_REVOCABLE = (
    Reason.SCALE_DOWN,
    Reason.NOT_NEEDED,
    Reason.ROLLOUT,
    Reason.NODE_DRAIN,
    Reason.NODE_NOTICE,
    Reason.VARIANT_RETURN,
)
"""Reasons of drains that are cancelled when the replica is wanted again."""


def _cancellable(context: DecidedContext) -> list[Replica]:
    """Draining replicas that could serve again: those of the preferred shape first, then the latest drain."""
    able = [
        replica
        for replica in context.having(ReplicaState.DRAINING)
        if replica.drain_reason in _REVOCABLE
        and all(pod.ready for pod in replica.pods)
        and not context.must_leave(replica)
    ]
    return sorted(able, key=lambda replica: (context.rank(replica), -(replica.drain_started_at or 0.0), replica.name))


def _ordinals(context: DecidedContext, revision: Revision) -> Iterator[int]:
    every = (*context.replicas, *context.orphans)
    taken = {replica.ordinal for replica in every if replica.revision == revision.hash}
    return free_ordinals(context.service.key, context.service.uid, revision, context.taken_names, taken)


def _create(context: DecidedContext, revision: Revision, ordinal: int) -> Step:
    names = pod_names(context.service.key, context.service.uid, revision, ordinal)
    actions = tuple(CreatePod(revision, ordinal, rank, name, context.avoid_nodes) for rank, name in enumerate(names))
    event = None
    if revision.variant and revision.hash in context.variant_order.hashes:
        missed = context.variant_order.shortages_before(revision) or "new replicas use it now"
        event = normal(Reason.VARIANT_USED, f"{names[0]} uses the variant {revision.variant}; {missed}.")
    return Step(StepKind.CREATE, actions, gpus=revision.shape.gpus, subject=names[0], event=event)


def _complete(context: DecidedContext, replacement: Replacement) -> Iterator[Step]:
    """Create the missing pods of multi-pod replicas whose creation failed part-way. A replica whose processes run is
    never completed, because they would not accept a new rank."""
    for replica in replacement.live:
        revision = context.revisions.get(replica.revision)
        if revision is None or replica.state is not ReplicaState.LOADING:
            continue
        names = pod_names(context.service.key, context.service.uid, revision, replica.ordinal)
        present = {pod.rank for pod in replica.pods}
        lacking = [rank for rank in range(len(names)) if rank not in present]
        if lacking and not any(names[rank] in context.taken_names for rank in lacking):
            actions = tuple(
                CreatePod(revision, replica.ordinal, rank, names[rank], context.avoid_nodes) for rank in lacking
            )
            yield Step(StepKind.CREATE, actions, gpus=len(lacking) * revision.shape.gpus_per_pod, subject=names[0])
