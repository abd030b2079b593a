"""Writes the plan as Markdown for a comment on a pull request: tables in view, the arithmetic folded away."""

from collections.abc import Iterator, Sequence

from forebay.capacity.plan.service_plan import ServiceCapacityPlan, totals
from forebay.cli.manifest_input import BadInput
from forebay.cli.plan import plan_schedules
from forebay.cli.plan.plan_changes import PlanChange, change_cells, total_change
from forebay.cli.plan.plan_format import NUMBERS, arithmetic, columns, cost_of, count, row, state
from forebay.cli.plan.plan_schedules import Schedules


def comment(
    plans: Sequence[ServiceCapacityPlan],
    bad: Sequence[BadInput],
    changes: Sequence[PlanChange] | None,
    schedules: Schedules,
    *,
    napkin: bool,
) -> Iterator[str]:
    """The lines of the comment."""
    yield "## Capacity plan"
    yield ""
    priced = any(plan.cost for plan in plans)
    if plans:
        yield from _table(columns(priced), [row(plan, priced) for plan in plans])
        yield ""
        total = totals(plans)
        yield (
            f"Together {round(total.tokens_per_minute):,} TPM, {round(total.with_headroom):,} with headroom: **ask for "
            f"{total.asked_for:,} TPM**. {count(total.gpus, 'GPU')}"
            + (f", {cost_of(total.cost)}." if total.cost else ".")
        )
    if changes is not None:
        yield ""
        yield from _changes(changes)
    if any(schedules.values()):
        yield ""
        yield from _schedules(schedules)
    if bad or any(plan.problems for plan in plans):
        yield ""
        yield "### Problems"
        yield ""
        for fault in bad:
            yield f"- {_text(str(fault))}"
        for plan in plans:
            yield from _problems(plan)
    if napkin:
        for plan in plans:
            yield from _napkin(plan)
    for plan in plans:
        yield ""
        yield from _details(plan)


def _schedules(schedules: Schedules) -> Iterator[str]:
    planned = [schedule for of_service in schedules.values() for schedule in of_service]
    yield "### Schedules"
    yield ""
    yield from _table(plan_schedules.COLUMNS, [plan_schedules.row(schedule) for schedule in planned])
    yield ""
    for remark in plan_schedules.remarks(planned):
        yield f"- {_text(remark)}"


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(header)} |"
    yield f"|{'|'.join('---:' if name in NUMBERS else '---' for name in header)}|"
    for cells in rows:
        yield f"| {' | '.join(_text(cell) for cell in cells)} |"


def _changes(changed: Sequence[PlanChange]) -> Iterator[str]:
    rows = [
        (change.state, f"{change.namespace}/{change.name}", *change_cells(change.before, change.after))
        for change in changed
        if change.state != "same"
    ]
    yield "### What changes"
    yield ""
    if not rows:
        yield "Nothing changes in GPUs, TPM or cost."
        return
    yield from _table(
        ("", "SERVICE", "GPUS", "TPM", "COST/H"), [*rows, ("", "together", *change_cells(*total_change(changed)))]
    )


def _problems(plan: ServiceCapacityPlan) -> Iterator[str]:
    for problem in plan.problems:
        value = "" if problem.value is None else f" `{problem.value}`"
        yield f"- **{plan.namespace}/{plan.name}** `{problem.field}`{value} {_text(problem.reason)}"
        for option in problem.remedies:
            yield f"  - {_text(option)}"


def _napkin(plan: ServiceCapacityPlan) -> Iterator[str]:
    estimate, fleet = plan.napkin, plan.plan.fleet if plan.plan else None
    if estimate is None or plan.plan is None:
        return
    throughput = plan.plan.throughput
    yield ""
    yield f"### {plan.namespace}/{plan.name}: napkin and profile"
    yield ""
    yield from _table(
        ("", "napkin", "profile"),
        [
            (
                "step without work",
                f"{estimate.step_seconds * 1000:.2f} ms",
                f"{throughput.engine.profile.step_seconds * 1000:.2f} ms" if throughput else "-",
            ),
            (
                "requests/s a replica",
                f"{estimate.requests_per_second:.1f}",
                f"{throughput.requests_per_second:.1f}" if throughput else "-",
            ),
            (
                "replicas",
                f"{estimate.active} active + {estimate.warm} warm",
                f"{fleet.active} active + {fleet.warm} warm" if fleet else "-",
            ),
        ],
    )
    yield ""
    for difference in plan.differences:
        yield f"- {_text(difference)}"


def _details(plan: ServiceCapacityPlan) -> Iterator[str]:
    yield f"<details><summary>{plan.namespace}/{plan.name}: {state(plan)}, the arithmetic</summary>"
    yield ""
    for heading, text in arithmetic(plan):
        yield f"- **{heading}**: {_text(text)}"
    if plan.plan is not None:
        yield ""
        yield "Assumptions:"
        yield ""
        for assumption in (*plan.plan.assumptions, *plan.plan.notes):
            yield f"- {_text(assumption)}"
    yield ""
    yield "</details>"


def _text(text: str) -> str:
    """Escaped text: nothing in a message may end a table cell or become markup."""
    return text.replace("|", "\\|").replace("<", "&lt;").replace(">", "&gt;")
