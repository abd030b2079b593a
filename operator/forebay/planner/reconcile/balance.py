"""Balance: from the replicas that are to the replicas that are wanted.

Non-draining replicas never exceed maxReplicas, plus maxSurge while some of them have to be replaced. Capacity that is
needed goes only after what replaces it serves.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from forebay.api.reasons import Reason
from forebay.planner.decide.decided_context import DecidedContext
from forebay.planner.observe.replicas import Replica, ReplicaState
from forebay.planner.observe.variant_order import shown
from forebay.planner.reconcile import drain, variant_failback
from forebay.planner.reconcile.rollout import Replacement, lacks_spare, may_replace_without_spare, replacement_of
from forebay.planner.reconcile.steps import Step, StepKind, normal
from forebay.planner.reconcile.variant_failback import failback_of
from forebay.scaling.decision import count
from forebay.scaling.rules.stabilizer import largest_batch
from forebay.world.names import free_ordinals, pod_names
from forebay.world.plan import AdoptPod, CreatePod
from forebay.world.world import Revision


@dataclass(frozen=True, slots=True)
class Balance:
    steps: tuple[Step, ...] = ()
    waits: str = ""
    """Why a replacement stands still, as a sentence; empty when it moves or there is none."""


Grant = Callable[[Step], bool]
"""Whether the operator's own limits let a step be taken; what they refuse is as if it had not been asked for."""
Removals = list[tuple[Replica, Step]]


def balance(context: DecidedContext, ending: Mapping[str, Step], grant: Grant, may_create: bool) -> Balance:
    """`ending` are the replicas that end in this tick, by name."""
    live = [replica for replica in context.live if replica.name not in ending]
    adopted, steps = _adopt(context, live, grant)
    rest = replacement_of(context, (*live, *adopted))
    settled = {replica.name for replica in adopted}
    for remove in (_making_way, _superseded, _above_the_limit, _surplus, _replaced, _returned):
        chosen = [(r, step) for r, step in remove(context, rest) if r.name not in settled and grant(step)]
        steps += [step for _, step in chosen]
        rest = _without(rest, [replica for replica, _ in chosen])
    waits = ""
    moving = len(rest.live) < len(live) + len(adopted) or context.having(ReplicaState.DRAINING)
    if rest.leaving and not moving:
        in_place, waits = _without_spare(context, rest)
        chosen = [(r, step) for r, step in in_place if r.name not in settled and grant(step)]
        steps += [step for _, step in chosen]
        rest = _without(rest, [replica for replica, _ in chosen])
    steps += _grow(context, rest, ending, grant, may_create)
    return Balance(tuple(steps), waits)


def _removals(replicas: Sequence[Replica], reason: Reason, why: str) -> Removals:
    return [(replica, step) for replica in replicas for step in drain.remove(replica, reason, why)]


def _adopt(context: DecidedContext, live: Sequence[Replica], grant: Grant) -> tuple[list[Replica], list[Step]]:
    """Orphans that are needed serve on; the others are adopted as draining, so that their streams end well."""
    steps: list[Step] = []
    by_worth = sorted(
        (orphan for orphan in context.orphans if orphan.state in _ADOPTABLE),
        key=lambda r: (
            r.revision not in context.variant_order.hashes,
            context.rank(r),
            r.state is not ReplicaState.SERVING,
            r.ordinal,
            r.name,
        ),
    )
    adopted: list[Replica] = []
    for orphan in context.orphans:
        if orphan.reason is Reason.INCOMPLETE and any(_same(orphan, replica) for replica in context.replicas):
            # What is left of its replica is ours and ends as a whole; this pod is to end with it.
            actions = tuple(AdoptPod(pod.name, pod.uid, pod.resource_version) for pod in orphan.pods)
            steps.append(Step(StepKind.OTHER, actions))
    for orphan in by_worth:
        draining = orphan.state is ReplicaState.DRAINING
        needed = not draining and len(live) + len(adopted) < context.desired
        reason = None if needed or draining else Reason.NOT_NEEDED
        actions = tuple(AdoptPod(pod.name, pod.uid, pod.resource_version, reason) for pod in orphan.pods)
        fate = "it serves on" if needed else f"only {context.desired} are wanted, so it finishes its requests and goes"
        event = normal(Reason.REPLICA_ADOPTED, f"{orphan.name} had lost its owner and is adopted: {fate}.")
        step = Step(StepKind.OTHER if reason is None else StepKind.DRAIN, actions, subject=orphan.name, event=event)
        if grant(step):
            steps.append(step)
            adopted += [orphan] if needed else []
    return adopted, steps


