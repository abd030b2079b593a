"""Quota tenants: what a TenantQuota says about one model or one GPU product, as a tenant among whom it is divided."""

from collections.abc import Mapping

from forebay.planner.share.tenants.claims import Claims, gpu_quota_of
from forebay.sharing.tenant import Tenant
from forebay.sharing.tenant_tree import TenantTree


def tenant_of_model(name: str, model: str, claims: Claims) -> Tenant:
    """A tenant that does not list the model has neither guarantee nor limit; as a group it counts by its weight."""
    spec, parent = claims.specs.get(name), claims.parents.get(name)
    if spec is None:
        return Tenant(name, parent=parent)
    share = claims.shares[name].get(model)
    if share is None:
        return Tenant(name, weight=spec.weight, tenant_class=spec.tenant_class, parent=parent)
    tenant_class = share.tenant_class or spec.tenant_class
    return Tenant(name, share.guaranteed, share.limit, spec.weight, tenant_class, parent)


def tenant_of_product(name: str, product: str, claims: Claims) -> Tenant:
    spec, parent = claims.specs.get(name), claims.parents.get(name)
    if spec is None:
        return Tenant(name, parent=parent)
    entry = gpu_quota_of(spec, product)
    guaranteed, limit = (None, None) if entry is None else (entry.guaranteed, entry.limit)
    return Tenant(name, guaranteed, limit, spec.weight, spec.tenant_class, parent)


def listings(claims: Claims) -> Mapping[str, list[str]]:
    """The tenants that list each model in their shares, by model."""
    listing: dict[str, list[str]] = {}
    for name, shares in claims.shares.items():
        for model in shares:
            listing.setdefault(model, []).append(name)
    return listing


def tree_of_model(model: str, claims: Claims) -> TenantTree:
    """Those that list the model, and the groups above them, every quota as if it acted. Empty when nobody lists it."""
    named = claims.with_ancestors(listings(claims).get(model, ()))
    return TenantTree.of(tenant_of_model(name, model, claims) for name in named)
