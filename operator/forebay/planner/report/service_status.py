"""The status of a service that people and other controllers read, and when it has to be written."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from forebay.api.inference_service import (
    Condition,
    InferenceServiceStatus,
    LoadStatus,
    ReplicaStatus,
)
from forebay.api.instants import rfc3339
from forebay.api.reasons import Reason
from forebay.api.status import CapacityStatus, ScaledToZeroStatus
from forebay.capacity.model.profile_choice import Basis
from forebay.planner.decide.decided_context import DecidedContext
from forebay.planner.decide.wake_request import answered_wake
from forebay.planner.observe.replicas import Replica, ReplicaState
from forebay.planner.reconcile.reconcile_outcome import ServiceOutcome
from forebay.planner.report.conditions import (
    ANSWERS,
    PLANNED,
    READY,
    ConditionAnswer,
    conditions,
    warm_replicas,
)
from forebay.planner.report.decision_record import decision_status, past_decisions
from forebay.planner.report.schedule_status import schedule_statuses
from forebay.planner.report.variant_status import variant_statuses
from forebay.scaling.decision import count as number_of
from forebay.scaling.load.service_load import ServiceLoad
from forebay.world.world import ServiceKey, ServiceView, SpecProblem

TELEMETRY_SECONDS: Final = 30.0
"""Numbers that move with the load are written at most this often."""
TELEMETRY_PER_SECOND: Final = 10.0
"""How many statuses are written in a second, on average, only to show telemetry: each is a write to etcd. It takes more
than 300 services under load to reach it; the readings of a larger fleet are written less often."""


def status_of(outcome: ServiceOutcome, before: InferenceServiceStatus, now: float) -> InferenceServiceStatus:
    context = outcome.context
    generation = context.service.generation
    answers = [(kind, answer(outcome)) for kind, answer in ANSWERS]
    return InferenceServiceStatus(
        observed_generation=generation,
        conditions=conditions(answers, before.conditions, generation, now),
        url=url_of(context.service.key),
        replicas=ReplicaStatus(
            desired=context.desired,
            ready=len(outcome.replicas(ReplicaState.SERVING)),
            loading=len(outcome.replicas(ReplicaState.LOADING)),
            draining=len(outcome.replicas(ReplicaState.DRAINING)),
            warm=warm_replicas(outcome) or 0,
        ),
        variants=variant_statuses(context),
        scaled_to_zero=scaled_to_zero_status(context, before, now),
        load=load_status(context.load),
        plan=context.service.plan,
        capacity=capacity_now(context),
        decision=decision_status(outcome),
        decisions=past_decisions(before.decisions, outcome, now),
        learned=None if context.memory.learned is None else context.memory.learned.published,
        schedules=schedule_statuses(outcome, before.schedules),
    )


def scaled_to_zero_status(
    context: DecidedContext, before: InferenceServiceStatus, now: float
) -> ScaledToZeroStatus | None:
    """Since when the service has been at zero, and the wake request answered by then; None above zero.

    It stays as it was when the last replica was removed, so a later wake request counts as new.
    """
    if context.desired > 0:
        return None
    return before.scaled_to_zero or ScaledToZeroStatus(
        since=rfc3339(now), answered_wake=answered_wake(context.service, now)
    )


def unplanned_status(
    service: ServiceView,
    problems: Sequence[SpecProblem],
    before: InferenceServiceStatus,
    now: float,
    replicas: Sequence[Replica] | None = None,
) -> InferenceServiceStatus:
    """The status of a service that cannot be planned: why not, and what still serves. Fields that are no longer known
    keep their old values."""
    message = " ".join(problem.message for problem in problems)
    answers = [(PLANNED, ConditionAnswer("False", problems[0].reason, message))]
    count = before.replicas
    if replicas is not None:
        states = Counter(replica.state for replica in replicas)
        count = ReplicaStatus(
            desired=before.replicas.desired,
            ready=states[ReplicaState.SERVING],
            loading=states[ReplicaState.LOADING],
            draining=states[ReplicaState.DRAINING],
        )
        answers.append((READY, _ready_unplanned(states[ReplicaState.SERVING], problems[0])))
    answered = conditions(answers, before.conditions, service.generation, now)
    kept = tuple(c for c in before.conditions if c.type not in {kind for kind, _ in answers})
    return before.model_copy(
        update={
            "observed_generation": service.generation,
            "conditions": _in_order((*kept, *answered)),
            "replicas": count,
            "plan": service.plan,
            "capacity": capacity_status(service, count.ready),
        }
    )


def _ready_unplanned(serving: int, problem: SpecProblem) -> ConditionAnswer:
    if serving:
        keep = "keeps" if serving == 1 else "keep"
        return ConditionAnswer(
            "True", Reason.SERVING, f"{number_of(serving, 'replica')} of an earlier spec {keep} serving unchanged."
        )
    return ConditionAnswer(
        "False", problem.reason, "No replica serves, and none is created until the spec is corrected."
    )


def url_of(key: ServiceKey) -> str:
    return f"http://{key.name}.{key.namespace}.svc:80/v1"


def load_status(load: ServiceLoad) -> LoadStatus:
    """The load, absent while it is unknown, because a missing value is not zero."""
    if not load.known:
        return LoadStatus()
    return LoadStatus(queue=round(load.waiting_requests), kv_percent=min(100, round(load.kv_fraction * 100)))


def capacity_status(service: ServiceView, carried_replicas: float) -> CapacityStatus | None:
    """Capacity of all serving replicas, whose total is `carried_replicas` replicas of the service's own shape."""
    per_replica = service.capacity_status
    if per_replica is None:
        return None
    return per_replica.model_copy(update={"tokens_per_minute": round(per_replica.per_replica * carried_replicas)})