def _same(one: Replica, other: Replica) -> bool:
    return (one.revision, one.ordinal) == (other.revision, other.ordinal)


_ADOPTABLE = (ReplicaState.LOADING, ReplicaState.SERVING, ReplicaState.BLOCKED, ReplicaState.DRAINING)


def _making_way(context: DecidedContext, rest: Replacement) -> Removals:
    """Replicas that could not be had, where one of another shape may be."""
    new = shown(context.variant_order.next_up.variant)
    return [
        pair
        for replica in rest.live
        if context.variant_order.makes_way(replica) and replica not in rest.failing
        for pair in _removals(
            [replica], Reason.NO_ROOM, f"{replica.message.rstrip('.')}; one of {new} is tried instead"
        )
    ]


def _superseded(context: DecidedContext, rest: Replacement) -> Removals:
    """Replicas that have not started and that nobody waits for any more."""
    useless = [
        replica
        for replica in rest.leaving
        if replica.state is ReplicaState.BLOCKED
        or (
            replica.state is ReplicaState.LOADING
            and (rest.proven or replica.revision != rest.growth.hash or context.must_leave(replica))
        )
    ]
    return _removals(useless, *_why_leaving(context, useless))


def _above_the_limit(context: DecidedContext, rest: Replacement) -> Removals:
    """At once, whatever the load: maxReplicas was lowered, or pods came by another way."""
    limits = context.limits
    above = len(rest.live) - limits.max_replicas - _surge(context, rest)
    if above <= 0:
        return []
    victims = _victims(context, rest)[:above]
    return _removals(victims, Reason.SCALE_DOWN, f"maxReplicas is {limits.max_replicas}")


def _surplus(context: DecidedContext, rest: Replacement) -> Removals:
    """Above what is wanted: everything that has not started, else one replica at a time, or a tenth of many."""
    failback = failback_of(context, rest)
    surge = context.spec.rollout.max_surge if rest.leaving else variant_failback.on_top(failback)
    surplus = len(rest.staying) + len(rest.leaving) - context.desired - surge
    if surplus <= 0:
        return []
    victims = _victims(context, rest)
    serving = [replica for replica in victims if replica.state is ReplicaState.SERVING]
    unstarted = [r for r in victims if r.state is not ReplicaState.SERVING and r not in rest.failing]
    if len(serving) > context.desired:
        # A serving one is surplus too; a replica that a rollout or a return is trying is not given up in its place.
        batch = min(len(serving) - context.desired, largest_batch(len(serving)))
        chosen = [] if context.having(ReplicaState.DRAINING) else serving[:batch]
        chosen = chosen if rest.leaving or failback or not unstarted else unstarted[:surplus]
    else:
        chosen = unstarted[:surplus]
    return _removals(
        chosen, Reason.SCALE_DOWN, f"{count(context.desired, 'replica')} wanted ({context.decision.because})"
    )


def _replaced(context: DecidedContext, rest: Replacement) -> Removals:
    """Leaving replicas that the service can spare, since others serve in their place."""
    if not rest.leaving:
        return []
    serving = [replica for replica in rest.live if replica.state is ReplicaState.SERVING]
    leaving = [replica for replica in _victims(context, rest) if replica in rest.leaving and replica in serving]
    spared = leaving[: max(0, len(serving) - context.desired)]
    return [pair for replica in spared for pair in _removals([replica], *_why_leaving(context, [replica]))]


