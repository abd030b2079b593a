"""Events: each transition is reported once.

A change is the difference between the previously planned status and the current one. After a restart the stored status
serves as the previous one, so no event is repeated.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from forebay.api.inference_service import Condition, DecisionStatus, InferenceServiceStatus, ScheduleState
from forebay.api.reasons import Reason
from forebay.planner.memory import MOST_SENT_EVENTS, Learned, SentEvent
from forebay.planner.reconcile.quota_budget import QuotaHold
from forebay.planner.reconcile.steps import Step, StepKind, normal, warning
from forebay.planner.report.conditions import METRICS_FRESH, PLANNED, UP_TO_DATE
from forebay.scaling.decision import Decision, count
from forebay.world.plan import EventRecord

REPEAT_SECONDS: Final = 600.0
"""A step that fails and is retried at every tick is reported again only after this time."""


def events_to_send(
    steps: Iterable[Step], transitions: Iterable[EventRecord], sent_events: tuple[SentEvent, ...], now: float
) -> tuple[tuple[EventRecord, ...], tuple[SentEvent, ...]]:
    """The events to send, and what to remember of them."""
    kept = [sent for sent in sent_events if now - sent.at < REPEAT_SECONDS]
    known = {(sent.reason, sent.subject) for sent in kept}
    events = list(transitions)
    for step in steps:
        if step.event is None or (step.event.reason, step.subject) in known:
            continue
        known.add((step.event.reason, step.subject))
        kept.append(SentEvent(step.event.reason, step.subject, now))
        events.append(step.event)
    return tuple(events), tuple(kept[-MOST_SENT_EVENTS:])


def transitions(before: InferenceServiceStatus, after: InferenceServiceStatus) -> tuple[EventRecord, ...]:
    changes = (rule(_condition(before, kind), _condition(after, kind)) for kind, rule in _RULES)
    return (*(event for event in changes if event is not None), *_schedules(before, after))


def scaled(decision: Decision) -> tuple[EventRecord, ...]:
    """A change of the replica count, with the binding rule and its numbers."""
    if decision.applied == decision.before:
        return ()
    reason = Reason.SCALED_UP if decision.applied > decision.before else Reason.SCALED_DOWN
    text = f"From {decision.before} to {decision.applied} replicas by {decision.rule}: {decision.because}."
    return (normal(reason, text),)


def rule_changed(decision: Decision, before: DecisionStatus | None) -> tuple[Step, ...]:
    """Another rule gives the same count. The event is sent once per rule in ten minutes, since rules may alternate."""
    if before is None or before.rule == decision.rule or decision.applied != decision.before:
        return ()
    still = count(decision.desired, "replica")
    text = f"{decision.rule} decides instead of {before.rule}, still {still}: {decision.because}."
    return (Step(StepKind.OTHER, (), subject=decision.rule, event=normal(Reason.RULE_CHANGED, text)),)


def quota_held(hold: QuotaHold | None) -> tuple[Step, ...]:
    """Replicas wait for a ResourceQuota. The event is sent once per quota in ten minutes."""
    if hold is None:
        return ()
    return (
        Step(StepKind.OTHER, (), subject=hold.block.quota.name, event=warning(Reason.QUOTA_EXCEEDED, f"{hold.why}.")),
    )


def learned_reset(learned: Learned | None) -> tuple[EventRecord, ...]:
    """Why a newly started operator could not use what its predecessor had learned."""
    return (warning(Reason.LEARNED_RESET, learned.reset),) if learned is not None and learned.reset else ()


def _planned(before: Condition | None, after: Condition | None) -> EventRecord | None:
    if after is None or (before is not None and (before.status, before.message) == (after.status, after.message)):
        return None
    if after.status == "False":
        return warning(Reason(after.reason), after.message)
    if after.reason != Reason.PLANNED:
        return (
            None
            if before is not None and before.reason == after.reason
            else warning(Reason(after.reason), after.message)
        )
    if before is not None and before.status == "False":
        return normal(Reason.PLANNED, after.message)
    return None


def _metrics(before: Condition | None, after: Condition | None) -> EventRecord | None:
    if after is None or (before is not None and before.reason == after.reason):
        return None
    if after.status == "False":
        return warning(Reason(after.reason), after.message)
    if before is not None and before.status == "False" and after.status == "True":
        return normal(Reason.METRICS_BACK, after.message)
    return None


def _rollout(before: Condition | None, after: Condition | None) -> EventRecord | None:
    if after is None or (before is not None and before.reason == after.reason):
        return None
    if after.reason in (Reason.ROLLOUT_FAILED, Reason.WAITING_FOR_SPARE):
        return warning(Reason(after.reason), after.message)
    if after.reason == Reason.ROLLING_OUT and (before is None or before.reason != Reason.WAITING_FOR_SPARE):
        return normal(Reason.ROLLOUT_STARTED, after.message)
    if before is not None and before.reason in (Reason.ROLLING_OUT, Reason.WAITING_FOR_SPARE, Reason.ROLLOUT_FAILED):
        return (
            normal(Reason.ROLLOUT_FINISHED, after.message)
            if after.reason in (Reason.UP_TO_DATE, Reason.UPDATE_AVAILABLE)
            else None
        )
    return normal(Reason(after.reason), after.message) if after.reason == Reason.UPDATE_AVAILABLE else None


def _schedules(before: InferenceServiceStatus, after: InferenceServiceStatus) -> Iterator[EventRecord]:
    """One event per window and state. The states Idle and Warming are not reported."""
    known = {before_status.name: before_status for before_status in before.schedules}
    for after_status in after.schedules:
        before_status = known.get(after_status.name)
        message = f'Schedule "{after_status.name}": {after_status.message}'
        same_window = before_status is not None and before_status.start == after_status.start
        if before_status is None or not same_window or before_status.state != after_status.state:
            if after_status.state in _SCHEDULE_REASONS:
                event = normal if after_status.state is ScheduleState.MET else warning
                yield event(_SCHEDULE_REASONS[after_status.state], message)
        elif (
            after_status.state is ScheduleState.MISSED
            and after_status.ready_at is not None
            and before_status.ready_at is None
        ):
            yield normal(Reason.SCHEDULE_READY_LATE, message)


def _condition(status: InferenceServiceStatus, kind: str) -> Condition | None:
    return next((condition for condition in status.conditions if condition.type == kind), None)


_SCHEDULE_REASONS: Final[Mapping[ScheduleState, Reason]] = {
    ScheduleState.MET: Reason.SCHEDULE_MET,
    ScheduleState.AT_RISK: Reason.SCHEDULE_AT_RISK,
    ScheduleState.MISSED: Reason.SCHEDULE_MISSED,
}
_RULES: Final = ((PLANNED, _planned), (METRICS_FRESH, _metrics), (UP_TO_DATE, _rollout))
