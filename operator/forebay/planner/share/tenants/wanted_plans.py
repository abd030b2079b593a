"""Wanted plans: what admission is told of each model: its capacity, and the tenants among whom it is divided."""

from collections.abc import Mapping
from dataclasses import dataclass

from forebay.planner.share.tenants.claims import Claims
from forebay.planner.share.tenants.division import ModelDivision
from forebay.sharing.tenant_tree import TenantTree
from forebay.workloads.objects.share_plan import PlannedShards, PlannedTenant


@dataclass(frozen=True, slots=True)
class WantedPlan:
    tenants: PlannedShards
    capacity: float | None
    """Normalized tokens per minute; None is unknown."""


def wanted_plans(
    claims: Claims,
    divisions: Mapping[str, ModelDivision],
    trees: Mapping[str, TenantTree],
    planned: dict[str, PlannedShards],
) -> dict[str, WantedPlan]:
    """The plan of each model that a quota is concerned with. `planned` remembers its tenants, which follow from the
    claims alone, as `trees` does."""
    for gone in planned.keys() - divisions.keys():
        del planned[gone]
    plans = {}
    for model, division in divisions.items():
        if model not in planned:
            planned[model] = PlannedShards.of(_tenant(name, model, claims) for name in trees[model].node_of)
        plans[model] = WantedPlan(planned[model], division.use.rates.carried)
    return plans


def _tenant(name: str, model: str, claims: Claims) -> PlannedTenant:
    spec, parent = claims.specs.get(name), claims.parents.get(name)
    if spec is None:
        return PlannedTenant(name, listed=False, parent=parent)
    share = claims.shares[name].get(model)
    if share is None:
        return PlannedTenant(
            name, listed=False, parent=parent, tenant_class=spec.tenant_class, mode=spec.mode, weight=spec.weight
        )
    return PlannedTenant(
        name,
        parent=parent,
        tenant_class=share.tenant_class or spec.tenant_class,
        mode=spec.mode,
        weight=spec.weight,
        guaranteed=share.guaranteed,
        limit=share.limit,
        requests_per_minute=share.requests_per_minute,
        concurrency=share.concurrency,
    )
