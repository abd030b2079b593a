"""Events: transitions only, each told once.

What changed is read from the status that was planned before and the one that is planned now; after a restart the stored
status takes the place of the former, so nothing is told twice.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from forebay.api.inference_service import Condition, DecisionStatus, InferenceServiceStatus, ScheduleState
from forebay.api.reasons import Reason
from forebay.planner.memory import MOST_NOTES, Learned, Note
from forebay.planner.reconcile.steps import Step, StepKind, normal, warning
from forebay.planner.report.conditions import METRICS_FRESH, PLANNED, UP_TO_DATE
from forebay.scaling.decision import Decision, count
from forebay.world.plan import EventRecord

REPEAT_SECONDS: Final = 600.0
"""A step that failed and is tried again at every tick is told of again only after so long."""


def told(
    steps: Iterable[Step], transitions: Iterable[EventRecord], notes: tuple[Note, ...], now: float
) -> tuple[tuple[EventRecord, ...], tuple[Note, ...]]:
    """The events to send, and what to remember of them."""
    kept = [note for note in notes if now - note.at < REPEAT_SECONDS]
    known = {(note.reason, note.subject) for note in kept}
    events = list(transitions)
    for step in steps:
        if step.event is None or (step.event.reason, step.subject) in known:
            continue
        known.add((step.event.reason, step.subject))
        kept.append(Note(step.event.reason, step.subject, now))
        events.append(step.event)
    return tuple(events), tuple(kept[-MOST_NOTES:])


def transitions(before: InferenceServiceStatus, after: InferenceServiceStatus) -> tuple[EventRecord, ...]:
    found = (rule(_condition(before, kind), _condition(after, kind)) for kind, rule in _RULES)
    return (*(event for event in found if event is not None), *_schedules(before, after))


def scaled(decision: Decision) -> tuple[EventRecord, ...]:
    """A change of the count, with the rule that bound and its numbers."""
    if decision.applied == decision.before:
        return ()
    reason = Reason.SCALED_UP if decision.applied > decision.before else Reason.SCALED_DOWN
    text = f"From {decision.before} to {decision.applied} replicas by {decision.rule}: {decision.because}."
    return (normal(reason, text),)


def rule_changed(decision: Decision, before: DecisionStatus | None) -> tuple[Step, ...]:
    """Another rule gives the same count: told once per rule and ten minutes, since rules may take turns."""
    if before is None or before.rule == decision.rule or decision.applied != decision.before:
        return ()
    text = f"{decision.rule}, no longer {before.rule}, gives {count(decision.desired, 'replica')}: {decision.because}."
    return (Step(StepKind.OTHER, (), subject=decision.rule, event=normal(Reason.RULE_CHANGED, text)),)


def forgotten_learning(learned: Learned | None) -> tuple[EventRecord, ...]:
    """What an operator that has just started could not take over."""
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
    """Once per window and state; that nothing is to be done, or is being done, is no news."""
    known = {seen.name: seen for seen in before.schedules}
    for found in after.schedules:
        seen = known.get(found.name)
        said = f'Schedule "{found.name}": {found.message}'
        same = seen is not None and seen.start == found.start
        if seen is None or not same or seen.state != found.state:
            if found.state in _SCHEDULE_REASONS:
                tell = normal if found.state is ScheduleState.MET else warning
                yield tell(_SCHEDULE_REASONS[found.state], said)
        elif found.state is ScheduleState.MISSED and found.ready_at is not None and seen.ready_at is None:
            yield normal(Reason.SCHEDULE_READY_LATE, said)


def _condition(status: InferenceServiceStatus, kind: str) -> Condition | None:
    return next((condition for condition in status.conditions if condition.type == kind), None)


_SCHEDULE_REASONS: Final[Mapping[ScheduleState, Reason]] = {
    ScheduleState.MET: Reason.SCHEDULE_MET,
    ScheduleState.AT_RISK: Reason.SCHEDULE_AT_RISK,
    ScheduleState.MISSED: Reason.SCHEDULE_MISSED,
}
_RULES: Final = ((PLANNED, _planned), (METRICS_FRESH, _metrics), (UP_TO_DATE, _rollout))