def _returned(context: DecidedContext, rest: Replacement) -> Removals:
    """A replica of a less preferred shape that is not needed any more, since one of a preferred shape serves."""
    failback = failback_of(context, rest)
    if failback is None or not variant_failback.may_finish(context, rest, failback):
        return []
    return _removals([variant_failback.last_of(_victims(context, rest), failback)], Reason.VARIANT_RETURN, failback.why)


def _without_spare(context: DecidedContext, rest: Replacement) -> tuple[Removals, str]:
    """Replace in place when there is no room for one more replica, if the user and the load allow it."""
    lack = lacks_spare(context, rest.staying)
    if not lack or any(replica.state is ReplicaState.LOADING for replica in rest.staying):
        return [], ""
    serving = [replica for replica in rest.live if replica.state is ReplicaState.SERVING]
    leaving = [replica for replica in _victims(context, rest) if replica in rest.leaving and replica in serving]
    if not leaving or len(serving) < context.desired:
        return [], ""
    if may_replace_without_spare(context):
        reason, why = _why_leaving(context, leaving[:1])
        return _removals(leaving[:1], reason, f"{why}, in place because {lack}"), ""
    shape = context.variant_order.next_up.shape
    way_out = (
        f"Free {shape.gpus} × {shape.resource_name}" if context.spec.rollout.max_surge else "Raise rollout.maxSurge"
    )
    return [], (
        f"{count(len(leaving), 'replica')} cannot be replaced: {lack}, and all {len(serving)} that serve are needed. "
        f"{way_out}, or set rollout.whenNoSpare: Replace."
    )


def _why_leaving(context: DecidedContext, replicas: Sequence[Replica]) -> tuple[Reason, str]:
    nodes = sorted(node for replica in replicas for node in replica.nodes & context.cordoned)
    if nodes:
        return Reason.NODE_DRAIN, f"node {nodes[0]} is cordoned or about to be removed"
    return Reason.ROLLOUT, f"revision {context.variant_order.next_up.hash} replaces it"


def _victims(context: DecidedContext, rest: Replacement) -> list[Replica]:
    """In the order in which replicas go: what failed, what has to leave, what has not started, what is of a variant
    that is less preferred, what is least busy."""
    unstarted = {ReplicaState.BLOCKED: 0, ReplicaState.LOADING: 1, ReplicaState.SERVING: 2}
    return sorted(
        rest.live,
        key=lambda r: (
            r not in rest.failing,
            r not in rest.leaving,
            unstarted[r.state],
            -context.rank(r),
            drain.order_of_leaving(r),
        ),
    )


def _surge(context: DecidedContext, rest: Replacement) -> int:
    if rest.leaving or rest.failing:
        return context.spec.rollout.max_surge
    return variant_failback.surge_of(failback_of(context, rest), context)


def _without(rest: Replacement, removed: Sequence[Replica]) -> Replacement:
    if not removed:
        return rest
    names = {replica.name for replica in removed}
    return replace(
        rest,
        staying=tuple(replica for replica in rest.staying if replica.name not in names),
        leaving=tuple(replica for replica in rest.leaving if replica.name not in names),
        failing=tuple(replica for replica in rest.failing if replica.name not in names),
    )


