"""Division: who has how much of each model and of each GPU product, by the water-filling of `sharing`.

A model is divided among the quotas that list it and the tenant that its use counts for, a product among the quotas with
an entry for it and the tenants that ask for it. What is divided is what the serving replicas carry, and the GPUs of the
ready nodes. Quotas in mode Shadow take part in a division of their own, so that the others get what they would get
without them.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from forebay.api.tenant_quota import QuotaMode
from forebay.planner.share.tenants.claims import Claims, gpu_quota_of
from forebay.planner.share.tenants.quota_tenants import listings, tenant_of_model, tenant_of_product
from forebay.planner.share.tenants.usage import UNKNOWN_PRODUCT, ModelUse, Usage
from forebay.sharing.shares import Shares, share_amounts, share_units
from forebay.sharing.tenant import Tenant
from forebay.sharing.tenant_tree import TenantTree


@dataclass(frozen=True, slots=True)
class Part:
    """A tenant's part of one model, in normalized tokens per minute, or of one product, in GPUs. An amount is None
    while it is unknown; for a group it is that of all its members."""

    of: str
    """The model, as namespace/name, or the product."""
    guaranteed: float
    asked: float | None = None
    used: float | None = None
    granted: float | None = None
    borrowed: float | None = None
    lent: float | None = None


@dataclass(frozen=True, slots=True)
class Division:
    """One model or product, divided among tenants."""

    parts: Mapping[str, Part]
    """By tenant, groups included."""
    guaranteed: float = 0.0
    """The sum of all guarantees of quotas that act."""


@dataclass(frozen=True, slots=True)
class ModelDivision(Division):
    use: ModelUse = field(kw_only=True)


@dataclass(frozen=True, slots=True)
class _Divided:
    """What is divided, and what tenants ask for and use of it. None is unknown."""

    of: str
    capacity: float | None
    asked: Mapping[str, Any] | None
    used: Mapping[str, float] | None
    share: Callable[[TenantTree, Mapping[str, Any], Any], Shares]
    tenant: Callable[[str], Tenant]
    """What the quota of a tenant says about it."""


def model_divisions(
    claims: Claims, usage: Usage, trees: dict[str, TenantTree] | None = None
) -> dict[str, ModelDivision]:
    """The models that a quota is concerned with, by name. `trees` remembers the tenants of each model: they follow
    from the claims and the model's namespace alone."""
    listing, divisions = listings(claims), {}
    # In the order of names, so that what is remembered of models does not depend on the order of services.
    for model, use in sorted(usage.models.items()):
        tenants = listing.get(model, [])
        if tenants or use.tenant in claims.specs:
            rates = use.rates
            divided = _Divided(
                model,
                rates.carried,
                None if rates.asked is None else {use.tenant: rates.asked},
                None if rates.used is None else {use.tenant: rates.used},
                share_amounts,
                partial(tenant_of_model, model=model, claims=claims),
            )
            division = _division(divided, {*tenants, use.tenant}, claims, trees)
            divisions[model] = ModelDivision(division.parts, division.guaranteed, use=use)
    return divisions


def product_divisions(claims: Claims, usage: Usage) -> dict[str, Division]:
    """The GPU products that a quota is concerned with. GPUs of services that may use any product are not divided."""
    uses: dict[str, dict[str, tuple[int, int]]] = {product: {} for product in usage.products}
    for (tenant, product), use in usage.gpus.items():
        uses.setdefault(product, {})[tenant] = (use.asked, use.held)
    named = {entry.product for spec in claims.specs.values() for entry in spec.gpus if entry.product is not None}
    divisions = {}
    for product in sorted({*uses, *named}):
        of_product = uses.get(product, {})
        tenants = {name for name, spec in claims.specs.items() if gpu_quota_of(spec, product) is not None}
        if tenants or not claims.specs.keys().isdisjoint(of_product):
            divided = _Divided(
                product,
                None if product == UNKNOWN_PRODUCT else usage.products.get(product, 0),
                {tenant: asked for tenant, (asked, _) in of_product.items()},
                {tenant: held for tenant, (_, held) in of_product.items()},
                share_units,
                partial(tenant_of_product, product=product, claims=claims),
            )
            divisions[product] = _division(divided, {*tenants, *of_product}, claims)
    return divisions


def _division(
    divided: _Divided, tenants: Collection[str], claims: Claims, trees: dict[str, TenantTree] | None = None
) -> Division:
    known = None if trees is None else trees.get(divided.of)
    involved = set(known.node_of) if known is not None else claims.with_ancestors(tenants)
    shadows = {name for name in involved if claims.mode(name) is QuotaMode.SHADOW}
    acting = known or TenantTree.of(_acting(divided.tenant(name), name in shadows) for name in involved)
    if trees is not None:
        trees[divided.of] = acting
    parts = _parts(divided, acting, involved - shadows)
    if shadows:
        parts |= _parts(divided, TenantTree.of(divided.tenant(name) for name in involved), shadows)
    guarantees = zip(acting.tenants, acting.by_name(acting.guarantees), strict=True)
    return Division(parts, sum(guaranteed for tenant, guaranteed in guarantees if tenant.parent is None))


def _acting(tenant: Tenant, shadow: bool) -> Tenant:
    """The tenant; one in mode Shadow as if its quota had neither guarantee nor limit."""
    if not shadow:
        return tenant
    return Tenant(tenant.name, weight=tenant.weight, tenant_class=tenant.tenant_class, parent=tenant.parent)


def _parts(divided: _Divided, tree: TenantTree, tenants: Collection[str]) -> dict[str, Part]:
    """The parts of these tenants. Nothing is divided while the capacity or what is asked for is unknown."""
    used = _up_the_tree(tree, divided.used)
    guarantees = tree.by_name(tree.guarantees)
    if divided.capacity is None or divided.asked is None:
        asked = _up_the_tree(tree, divided.asked)
        return {
            tenant.name: Part(divided.of, guaranteed, asked.get(tenant.name), used.get(tenant.name))
            for tenant, guaranteed in zip(tree.tenants, guarantees, strict=True)
            if tenant.name in tenants
        }
    shares = divided.share(tree, divided.asked, divided.capacity)
    columns = zip(tree.tenants, guarantees, shares.asked, shares.granted, shares.borrowed, shares.lent, strict=True)
    return {
        tenant.name: Part(divided.of, guaranteed, asked_, used.get(tenant.name), granted, borrowed, lent)
        for tenant, guaranteed, asked_, granted, borrowed, lent in columns
        if tenant.name in tenants
    }


def _up_the_tree(tree: TenantTree, amounts: Mapping[str, float] | None) -> dict[str, float]:
    """Each amount counts for its tenant and for every group above it. Empty while it is unknown."""
    if amounts is None:
        return {}
    parents = {tenant.name: tenant.parent for tenant in tree.tenants}
    sums: dict[str, float] = dict.fromkeys(parents, 0.0)
    for tenant in sorted(amounts):
        name: str | None = tenant
        while name is not None:
            sums[name] += amounts[tenant]
            name = parents[name]
    return sums
