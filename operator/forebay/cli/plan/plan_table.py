"""Writes the plan for a terminal: one table of all services, then the arithmetic of each service."""

import textwrap
from collections.abc import Iterator, Sequence

from forebay.capacity.plan.service_plan import ServiceCapacityPlan, totals
from forebay.cli.plan import plan_schedules
from forebay.cli.plan.plan_changes import PlanChange, change_cells, total_change
from forebay.cli.plan.plan_format import aligned, arithmetic, cost_of, count, row, state
from forebay.cli.plan.plan_format import columns as header
from forebay.cli.plan.plan_schedules import Schedules

WIDTH = 110
"""Width of text in files and pipes, and at most on a terminal: longer lines are hard to read."""
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
    """The lines of the report.

    `details` shows the arithmetic of all services (True), of none (False), or of up to `FEW` services and of those that
    do not fit (None). `columns` is the width of the terminal; None sets no limit for the table.
    """
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
"""Up to this many services, all show their arithmetic by default."""


def _totals(plans: Sequence[ServiceCapacityPlan]) -> Iterator[str]:
    if not any(plan.demand for plan in plans):
        yield "No service declares traffic (spec.traffic), so only memory was planned."
        return
    total = totals(plans)
    yield (
        f"Together {round(total.tokens_per_minute):,} TPM, {round(total.with_headroom):,} with headroom: ask for "
        f"{total.asked_for:,} TPM. {count(total.gpus, 'GPU')}."
    )
    if total.cost is not None:
        yield f"{cost_of(total.cost)}."


def _schedules(schedules: Schedules, width: int) -> Iterator[str]:
    planned = [schedule for of_service in schedules.values() for schedule in of_service]
    yield from aligned(plan_schedules.COLUMNS, [plan_schedules.row(schedule) for schedule in planned])
    for remark in plan_schedules.remarks(planned):
        yield from textwrap.wrap(remark, width, break_long_words=False, break_on_hyphens=False)


def _service(plan: ServiceCapacityPlan, napkin: bool, width: int) -> Iterator[str]:
    def _line(heading: str, text: str) -> Iterator[str]:
        return _wrapped(heading, text, width)

    source = plan.spec.model.source
    yield f"{plan.namespace}/{plan.name}  {source}  {state(plan)}"
    for heading, text in arithmetic(plan):
        yield from _line(heading, text)
    if plan.napkin is not None:
        estimate = plan.napkin
        yield from _line(
            "Napkin",
            f"{estimate.step_seconds * 1000:.3f} ms a step, {estimate.tokens_per_second:,.0f} tokens/s, "
            f"{estimate.requests_per_second:.1f} requests/s: {estimate.active} active + {estimate.warm} warm",
        )
        if napkin:
            scaling = estimate.scaling
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
            yield from _line("Assumes" if index == 0 else "", assumption)
        for note in plan.plan.notes:
            yield from _line("Note", note)
    for problem in plan.problems:
        yield from _line("Problem", f"{problem.field}: {_value(problem.value)}{problem.reason}")
        for option in problem.remedies:
            yield from _line("", f"- {option}")


def _changes(changed: Sequence[PlanChange]) -> Iterator[str]:
    titles = ("CHANGE", "SERVICE", "GPUS", "TPM", "COST/H")
    rows = [
        (
            change.state,
            f"{change.namespace}/{change.name}",
            *change_cells(change.before, change.after),
        )
        for change in changed
        if change.state != "same"
    ]
    if not rows:
        yield "Nothing changes in GPUs, TPM or cost."
        return
    yield from aligned(titles, [*rows, ("", "together", *change_cells(*total_change(changed)))])


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
