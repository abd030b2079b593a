"""What a plan changes against an earlier one: GPUs, tokens per minute and cost of each service."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from forebay.capacity.plan.service_plan import ServiceCapacityPlan


@dataclass(frozen=True, slots=True)
class ServiceFigures:
    """What a service takes, before or after."""

    gpus: int = 0
    tokens_per_minute: Fraction = Fraction(0)
    cost_per_hour: float | None = None


@dataclass(frozen=True, slots=True)
class PlanChange:
    """A service before and after."""

    namespace: str
    name: str
    before: ServiceFigures
    after: ServiceFigures
    state: str
    """`added`, `removed`, `changed` or `same`."""


def changes(before: Iterable[ServiceCapacityPlan], after: Iterable[ServiceCapacityPlan]) -> tuple[PlanChange, ...]:
    """The change of every service that is in either plan, by namespace and name."""
    earlier = {(plan.namespace, plan.name): plan for plan in before}
    later = {(plan.namespace, plan.name): plan for plan in after}
    return tuple(_change(key, earlier.get(key), later.get(key)) for key in sorted({*earlier, *later}))


def total_change(changed: Sequence[PlanChange]) -> tuple[ServiceFigures, ServiceFigures]:
    """The sums over all services, before and after."""
    return _sum([change.before for change in changed]), _sum([change.after for change in changed])


def _change(key: tuple[str, str], before: ServiceCapacityPlan | None, after: ServiceCapacityPlan | None) -> PlanChange:
    earlier, later = _figures(before), _figures(after)
    state = "added" if before is None else "removed" if after is None else "same" if earlier == later else "changed"
    return PlanChange(*key, before=earlier, after=later, state=state)


def _figures(plan: ServiceCapacityPlan | None) -> ServiceFigures:
    if plan is None:
        return ServiceFigures()
    return ServiceFigures(
        gpus=plan.gpus,
        tokens_per_minute=plan.demand.tokens_per_minute if plan.demand else Fraction(0),
        cost_per_hour=plan.cost.per_hour if plan.cost else None,
    )


def _sum(figures: Sequence[ServiceFigures]) -> ServiceFigures:
    costs = [service.cost_per_hour for service in figures if service.cost_per_hour is not None]
    return ServiceFigures(
        gpus=sum(service.gpus for service in figures),
        tokens_per_minute=sum((service.tokens_per_minute for service in figures), Fraction(0)),
        cost_per_hour=sum(costs) if costs else None,
    )


def change_cells(before: ServiceFigures, after: ServiceFigures) -> tuple[str, str, str]:
    """GPUs, tokens per minute and cost as `before → after`, for a table."""
    cost = "-"
    if before.cost_per_hour is not None or after.cost_per_hour is not None:
        cost = f"{before.cost_per_hour or 0:,.2f} → {after.cost_per_hour or 0:,.2f}"
    return (
        f"{before.gpus:,} → {after.gpus:,}",
        f"{round(before.tokens_per_minute):,} → {round(after.tokens_per_minute):,}",
        cost,
    )
