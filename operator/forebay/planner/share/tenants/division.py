"""Division: who has how much of each model, by the water-filling of `sharing`.

A model is divided among the quotas that list it and the tenant that its use counts for. The capacity is what its
serving replicas carry. Quotas in mode Shadow take part in a division of their own, so that the others get what they
would get without them.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from forebay.api.tenant_quota import QuotaMode, QuotaSpec
from forebay.api.tenant_quota import TenantClass as QuotaClass
from forebay.planner.share.tenants.claims import Claims, share_of
from forebay.planner.share.tenants.usage import ModelUse, Usage
from forebay.sharing.shares import Shares, share_amounts
from forebay.sharing.tenant import Tenant, TenantClass
from forebay.sharing.tenant_tree import TenantTree

_CLASSES: Mapping[QuotaClass, TenantClass] = {
    QuotaClass.INTERACTIVE: TenantClass.INTERACTIVE,
    QuotaClass.BATCH: TenantClass.BATCH,
}


@dataclass(frozen=True, slots=True)
class ModelPart:
    """A tenant's part of one model, in normalized tokens per minute; None while it is unknown."""

    model: str
    guaranteed: float
    asked: float | None = None
    used: float | None = None
    granted: float | None = None
    borrowed: float | None = None
    lent: float | None = None


@dataclass(frozen=True, slots=True)
class ModelDivision:
    """One model, divided among tenants."""

    use: ModelUse
    parts: Mapping[str, ModelPart]
    """By tenant, groups included."""
    guaranteed: float
    """The sum of all guarantees of quotas that act."""


def divisions_of(claims: Claims, usage: Usage) -> dict[str, ModelDivision]:
    """The models that a quota is concerned with, by name."""
    listing: dict[str, list[str]] = {}
    for name, spec in claims.specs.items():
        for share in spec.shares:
            listing.setdefault(share.model, []).append(name)
    divisions = {}
    for model, use in usage.models.items():
        tenants = listing.get(model, [])
        if tenants or use.tenant in claims.specs:
            divisions[model] = _division(use, {*tenants, use.tenant}, claims)
    return divisions


def _division(use: ModelUse, tenants: Collection[str], claims: Claims) -> ModelDivision:
    involved = claims.with_ancestors(tenants)
    shadows = {name for name in involved if _mode(claims.specs.get(name)) is QuotaMode.SHADOW}
    acting = _tree(use.model, involved, claims, unbound=shadows)
    parts = _parts(use, acting, involved - shadows)
    if shadows:
        parts |= _parts(use, _tree(use.model, involved, claims, unbound=()), shadows)
    roots = [name for name in involved if claims.parents.get(name) is None]
    guarantees = dict(zip(acting.node_of, acting.by_name(acting.guarantees), strict=True))
    return ModelDivision(use, parts, sum(guarantees[name] for name in sorted(roots)))


def _mode(spec: QuotaSpec | None) -> QuotaMode:
    return QuotaMode.ENFORCE if spec is None else spec.mode


def _tree(model: str, tenants: Iterable[str], claims: Claims, unbound: Collection[str]) -> TenantTree:
    """The tree of the tenants; those `unbound` have neither guarantee nor limit."""
    return TenantTree.of(_tenant(name, model, claims, name in unbound) for name in tenants)


def _tenant(name: str, model: str, claims: Claims, unbound: bool) -> Tenant:
    spec, parent = claims.specs.get(name), claims.parents.get(name)
    if spec is None:
        return Tenant(name, parent=parent)
    share = share_of(spec, model)
    tenant_class = _CLASSES[spec.tenant_class if share is None or share.tenant_class is None else share.tenant_class]
    if unbound or share is None:
        return Tenant(name, weight=spec.weight, tenant_class=tenant_class, parent=parent)
    return Tenant(name, share.guaranteed, share.limit, spec.weight, tenant_class, parent)


def _parts(use: ModelUse, tree: TenantTree, tenants: Collection[str]) -> dict[str, ModelPart]:
    """The parts of these tenants. Nothing is divided while the capacity or what is asked for is unknown."""
    rates, guarantees = use.rates, tree.by_name(tree.guarantees)
    used = _up_the_tree(tree, use.tenant, rates.used)
    if rates.carried is None or rates.asked is None:
        return {
            tenant.name: ModelPart(use.model, guaranteed, used=used.get(tenant.name))
            for tenant, guaranteed in zip(tree.tenants, guarantees, strict=True)
            if tenant.name in tenants
        }
    shares: Shares = share_amounts(tree, {use.tenant: rates.asked}, rates.carried)
    columns = zip(tree.tenants, guarantees, shares.asked, shares.granted, shares.borrowed, shares.lent, strict=True)
    return {
        tenant.name: ModelPart(use.model, guaranteed, asked, used.get(tenant.name), granted, borrowed, lent)
        for tenant, guaranteed, asked, granted, borrowed, lent in columns
        if tenant.name in tenants
    }


def _up_the_tree(tree: TenantTree, tenant: str, used: float | None) -> dict[str, float]:
    """Use by tenant: all of it is that of one tenant, and so of every group above it. Empty while it is unknown."""
    if used is None:
        return {}
    parents = {one.name: one.parent for one in tree.tenants}
    amounts: dict[str, float] = dict.fromkeys(parents, 0.0)
    name: str | None = tenant
    while name is not None:
        amounts[name] = used
        name = parents[name]
    return amounts