def _grow(
    context: DecidedContext, rest: Replacement, ending: Mapping[str, Step], grant: Grant, may_create: bool
) -> list[Step]:
    """What is missing: drains are taken back before anything is created."""
    missing = _missing(context, rest)
    still_there = sum(replica.name not in ending for replica in context.having(ReplicaState.LOST))
    room = context.limits.max_replicas + _surge(context, rest) - len(rest.live) - still_there
    steps: list[Step] = []
    if missing and len(missing) > room and rest.failing:
        # The place of a failing replica is needed; there is a tick between its end and what comes instead.
        spared = rest.failing[: len(missing) - max(0, room)]
        steps += [step for _, step in _removals(spared, Reason.ROLLOUT, "its place is needed")]
    cancellable = [replica for replica in _cancellable(context) if replica.name not in ending]
    ordinals: dict[str, Iterator[int]] = {}
    for revision in missing[: max(0, room)]:
        again = next((replica for replica in cancellable if _as_good(context, replica, revision)), None)
        if again is not None:
            cancellable.remove(again)
            steps.append(drain.cancel(again, f"{count(context.desired, 'replica')} wanted again"))
        elif may_create:
            if revision.hash not in ordinals:
                ordinals[revision.hash] = _ordinals(context, revision)
            step = _create(context, revision, next(ordinals[revision.hash]))
            steps += [step] if grant(step) else []
    # One that is surplus is not completed; there is a tick between what can be told of it and its end.
    return steps + [step for step in _complete(context, rest) if may_create and room >= 0 and grant(step)]


def _missing(context: DecidedContext, rest: Replacement) -> list[Revision]:
    """The revision of each replica that is to be created.

    While the target has not proved itself, only the surge is tried with it, and the rest grows with what is known to
    work.
    """
    counted = len(rest.staying) + len(rest.leaving)
    tried_in_vain = any(replica.state is ReplicaState.BLOCKED for replica in rest.staying)
    surge = context.spec.rollout.max_surge if rest.leaving and not tried_in_vain else 0
    missing = max(0, context.desired + surge - counted)
    if context.halt is not None:
        return [rest.growth] * missing
    new = min(missing, max(0, context.desired - len(rest.staying)))
    if rest.proven:
        return _shapes(context, rest, new or _to_return(context, rest))
    new = min(new, max(0, max(1, context.spec.rollout.max_surge) - len(rest.staying)))
    old = min(missing - new, max(0, context.desired - counted - new))
    return _shapes(context, rest, new) + [rest.growth] * old


def _shapes(context: DecidedContext, rest: Replacement, new: int) -> list[Revision]:
    """Of each replica that is to be created. A shape that could not be had before is tried with one at a time."""
    next_up, sure = context.variant_order.next_up, context.variant_order.sure
    if next_up == sure:
        return [next_up] * new
    tried = any(r.revision == next_up.hash and r.state is ReplicaState.LOADING for r in rest.staying)
    first = 0 if tried else min(1, new)
    return [next_up] * first + [sure] * (new - first)


def _to_return(context: DecidedContext, rest: Replacement) -> int:
    """1 when a replica of a preferred shape is to be tried on top."""
    failback = failback_of(context, rest)
    return int(failback is not None and variant_failback.may_begin(context, rest, failback))


def _as_good(context: DecidedContext, replica: Replica, revision: Revision) -> bool:
    """Whether a draining replica may serve again instead of a new one of the revision: of whichever shape, if it is
    what replicas should be now."""
    hashes = context.variant_order.hashes
    return replica.revision == revision.hash or (revision.hash in hashes and replica.revision in hashes)


_REVOCABLE = (Reason.SCALE_DOWN, Reason.NOT_NEEDED, Reason.ROLLOUT, Reason.NODE_DRAIN, Reason.VARIANT_RETURN)
"""Why a drain was begun that is taken back when the replica is wanted again."""


def _cancellable(context: DecidedContext) -> list[Replica]:
    """Draining replicas that could serve again: of the preferred shape first, then the newest drain."""
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
        missed = context.variant_order.missed(revision) or "it is what replicas are of now"
        event = normal(Reason.VARIANT_USED, f"{names[0]} is of the variant {revision.variant}; {missed}.")
    return Step(StepKind.CREATE, actions, gpus=revision.shape.gpus, subject=names[0], event=event)


def _complete(context: DecidedContext, rest: Replacement) -> Iterator[Step]:
    """Pods that a replica of several still lacks, because their creation failed half-way; one that has begun to run is
    never completed, since its processes would not take a newcomer in."""
    for replica in rest.live:
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