def capacity_now(context: DecidedContext) -> CapacityStatus | None:
    """Capacity by the arriving mix and by measurements of live replicas; by the plan while both are missing."""
    offered, carried_replicas = (
        context.memory.scaling.offered_work,
        context.load.weights.capacity_of(context.load.replicas),
    )
    if offered is None or not (offered.lengths.requests or offered.capacity.basis is Basis.MEASURED):
        return capacity_status(context.service, carried_replicas)
    tokens_per_minute = round(float(f"{offered.capacity.tokens_per_minute:.2g}"))
    return CapacityStatus(
        tokens_per_minute=round(tokens_per_minute * carried_replicas),
        per_replica=tokens_per_minute,
        basis=offered.capacity.basis.value,
    )


def telemetry_seconds(services: int) -> float:
    """How often the telemetry of one of so many services is written."""
    return max(TELEMETRY_SECONDS, services / TELEMETRY_PER_SECOND)


def should_write(
    stored: InferenceServiceStatus, wanted: InferenceServiceStatus, written_seconds_ago: float, telemetry_seconds: float
) -> bool:
    """Whether the status is worth a write.

    Fields that people and controllers act on are written at once, telemetry and wording at most every
    `telemetry_seconds`. An unchanged status is never written.
    """
    if wanted == stored:
        return False
    if _acted_on(wanted) != _acted_on(stored):
        return True
    return written_seconds_ago >= telemetry_seconds


def _acted_on(status: InferenceServiceStatus) -> object:
    decision = status.decision
    return (
        status.observed_generation,
        status.url,
        status.replicas,
        status.load.queue is None,
        [variant.model_copy(update={"message": ""}) for variant in status.variants],
        sorted((c.type, c.status, c.reason, c.observed_generation) for c in status.conditions),
        None if decision is None else (decision.rule, decision.desired),
        [s.model_copy(update={"message": ""}) for s in status.schedules],
    )


def _in_order(unordered: Iterable[Condition]) -> tuple[Condition, ...]:
    order = [kind for kind, _ in ANSWERS]
    return tuple(sorted(unordered, key=lambda c: (order.index(c.type) if c.type in order else len(order), c.type)))
