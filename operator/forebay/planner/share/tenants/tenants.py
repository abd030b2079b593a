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
from forebay.planner.share.tenants.claims import Claims, claims_of, gpu_quota_of
from forebay.planner.share.tenants.coverage import GuaranteeCase, ProductCoverage, product_coverage, shortage_of
from forebay.planner.share.tenants.division import ModelDivision, ModelPart, divisions_of
from forebay.planner.share.tenants.quota_checks import QuotaCase, faults_of
from forebay.planner.share.tenants.usage import GpuUse, Usage, usage_of
from forebay.world.tenants import TenantQuotaView
from forebay.world.world import SpecProblem

DIVIDE_SECONDS: Final = 5.0
"""Time between two divisions while no quota changes. Statuses show telemetry every 30 s."""


@dataclass(frozen=True, slots=True)
class GpuPart:
    """A tenant's part of one GPU product, in GPUs."""

    product: str
    guaranteed: int
    asked: int
    used: int


@dataclass(frozen=True, slots=True)
class TenantOutcome:
    """One quota: what is wrong with it, and what it has."""

    quota: TenantQuotaView
    faults: tuple[SpecProblem, ...] = ()
    parts: tuple[ModelPart, ...] = ()
    """By model, in the order of names."""
    gpus: tuple[GpuPart, ...] = ()
    """By product, in the order of names."""
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
    divisions = divisions_of(claims, usage)
    coverage = product_coverage(claims, divisions, usage)
    models = frozenset(usage.models)
    parts = _parts_by_tenant(divisions)
    gpus = _gpus_by_tenant(claims, usage)
    return tuple(
        _outcome(QuotaCase(quota, claims, models, fleet.now), parts.get(quota.name, ()), gpus, divisions, coverage)
        for quota in claims.quotas
    )


def _outcome(
    case: QuotaCase,
    parts: tuple[ModelPart, ...],
    gpus: Mapping[str, tuple[GpuPart, ...]],
    divisions: Mapping[str, ModelDivision],
    coverage: ProductCoverage,
) -> TenantOutcome:
    """An error while planning one quota affects that quota alone."""
    try:
        guaranteed = tuple(part for part in parts if part.guaranteed > 0)
        of_tenant = gpus.get(case.quota.name, ())
        products = frozenset(
            (
                *(part.product for part in of_tenant if part.guaranteed),
                *(divisions[part.model].use.product for part in guaranteed),
            )
        )
        acts = case.spec.mode is QuotaMode.ENFORCE
        guarantee = GuaranteeCase(guaranteed, divisions, products, coverage, acts)
        unknown = [part.model for part in guaranteed if divisions[part.model].use.rates.per_replica is None]
        return TenantOutcome(
            case.quota, faults_of(case), parts, of_tenant, shortage_of(guarantee), tuple(sorted(unknown))
        )
    except Exception as error:  # noqa: BLE001 - one quota's fault must not hold the others
        return TenantOutcome(case.quota, error=error)


def _parts_by_tenant(divisions: Mapping[str, ModelDivision]) -> dict[str, tuple[ModelPart, ...]]:
    parts: dict[str, list[ModelPart]] = {}
    for model in sorted(divisions):
        for tenant, part in divisions[model].parts.items():
            parts.setdefault(tenant, []).append(part)
    return {tenant: tuple(of_tenant) for tenant, of_tenant in parts.items()}


def _gpus_by_tenant(claims: Claims, usage: Usage) -> dict[str, tuple[GpuPart, ...]]:
    """What each tenant holds, with what the tenants below it hold."""
    totals: dict[str, dict[str, GpuUse]] = {}
    for (tenant, product), use in usage.gpus.items():
        for name in claims.with_ancestors([tenant]):
            total = totals.setdefault(name, {}).setdefault(product, GpuUse())
            total.held += use.held
            total.asked += use.asked
    return {name: tuple(_gpu_parts(name, claims, usage, totals.get(name, {}))) for name in claims.specs}


def _gpu_parts(name: str, claims: Claims, usage: Usage, totals: Mapping[str, GpuUse]) -> Iterable[GpuPart]:
    spec = claims.specs[name]
    products = {*totals, *(entry.product for entry in spec.gpus if entry.product is not None)}
    if any(entry.product is None for entry in spec.gpus):
        products |= usage.products.keys()
    for product in sorted(products):
        entry, total = gpu_quota_of(spec, product), totals.get(product, GpuUse())
        guaranteed = 0 if entry is None or entry.guaranteed is None else entry.guaranteed
        yield GpuPart(product, guaranteed, total.asked, total.held)
