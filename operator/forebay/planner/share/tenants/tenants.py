"""Tenants: what each TenantQuota gets, lends and borrows, and what is wrong with it.

Nobody acts on these figures yet: no replica is cut, and requests are told apart only by a gateway. So they are not
computed at each tick: at once when a quota changes, every quarter of a minute while services are planned, and twice a
minute while all of them are at rest.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from operator import is_
from typing import Final

from forebay.api.tenant_quota import QuotaMode
from forebay.planner.memory import ServiceMemory, TenantMemory
from forebay.planner.observe.fleet_context import FleetContext
from forebay.planner.share.tenants.claims import claims_of
from forebay.planner.share.tenants.coverage import GuaranteeCase, ProductCoverage, product_coverage, shortage_of
from forebay.planner.share.tenants.division import Division, ModelDivision, Part, model_divisions, product_divisions
from forebay.planner.share.tenants.quota_checks import QuotaCase, faults_of
from forebay.planner.share.tenants.usage import usage_of
from forebay.planner.share.tenants.wanted_plans import WantedPlan, wanted_plans
from forebay.scaling.learning.normalized_tokens import TokenRates
from forebay.sharing.tenant_tree import TenantTree
from forebay.workloads.objects.share_plan import PlannedShards
from forebay.world.tenants import TenantQuotaView
from forebay.world.world import SpecProblem

DIVIDE_SECONDS: Final = 15.0
"""Shortest time between two divisions while no quota changes: statuses show telemetry every 30 s."""
LONGEST_SECONDS: Final = 30.0
"""Longest time between two divisions. Keys expire and windows come near without any other change."""


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
    plans: Mapping[str, WantedPlan] | None = None
    """What admission is told of each model; None leaves what is stored."""


NO_TENANTS: Final = TenantOutcomes()


def tenants_of(fleet: FleetContext, memories: Mapping[str, ServiceMemory]) -> TenantOutcomes:
    """The outcome for each quota. `memories` has all services by uid, those at rest included."""
    known, before = fleet.world.tenant_quotas, fleet.before.tenants
    if known is None:
        return TenantOutcomes()
    stated = tuple(sorted((quota.uid, quota.generation, quota.deleting) for quota in known))
    rates = tuple([memories[uid].tokens for uid in sorted(memories)])
    same_claims = stated == before.claims
    if same_claims and not _due(fleet.now - before.divided_at, rates, before.rates):
        return TenantOutcomes(memory=before)
    trees, planned = (dict(before.trees), dict(before.planned)) if same_claims else ({}, {})
    memory = TenantMemory(before.statuses, stated, rates, trees, planned, fleet.now)
    try:
        quotas, plans = _outcomes(fleet, memories, known, trees, planned)
        return TenantOutcomes(quotas, memory, due=True, plans=plans)
    except Exception as error:  # noqa: BLE001 - a fault of tenants must not hold the services
        return TenantOutcomes(tuple(TenantOutcome(quota, error=error) for quota in known), memory, due=True)


def _due(seconds: float, rates: tuple[TokenRates, ...], before: tuple[TokenRates, ...]) -> bool:
    """Whether the figures are computed again, `seconds` after the last time."""
    if seconds < DIVIDE_SECONDS or seconds >= LONGEST_SECONDS:
        return seconds >= LONGEST_SECONDS
    return len(rates) != len(before) or not all(map(is_, rates, before))


def _outcomes(
    fleet: FleetContext,
    memories: Mapping[str, ServiceMemory],
    quotas: Iterable[TenantQuotaView],
    trees: dict[str, TenantTree],
    planned: dict[str, PlannedShards],
) -> tuple[tuple[TenantOutcome, ...], Mapping[str, WantedPlan]]:
    """`trees` and `planned` have those of earlier divisions among the same quotas, and get those of new models."""
    claims = claims_of(quotas, fleet.world.settings.default_tenant)
    if not claims.quotas:
        return (), {}
    usage = usage_of(fleet, memories, claims)
    for gone in trees.keys() - usage.models.keys():
        del trees[gone]
    divisions, products = model_divisions(claims, usage, trees), product_divisions(claims, usage)
    coverage = product_coverage(claims, divisions, usage)
    names = frozenset(usage.models)
    by_model, by_product = _by_tenant(divisions), _by_tenant(products)
    outcomes = tuple(
        _outcome(
            QuotaCase(quota, claims, names, fleet.now),
            by_model.get(quota.name, ()),
            by_product.get(quota.name, ()),
            divisions,
            coverage,
        )
        for quota in claims.quotas
    )
    return outcomes, wanted_plans(claims, divisions, trees, planned)


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
