"""Conditions: five questions about the state of a service, each answered by a whole sentence.

All have positive polarity: True is good. The transition time of a condition changes only when its status changes.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from forebay.api.inference_service import Condition, ScalingMode
from forebay.api.instants import rfc3339
from forebay.api.reasons import Reason
from forebay.planner.decide.decided_context import DecidedContext
from forebay.planner.observe.replicas import ReplicaState
from forebay.planner.reconcile.placeholders import PlaceholderCounts, placeholder_counts_of, wanted_placeholders_of
from forebay.planner.reconcile.reconcile_outcome import ServiceOutcome
from forebay.planner.reconcile.rollout import replacement_of
from forebay.scaling.decision import count, seconds
from forebay.scaling.load.freshness import Freshness
from forebay.scaling.rules.stabilizer import fewest_for

READY: Final = "Ready"
PLANNED: Final = "Planned"
METRICS_FRESH: Final = "MetricsFresh"
WARM: Final = "Warm"
UP_TO_DATE: Final = "UpToDate"


@dataclass(frozen=True, slots=True)
class ConditionAnswer:
    status: str
    """True, False or Unknown."""
    reason: Reason
    message: str


def ready(outcome: ServiceOutcome) -> ConditionAnswer:
    """Whether the service answers, with at least minReplicas. A service that is scaled to zero is ready as asked."""
    context = outcome.context
    if context.desired == 0:
        return ConditionAnswer("True", Reason.SCALED_TO_ZERO, _at_zero(outcome))
    serving = len(outcome.replicas(ReplicaState.SERVING))
    fewest = min(max(1, context.limits.min_replicas), context.desired)
    text = f"{serving} of {count(context.desired, 'replica')} serve"
    silent = [silent for silent in context.load.silent if silent.freshness is Freshness.LOST]
    if serving and len(silent) == serving:
        return ConditionAnswer(
            "False", Reason.METRICS_LOST, f"{text}, but none reports metrics, so the load is unknown."
        )
    stalled = [replica for replica in context.live if replica.reason == Reason.STALLED]
    if len(stalled) == len(context.live) > 1:
        return ConditionAnswer(
            "False",
            Reason.STALLED,
            f"All {len(stalled)} replicas have requests, but none makes a step: either every engine hangs, or their "
            "metrics are stuck. Nothing is replaced or scaled down until one of them makes a step.",
        )
    details = _rest(outcome)
    if serving >= fewest:
        reason = Reason.SERVING if serving >= context.desired else Reason.SCALING_UP
        return ConditionAnswer(
            "True", reason, f"{text}{'; ' + details if details and serving < context.desired else ''}".rstrip(".") + "."
        )
    return ConditionAnswer("False", _why_not(outcome), f"{text}{'; ' + details if details else ''}".rstrip(".") + ".")


def planned(outcome: ServiceOutcome) -> ConditionAnswer:
    """Whether the spec describes something that can run."""
    shape = outcome.context.target.shape
    content = f"{count(shape.pods, 'pod')} with {shape.gpus_per_pod} × {shape.resource_name}"
    limits = outcome.context.limits
    bounds = f"{limits.min_replicas} to {limits.max_replicas} replicas of {content}"
    if limits.min_replicas + limits.warm_replicas > limits.max_replicas:
        bounds += (
            f"; minReplicas {limits.min_replicas} and warmPool.replicas {limits.warm_replicas} do not fit under "
            f"maxReplicas {limits.max_replicas}"
        )
    message = f"Revision {outcome.context.target.hash}, {bounds}."
    warnings = outcome.context.service.warnings
    if not warnings:
        return ConditionAnswer("True", Reason.PLANNED, message)
    return ConditionAnswer("True", warnings[0].reason, " ".join((message, *(warning.message for warning in warnings))))


def metrics_fresh(outcome: ServiceOutcome) -> ConditionAnswer:
    """Whether the load of every serving replica is known."""
    load = outcome.context.load
    if load.replicas == 0 and outcome.context.desired == 0:
        return ConditionAnswer("True", Reason.SCALED_TO_ZERO, "No replica is wanted, so no metrics are expected.")
    if load.replicas == 0:
        return ConditionAnswer(
            "Unknown", Reason.NOTHING_SERVES, "No replica is known to serve, so there are no metrics."
        )
    silent = [silent for silent in load.silent if not silent.new]
    if silent:
        worst = max(silent, key=lambda silent: (silent.freshness is Freshness.LOST, -silent.since, silent.pod))
        others = f" and {len(silent) - 1} more" if len(silent) > 1 else ""
        why = f": {worst.error}" if worst.error else ""
        return ConditionAnswer(
            "False",
            Reason.METRICS_LOST if load.freshness is Freshness.LOST else Reason.METRICS_STALE,
            f"{worst.pod}{others} {'have' if others else 'has'} reported no usable metrics since "
            f"{rfc3339(worst.since)}{why}. Nothing is scaled down until metrics are back.",
        )
    if load.missing:
        pod, series = load.missing[0]
        return ConditionAnswer(
            "False",
            Reason.SERIES_MISSING,
            f"{pod} does not export {', '.join(series)}, which its engine version should; "
            "check spec.engine.version against the image. The rules that need them do not act.",
        )
    if load.distrusted:
        pod, why = load.distrusted[0]
        others = f" and {len(load.distrusted) - 1} more" if len(load.distrusted) > 1 else ""
        return ConditionAnswer(
            "False",
            Reason.COUNTERS_IMPLAUSIBLE,
            f"The counters of {pod}{others} are not used: {why}. Arrivals are estimated from the other replicas or "
            "held at the last known rate.",
        )
    return ConditionAnswer("True", Reason.FRESH, f"All {load.replicas} serving replicas report metrics.")


def warm(outcome: ServiceOutcome) -> ConditionAnswer:
    """Whether the requested warm replicas and placeholders exist."""
    spare, placeholders = _spare(outcome), _held_places(outcome)
    if placeholders is None:
        return spare
    if spare.reason == Reason.NOT_ASKED:
        return placeholders
    worse = spare if spare.status != "True" else placeholders
    return ConditionAnswer(worse.status, worse.reason, f"{spare.message} {placeholders.message}")


def _held_places(outcome: ServiceOutcome) -> ConditionAnswer | None:
    """The answer for placeholders; None when the spec asks for none."""
    wanted = wanted_placeholders_of(outcome.context)
    if wanted is None or wanted.count == 0:
        return None
    return held_places(placeholder_counts_of(wanted), outcome.context.memory.placeholders_held_back)


def held_places(counts: PlaceholderCounts, held_back: str) -> ConditionAnswer:
    """Whether all wanted placeholders are ready. A pending one is not a fault: running pods use its GPUs."""
    text = f"{counts.ready} of {count(counts.wanted, 'placeholder')} {'is' if counts.ready == 1 else 'are'} ready"
    if counts.ready >= counts.wanted:
        return ConditionAnswer("True", Reason.WARM, f"{text}.")
    if held_back:
        return ConditionAnswer("False", Reason.PLACEHOLDERS_HELD_BACK, f"{text}; {held_back}.")
    stuck = next((pod for pod in counts.waiting if pod.blocked), None)
    why = f"; {stuck.name} waits ({stuck.blocked}): {stuck.blocked_message}".rstrip(": .") if stuck else ""
    return ConditionAnswer("False", Reason.PLACEHOLDERS_PENDING, f"{text}{why}.")


def _spare(outcome: ServiceOutcome) -> ConditionAnswer:
    """Whether the requested warm replicas exist on top of what the load needs."""
    context = outcome.context
    asked = context.limits.warm_replicas
    if asked == 0:
        return ConditionAnswer("True", Reason.NOT_ASKED, "No warm replicas are requested (warmPool.replicas is 0).")
    spare = warm_replicas(outcome)
    if spare is None:
        return ConditionAnswer(
            "Unknown", Reason.LOAD_UNKNOWN, "The load is unknown, so it is unknown which replicas are spare."
        )
    text = f"{spare} of {count(asked, 'warm replica')} {'is' if spare == 1 else 'are'} spare"
    if spare >= asked:
        return ConditionAnswer("True", Reason.WARM, f"{text}.")
    if context.desired >= context.limits.max_replicas:
        return ConditionAnswer(
            "False", Reason.MAX_REPLICAS, f"{text}; maxReplicas ({context.limits.max_replicas}) allows no more."
        )
    if len(outcome.replicas(ReplicaState.SERVING)) < context.desired:
        return ConditionAnswer("False", Reason.LOADING, f"{text}; others are loading.")
    return ConditionAnswer("False", Reason.IN_USE, f"{text}; the load uses the others.")


def up_to_date(outcome: ServiceOutcome) -> ConditionAnswer:
    """Whether every replica is of a target revision and on a node that stays."""
    context = outcome.context
    target, halt, hashes = context.target, context.halt, context.variant_order.hashes
    others = [r for r in context.live if r.revision not in hashes]
    if halt is not None:
        return ConditionAnswer(
            "False",
            Reason.ROLLOUT_FAILED,
            f"The rollout of revision {halt.revision} is halted: {halt.why} {count(len(others), 'replica')} of the old "
            f"revision {'keeps' if len(others) == 1 else 'keep'} serving. Correct the spec, or set the annotation "
            "forebay.dev/restarted-at to try again.",
        )
    leaving = replacement_of(context, context.live).leaving
    if outcome.balance.waits:
        return ConditionAnswer("False", Reason.WAITING_FOR_SPARE, outcome.balance.waits)
    if others:
        done = len(context.live) - len(others)
        return ConditionAnswer(
            "False", Reason.ROLLING_OUT, f"{done} of {context.desired} replicas run revision {_names(context)}."
        )
    if leaving:
        nodes = sorted({node for replica in leaving for node in replica.nodes & context.cordoned})
        return ConditionAnswer(
            "False", Reason.LEAVING_NODES, f"{count(len(leaving), 'replica')} must leave cordoned nodes: {nodes[0]}."
        )
    if any(choice.update_available for choice in context.variant_order.choices[:1]):
        return ConditionAnswer(
            "False",
            Reason.UPDATE_AVAILABLE,
            f"This operator would build the pods differently than revision {target.hash}. They are left alone until a "
            "field that affects pods changes or the annotation forebay.dev/restarted-at is set.",
        )
    if not context.live:
        return ConditionAnswer(
            "True", Reason.UP_TO_DATE, f"No replica runs; the next one will run revision {target.hash}."
        )
    return ConditionAnswer("True", Reason.UP_TO_DATE, f"All replicas run revision {_names(context)}.")


def _names(context: DecidedContext) -> str:
    """The target revisions that replicas have, or the first target without any replica."""
    used = {replica.revision for replica in context.live}
    named = [target for target in context.variant_order.targets if target.hash in used] or [context.target]
    return " or ".join(f"{target.hash} ({target.variant})" if target.variant else target.hash for target in named)


ANSWERS: Final[tuple[tuple[str, Callable[[ServiceOutcome], ConditionAnswer]], ...]] = (
    (READY, ready),
    (PLANNED, planned),
    (METRICS_FRESH, metrics_fresh),
    (WARM, warm),
    (UP_TO_DATE, up_to_date),
)


def conditions(
    answers: Iterable[tuple[str, ConditionAnswer]], before: Iterable[Condition], generation: int, now: float
) -> tuple[Condition, ...]:
    """The answers as conditions. A transition time is kept as long as the status stays the same."""
    earlier = {condition.type: condition for condition in before}
    return tuple(_condition(kind, answer, earlier.get(kind), generation, now) for kind, answer in answers)


def _condition(kind: str, answer: ConditionAnswer, before: Condition | None, generation: int, now: float) -> Condition:
    if before is not None and (before.reason, before.message, before.status, before.observed_generation) == (
        answer.reason,
        answer.message,
        answer.status,
        generation,
    ):
        return before
    since = before.last_transition_time if before is not None and before.status == answer.status else rfc3339(now)
    return Condition(
        type=kind,
        status=answer.status,
        reason=answer.reason,
        message=answer.message,
        last_transition_time=since,
        observed_generation=generation,
    )


def warm_replicas(outcome: ServiceOutcome) -> int | None:
    """How many of the requested warm replicas the load leaves unused; None while the load is unknown."""
    context = outcome.context
    needed = fewest_for(context.load, context.limits)
    if needed is None:
        return None
    spare = context.load.replicas - max(needed, context.decision.needed)
    return max(0, min(context.limits.warm_replicas, spare))


def _at_zero(outcome: ServiceOutcome) -> str:
    context = outcome.context
    leaving = len(outcome.replicas(ReplicaState.SERVING, ReplicaState.DRAINING))
    runs = f"{count(leaving, 'replica')} {'is' if leaving == 1 else 'are'} draining" if leaving else "No replica runs"
    after_seconds, key = context.limits.to_zero_after_seconds, context.service.key
    why = "" if after_seconds is None else f": no request arrived for scaleToZeroAfter ({seconds(after_seconds)})"
    return f"{runs}{why}. `forebay wake {key.name} -n {key.namespace}` starts one."


def _rest(outcome: ServiceOutcome) -> str:
    """What the replicas that do not serve are doing, as clauses joined by semicolons."""
    loading = outcome.replicas(ReplicaState.LOADING)
    stuck = outcome.replicas(ReplicaState.BLOCKED)
    clauses = []
    if loading:
        clauses.append(f"{len(loading)} loading")
    if stuck:
        more = f" (and {len(stuck) - 1} more)" if len(stuck) > 1 else ""
        clauses.append(f"{stuck[0].message.rstrip('.')}{more}")
    if outcome.held_back:
        clauses.append(outcome.held_back)
    if outcome.context.spec.scaling.mode is ScalingMode.PAUSED:
        clauses.append("scaling.mode is Paused, so none is created")
    return "; ".join(clauses)


def _why_not(outcome: ServiceOutcome) -> Reason:
    """The most serious reason why too few replicas serve."""
    stuck = outcome.replicas(ReplicaState.BLOCKED)
    loading = outcome.replicas(ReplicaState.LOADING)
    if outcome.context.spec.scaling.mode is ScalingMode.PAUSED and not loading:
        return Reason.PAUSED
    if stuck:
        return stuck[0].failure_reason
    if outcome.quota_hold is not None and not loading:
        return Reason.QUOTA_EXCEEDED
    return Reason.HELD_BACK if outcome.held_back and not loading else Reason.LOADING
