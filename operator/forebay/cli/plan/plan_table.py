"""The plan for a terminal: one table of all services, then the arithmetic of each."""

import textwrap
from collections.abc import Iterator, Sequence

from forebay.capacity.plan.service_plan import ServiceCapacityPlan, totals
from forebay.cli.plan import plan_schedules
from forebay.cli.plan.plan_changes import PlanChange, ServiceFigures, in_all
from forebay.cli.plan.plan_format import aligned, arithmetic, cost_of, count, row, state
from forebay.cli.plan.plan_format import columns as header
from forebay.cli.plan.plan_schedules import Schedules

WIDTH = 110
"""Columns of text for files and pipes, and the most for a terminal: longer lines are hard to read."""
NARROWEST = 60
_HEADING = 16


def report(
    plans: Sequence[ServiceCapacityPlan],
    changes: Sequence[PlanChange] | None,
    schedules: Schedules,
    *,
    napkin: bool,
    details: bool | None,
    columns: int | None = None,
) -> Iterator[str]:
    """Lines. `details`: of all services, of none, or (None) of those that do not fit and of few. `columns` are those of
    a terminal; for None the table takes what it needs."""
    width = WIDTH if columns is None else max(NARROWEST, min(WIDTH, columns))
    priced = any(plan.cost for plan in plans)
    if plans:
        yield from aligned(header(priced), [row(plan, priced) for plan in plans], columns)
        yield ""
        yield from _totals(plans)
    if any(schedules.values()):
        yield ""
        yield from _schedules(schedules, width)
    for plan in plans:
        if details or (details is None and (len(plans) <= FEW or plan.problems)):
            yield ""
            yield from _service(plan, napkin, width)
    if changes is not None:
        yield ""
        yield from _changes(changes)


FEW = 5
"""So many services are explained without being asked for it."""


def _totals(plans: Sequence[ServiceCapacityPlan]) -> Iterator[str]:
    if not any(plan.demand for plan in plans):
        yield "No traffic is given (spec.traffic): memory alone was planned."
        return
    found = totals(plans)
    yield (
        f"Together {round(found.tokens_per_minute):,} TPM, {round(found.with_headroom):,} with headroom: ask for "
        f"{found.asked_for:,} TPM. {count(found.gpus, 'GPU')}."
    )
    if found.cost is not None:
        yield f"{cost_of(found.cost)}."


def _schedules(schedules: Schedules, width: int) -> Iterator[str]:
    found = [one for of_service in schedules.values() for one in of_service]
    yield from aligned(plan_schedules.COLUMNS, [plan_schedules.row(one) for one in found])
    for remark in plan_schedules.remarks(found):
        yield from textwrap.wrap(remark, width, break_long_words=False, break_on_hyphens=False)


def _service(plan: ServiceCapacityPlan, napkin: bool, width: int) -> Iterator[str]:
    def _line(heading: str, text: str) -> Iterator[str]:
        return _wrapped(heading, text, width)

    source = plan.spec.model.source
    yield f"{plan.namespace}/{plan.name}  {source}  {state(plan)}"
    for heading, text in arithmetic(plan):
        yield from _line(heading, text)
    if plan.napkin is not None:
        sketch = plan.napkin
        yield from _line(
            "Napkin",
            f"{sketch.step_seconds * 1000:.3f} ms a step, {sketch.tokens_per_second:,.0f} tokens/s, "
            f"{sketch.requests_per_second:.1f} requests/s: {sketch.active} active + {sketch.warm} warm",
        )
        if napkin:
            scaling = sketch.scaling
            yield from _line(
                "",
                f"queue {scaling.queue_depth}, cooldowns {scaling.scale_up_cooldown_seconds:g} s and "
                f"{scaling.scale_down_cooldown_seconds:g} s, replicas {scaling.min_replicas} to "
                f"{scaling.max_replicas}",
            )
            for index, difference in enumerate(plan.differences):
                yield from _line("Why they differ" if index == 0 else "", difference)
    if plan.plan is not None:
        for index, assumption in enumerate(plan.plan.assumptions):
            yield from _line("Rests on" if index == 0 else "", assumption)
        for note in plan.plan.notes:
            yield from _line("Note", note)
    for problem in plan.problems:
        yield from _line("Problem", f"{problem.field}: {_value(problem.value)}{problem.reason}")
        for option in problem.remedies:
            yield from _line("", f"- {option}")


def _changes(found: Sequence[PlanChange]) -> Iterator[str]:
    titles = ("CHANGE", "SERVICE", "GPUS", "TPM", "COST/H")
    rows = [
        (
            change.state,
            f"{change.namespace}/{change.name}",
            *_sides(change.before, change.after),
        )
        for change in found
        if change.state != "same"
    ]
    if not rows:
        yield "Nothing changes in GPUs, TPM or cost."
        return
    yield from aligned(titles, [*rows, ("", "together", *_sides(*in_all(found)))])


def _sides(before: ServiceFigures, after: ServiceFigures) -> tuple[str, str, str]:
    cost = "-"
    if before.cost_per_hour is not None or after.cost_per_hour is not None:
        cost = f"{before.cost_per_hour or 0:,.2f} → {after.cost_per_hour or 0:,.2f}"
    return (
        f"{before.gpus:,} → {after.gpus:,}",
        f"{round(before.tokens_per_minute):,} → {round(after.tokens_per_minute):,}",
        cost,
    )


def _wrapped(heading: str, text: str, width: int) -> Iterator[str]:
    first = f"  {heading:<{_HEADING}}"
    if len(first) > _HEADING + 2:
        first += "  "
    indent = " " * (_HEADING + 2)
    yield from textwrap.wrap(
        text, width, initial_indent=first, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def _value(value: str | int | float | None) -> str:
    return "" if value is None else f'"{value}" ' if isinstance(value, str) else f"{value:,} "
