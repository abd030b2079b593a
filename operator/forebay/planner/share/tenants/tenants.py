"""Tenants: what each TenantQuota gets, lends and borrows, and what is wrong with it.

Nobody acts on these figures yet: no replica is cut, and requests are told apart only by a gateway. So they are computed
every few seconds and at once when a quota changes, not at each tick.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from forebay.api.tenant_quota import QuotaMode
from forebay.planner.memory import ServiceMemory, TenantMemory
from forebay.planner.observe.fleet_context import FleetContext
from forebay.planner.share.tenants.claims import claims_of
from forebay.planner.share.tenants.coverage import GuaranteeCase, ProductCoverage, product_coverage, shortage_of
from forebay.planner.share.tenants.division import Division, ModelDivision, Part, model_divisions, product_divisions
from forebay.planner.share.tenants.quota_checks import QuotaCase, faults_of
from forebay.planner.share.tenants.usage import usage_of
from forebay.world.tenants import TenantQuotaView
from forebay.world.world import SpecProblem

DIVIDE_SECONDS: Final = 5.0
"""Time between two divisions while no quota changes. Statuses show telemetry every 30 s."""


@dataclass(frozen=True, slots=True)
class TenantOutcome:
    """One quota: what is wrong with it, and what it has."""

    quota: TenantQuotaView
    faults: tuple[SpecProblem, ...] = ()
    models: tuple[Part, ...] = ()
    """In the order of names."""
    products: tuple[Part, ...] = ()
    """In the order of names."""
    shortage: SpecProblem | None = None
    """Why its guarantees are not covered; None when they are, as far as that is known."""
    capacity_unknown: tuple[str, ...] = ()
    """Models with a guarantee whose capacity is unknown."""
    error: Exception | None = None
    """Planning it failed."""


@dataclass(frozen=True, slots=True)
class TenantOutcomes:
    quotas: tuple[TenantOutcome, ...] = ()
    memory: TenantMemory = field(default_factory=TenantMemory)
    due: bool = False
    """False when the statuses planned last stay."""


NO_TENANTS: Final = TenantOutcomes()


def tenants_of(fleet: FleetContext, memories: Mapping[str, ServiceMemory]) -> TenantOutcomes:
    """The outcome for each quota. `memories` has all services by uid, those at rest included."""
    known, before = fleet.world.tenant_quotas, fleet.before.tenants
    if known is None:
        return TenantOutcomes()
    stated = tuple(sorted((quota.uid, quota.generation, quota.deleting) for quota in known))
    if stated == before.claims and fleet.now - before.divided_at < DIVIDE_SECONDS:
        return TenantOutcomes(memory=before)
    memory = TenantMemory(before.statuses, stated, fleet.now)
    try:
        return TenantOutcomes(_outcomes(fleet, memories, known), memory, due=True)
    except Exception as error:  # noqa: BLE001 - a fault of tenants must not hold the services
        return TenantOutcomes(tuple(TenantOutcome(quota, error=error) for quota in known), memory, due=True)


def _outcomes(
    fleet: FleetContext, memories: Mapping[str, ServiceMemory], quotas: Iterable[TenantQuotaView]
) -> tuple[TenantOutcome, ...]:
    claims = claims_of(quotas, fleet.world.settings.default_tenant)
    if not claims.quotas:
        return ()
    usage = usage_of(fleet, memories, claims)
    divisions, products = model_divisions(claims, usage), product_divisions(claims, usage)
    coverage = product_coverage(claims, divisions, usage)
    names = frozenset(usage.models)
    by_model, by_product = _by_tenant(divisions), _by_tenant(products)
    return tuple(
        _outcome(
            QuotaCase(quota, claims, names, fleet.now),
            by_model.get(quota.name, ()),
            by_product.get(quota.name, ()),
            divisions,
            coverage,
        )
        for quota in claims.quotas
    )


def _outcome(
    case: QuotaCase,
    models: tuple[Part, ...],
    products: tuple[Part, ...],
    divisions: Mapping[str, ModelDivision],
    coverage: ProductCoverage,
) -> TenantOutcome:
    """An error while planning one quota affects that quota alone."""
    try:
        guaranteed = tuple(part for part in models if part.guaranteed > 0)
        needed = {part.of for part in products if part.guaranteed > 0}
        needed |= {divisions[part.of].use.product for part in guaranteed}
        acts = case.spec.mode is QuotaMode.ENFORCE
        guarantee = GuaranteeCase(guaranteed, divisions, frozenset(needed), coverage, acts)
        unknown = tuple(part.of for part in guaranteed if divisions[part.of].use.rates.per_replica is None)
        return TenantOutcome(case.quota, faults_of(case), models, products, shortage_of(guarantee), unknown)
    except Exception as error:  # noqa: BLE001 - one quota's fault must not hold the others
        return TenantOutcome(case.quota, error=error)


def _by_tenant(divisions: Mapping[str, Division]) -> dict[str, tuple[Part, ...]]:
    parts: dict[str, list[Part]] = {}
    for of in sorted(divisions):
        for tenant, part in divisions[of].parts.items():
            parts.setdefault(tenant, []).append(part)
    return {tenant: tuple(of_tenant) for tenant, of_tenant in parts.items()}
