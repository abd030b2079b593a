"""Balance: the steps from the existing replicas to the wanted ones.

Non-draining replicas never exceed maxReplicas, plus maxSurge while some of them have to be replaced. Needed capacity is
removed only after its replacement serves.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from forebay.api.instants import rfc3339
from forebay.api.reasons import Reason
from forebay.planner.decide.decided_context import DecidedContext
from forebay.planner.observe.replicas import Replica, ReplicaState
from forebay.planner.observe.variant_order import variant_label
from forebay.planner.reconcile import drain, notices, variant_failback
from forebay.planner.reconcile.growth import Grant, allowed_surge, grow
from forebay.planner.reconcile.rollout import Replacement, lacks_spare, may_replace_without_spare, replacement_of
from forebay.planner.reconcile.steps import Step, StepKind, normal
from forebay.planner.reconcile.variant_failback import failback_of
from forebay.scaling.decision import count
from forebay.scaling.rules.stabilizer import largest_batch
from forebay.world.plan import AdoptPod


@dataclass(frozen=True, slots=True)
class Balance:
    steps: tuple[Step, ...] = ()
    waits: str = ""
    """Why the replacement of replicas waits, as a sentence; empty when it proceeds or there is nothing to replace."""


Removals = list[tuple[Replica, Step]]


def balance(context: DecidedContext, terminating: Mapping[str, Step], grant: Grant, may_create: bool) -> Balance:
    """The steps for one service. `terminating` are the steps of the replicas that end in this tick, by replica name."""
    live = [replica for replica in context.live if replica.name not in terminating]
    adopted, steps = _adopt(context, live, grant)
    replacement = replacement_of(context, (*live, *adopted))
    settled = {replica.name for replica in adopted}
    for remove in (
        _replaced_by_another_shape,
        _superseded,
        _ending,
        _above_the_limit,
        _surplus,
        _replaced,
        _failed_back,
    ):
        chosen = [(r, step) for r, step in remove(context, replacement) if r.name not in settled and grant(step)]
        steps += [step for _, step in chosen]
        replacement = _without(replacement, [replica for replica, _ in chosen])
    waits = ""
    moving = len(replacement.live) < len(live) + len(adopted) or context.having(ReplicaState.DRAINING)
    if replacement.leaving and not moving:
        in_place, waits = _without_spare(context, replacement)
        chosen = [(r, step) for r, step in in_place if r.name not in settled and grant(step)]
        steps += [step for _, step in chosen]
        replacement = _without(replacement, [replica for replica, _ in chosen])
    steps += grow(context, replacement, terminating, grant, may_create)
    return Balance(tuple(steps), waits)


def _removals(replicas: Sequence[Replica], reason: Reason, why: str) -> Removals:
    return [(replica, step) for replica in replicas for step in drain.remove(replica, reason, why)]


def _adopt(context: DecidedContext, live: Sequence[Replica], grant: Grant) -> tuple[list[Replica], list[Step]]:
    """Adopt orphans. Needed ones continue to serve; the others start to drain, so that their streams finish."""
    steps: list[Step] = []
    by_preference = sorted(
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
        if orphan.reason is Reason.INCOMPLETE and any(_same_replica(orphan, replica) for replica in context.replicas):
            # The service owns the other pods of this replica and ends them together; this pod has to end with them.
            actions = tuple(AdoptPod(pod.name, pod.uid, pod.resource_version) for pod in orphan.pods)
            steps.append(Step(StepKind.OTHER, actions))
    for orphan in by_preference:
        draining = orphan.state is ReplicaState.DRAINING
        needed = not draining and len(live) + len(adopted) < context.desired
        reason = None if needed or draining else Reason.NOT_NEEDED
        actions = tuple(AdoptPod(pod.name, pod.uid, pod.resource_version, reason) for pod in orphan.pods)
        outcome = "it keeps serving" if needed else f"the service needs only {context.desired}, so it drains"
        event = normal(Reason.REPLICA_ADOPTED, f"{orphan.name} had no owner and is adopted: {outcome}.")
        step = Step(StepKind.OTHER if reason is None else StepKind.DRAIN, actions, subject=orphan.name, event=event)
        if grant(step):
            steps.append(step)
            adopted += [orphan] if needed else []
    return adopted, steps


def _same_replica(replica: Replica, other: Replica) -> bool:
    return (replica.revision, replica.ordinal) == (other.revision, other.ordinal)


_ADOPTABLE = (ReplicaState.LOADING, ReplicaState.SERVING, ReplicaState.BLOCKED, ReplicaState.DRAINING)


def _replaced_by_another_shape(context: DecidedContext, replacement: Replacement) -> Removals:
    """Replicas that could not start, when another shape may be tried in their place."""
    new = variant_label(context.variant_order.next_target.variant)
    return [
        pair
        for replica in replacement.live
        if context.variant_order.has_alternative(replica) and replica not in replacement.failing
        for pair in _removals(
            [replica], Reason.NO_ROOM, f"{replica.message.rstrip('.')}; a replica of {new} is tried instead"
        )
    ]


def _superseded(context: DecidedContext, replacement: Replacement) -> Removals:
    """Leaving replicas that have not started and are no longer wanted."""
    useless = [
        replica
        for replica in replacement.leaving
        if replica.state is ReplicaState.BLOCKED
        or (
            replica.state is ReplicaState.LOADING
            and (replacement.proven or replica.revision != replacement.growth.hash or context.must_leave(replica))
        )
    ]
    return _departures(context, useless)


def _ending(context: DecidedContext, replacement: Replacement) -> Removals:
    """Replicas whose node ends soon, when the rest of its time is what their requests take."""
    return _departures(
        context,
        [
            replica
            for replica in replacement.ending
            if replica.state is ReplicaState.SERVING
            and (ends_at := context.ends_at(replica)) is not None
            and context.now >= notices.latest_start(context, ends_at)
        ],
    )


def _above_the_limit(context: DecidedContext, replacement: Replacement) -> Removals:
    """Replicas above maxReplicas, removed at once whatever the load: maxReplicas was lowered, or pods came from
    elsewhere."""
    limits = context.limits
    above = len(replacement.lasting) - limits.max_replicas - allowed_surge(context, replacement)
    if above <= 0:
        return []
    victims = _victims(context, replacement)[:above]
    return _removals(victims, Reason.SCALE_DOWN, f"maxReplicas is {limits.max_replicas}")


def _surplus(context: DecidedContext, replacement: Replacement) -> Removals:
    """Replicas above the wanted count: all that have not started, else one serving replica at a time, or a tenth of
    many."""
    failback = failback_of(context, replacement)
    later = replacement.leaving_later
    surge = context.spec.rollout.max_surge if later else variant_failback.extra_replicas(failback)
    surplus = len(replacement.staying) + len(later) - context.desired - surge
    if surplus <= 0:
        return []
    victims = _victims(context, replacement)
    serving = [replica for replica in victims if replica.state is ReplicaState.SERVING]
    unstarted = [r for r in victims if r.state is not ReplicaState.SERVING and r not in replacement.failing]
    if len(serving) > context.desired:
        # Some serving replicas are surplus too. They go first when a rollout or a failback tries an unstarted replica.
        batch = min(len(serving) - context.desired, largest_batch(len(serving)))
        chosen = [] if context.having(ReplicaState.DRAINING) else serving[:batch]
        chosen = chosen if replacement.leaving or failback or not unstarted else unstarted[:surplus]
    else:
        chosen = unstarted[:surplus]
    return _removals(
        chosen, Reason.SCALE_DOWN, f"{count(context.desired, 'replica')} wanted ({context.decision.because})"
    )


def _replaced(context: DecidedContext, replacement: Replacement) -> Removals:
    """Leaving replicas that the service no longer needs, because others serve in their place."""
    if not replacement.leaving:
        return []
    serving = [replica for replica in replacement.live if replica.state is ReplicaState.SERVING]
    leaving = [
        replica for replica in _victims(context, replacement) if replica in replacement.leaving and replica in serving
    ]
    spared = leaving[: max(0, len(serving) - context.desired)]
    return _departures(context, spared)


def _failed_back(context: DecidedContext, replacement: Replacement) -> Removals:
    """A replica of a less preferred shape that is no longer needed, because one of a preferred shape serves."""
    failback = failback_of(context, replacement)
    if failback is None or not variant_failback.may_finish(context, replacement, failback):
        return []
    return _removals(
        [variant_failback.next_victim(_victims(context, replacement), failback)], Reason.VARIANT_RETURN, failback.why
    )


def _without_spare(context: DecidedContext, replacement: Replacement) -> tuple[Removals, str]:
    """Replace in place when there is no capacity for a surge replica, if rollout.whenNoSpare and the load allow it.

    Returns the removals, and why the replacement waits when they are not allowed.
    """
    lack = lacks_spare(context, replacement.staying)
    if not lack or any(replica.state is ReplicaState.LOADING for replica in replacement.staying):
        return [], ""
    serving = [replica for replica in replacement.live if replica.state is ReplicaState.SERVING]
    leaving = [
        replica for replica in _victims(context, replacement) if replica in replacement.leaving and replica in serving
    ]
    if not leaving or len(serving) < context.desired:
        return [], ""
    if may_replace_without_spare(context):
        return _departures(context, leaving[:1], f", in place because {lack}"), ""
    shape = context.variant_order.next_target.shape
    remedy = (
        f"Free {shape.gpus} × {shape.resource_name}" if context.spec.rollout.max_surge else "Raise rollout.maxSurge"
    )
    return [], (
        f"{count(len(leaving), 'replica')} cannot be replaced: {lack}, and all {len(serving)} serving ones are needed. "
        f"{remedy}, or set rollout.whenNoSpare: Replace."
    )


def _departures(context: DecidedContext, replicas: Sequence[Replica], detail: str = "") -> Removals:
    """Removals of leaving replicas. Those whose node ends soon are not charged to the limit of drains, because they end
    with the node in any case."""
    removals: Removals = []
    for replica in replicas:
        reason, why = _why_leaving(context, replica)
        charged = context.ends_at(replica) is None
        removals += [
            (replica, replace(step, charged=charged)) for step in drain.remove(replica, reason, f"{why}{detail}")
        ]
    return removals


def _why_leaving(context: DecidedContext, replica: Replica) -> tuple[Reason, str]:
    ends_at = context.ends_at(replica)
    if ends_at is not None:
        node = min(replica.nodes & context.notices.keys())
        return Reason.NODE_NOTICE, f"node {node} has a spot or maintenance notice and ends by {rfc3339(ends_at)}"
    nodes = sorted(replica.nodes & context.cordoned)
    if nodes:
        return Reason.NODE_DRAIN, f"node {nodes[0]} is cordoned or about to be removed"
    return Reason.ROLLOUT, f"revision {context.variant_order.next_target.hash} replaces it"


def _victims(context: DecidedContext, replacement: Replacement) -> list[Replica]:
    """Live replicas in the order in which they are removed: failed ones, leaving ones, unstarted ones, those of less
    preferred variants, and then the least busy ones."""
    unstarted = {ReplicaState.BLOCKED: 0, ReplicaState.LOADING: 1, ReplicaState.SERVING: 2}
    return sorted(
        replacement.live,
        key=lambda r: (
            r not in replacement.failing,
            r not in replacement.leaving,
            unstarted[r.state],
            -context.rank(r),
            drain.order_of_leaving(r),
        ),
    )


def _without(replacement: Replacement, removed: Sequence[Replica]) -> Replacement:
    if not removed:
        return replacement
    names = {replica.name for replica in removed}
    return replace(
        replacement,
        staying=tuple(replica for replica in replacement.staying if replica.name not in names),
        leaving=tuple(replica for replica in replacement.leaving if replica.name not in names),
        ending=tuple(replica for replica in replacement.ending if replica.name not in names),
        failing=tuple(replica for replica in replacement.failing if replica.name not in names),
        suspects=tuple(replica for replica in replacement.suspects if replica.name not in names),
    )
