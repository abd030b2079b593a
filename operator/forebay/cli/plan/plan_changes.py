"""What a plan changes against another: GPUs, tokens a minute and cost of each service."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from forebay.capacity.plan.service_plan import ServiceCapacityPlan


@dataclass(frozen=True, slots=True)
class ServiceFigures:
    """What a service takes, on one side of the comparison."""

    gpus: int = 0
    tokens_per_minute: Fraction = Fraction(0)
    cost_per_hour: float | None = None


@dataclass(frozen=True, slots=True)
class PlanChange:
    namespace: str
    name: str
    before: ServiceFigures
    after: ServiceFigures
    state: str
    """added, removed, changed or same."""


def changes(before: Iterable[ServiceCapacityPlan], after: Iterable[ServiceCapacityPlan]) -> tuple[PlanChange, ...]:
    """Of every service that is on either side, in order of namespace and name."""
    earlier = {(plan.namespace, plan.name): plan for plan in before}
    later = {(plan.namespace, plan.name): plan for plan in after}
    return tuple(_change(key, earlier.get(key), later.get(key)) for key in sorted({*earlier, *later}))


def in_all(found: Sequence[PlanChange]) -> tuple[ServiceFigures, ServiceFigures]:
    """Before and after, over all services."""
    return _sum([change.before for change in found]), _sum([change.after for change in found])


def _change(key: tuple[str, str], before: ServiceCapacityPlan | None, after: ServiceCapacityPlan | None) -> PlanChange:
    was, now = _standing(before), _standing(after)
    state = "added" if before is None else "removed" if after is None else "same" if was == now else "changed"
    return PlanChange(*key, before=was, after=now, state=state)


def _standing(plan: ServiceCapacityPlan | None) -> ServiceFigures:
    if plan is None:
        return ServiceFigures()
    return ServiceFigures(
        gpus=plan.gpus,
        tokens_per_minute=plan.demand.tokens_per_minute if plan.demand else Fraction(0),
        cost_per_hour=plan.cost.per_hour if plan.cost else None,
    )


def _sum(standings: Sequence[ServiceFigures]) -> ServiceFigures:
    costs = [standing.cost_per_hour for standing in standings if standing.cost_per_hour is not None]
    return ServiceFigures(
        gpus=sum(standing.gpus for standing in standings),
        tokens_per_minute=sum((standing.tokens_per_minute for standing in standings), Fraction(0)),
        cost_per_hour=sum(costs) if costs else None,
    )
