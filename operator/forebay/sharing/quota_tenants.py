"""From TenantQuotas to the tenants among whom one model is divided."""

from collections.abc import Iterable

from forebay.api.tenant_quota import ModelShare, TenantQuota
from forebay.sharing.tenant import SharingError, Tenant, TenantClass


def tenants_of_model(quotas: Iterable[TenantQuota], model: str) -> tuple[Tenant, ...]:
    """The tenants that may call a model, and the groups above them, whose shares of it bound them together.

    A group that does not list the model bounds nothing and counts by its weight. Whether a quota is in mode Shadow is
    for the caller to decide. Raises SharingError for a name that is there twice and for an unknown parent.
    """
    by_name: dict[str, TenantQuota] = {}
    for quota in quotas:
        if by_name.setdefault(quota.metadata.name, quota) is not quota:
            raise SharingError(f"TenantQuota {quota.metadata.name} is there twice; keep one")
    shares = {name: share for name, quota in by_name.items() if (share := _share(quota, model)) is not None}
    named: dict[str, None] = {}
    for name in shares:
        above: str | None = name
        while above is not None and above not in named:
            if above not in by_name:
                child = next(each for each in named if by_name[each].spec.parent == above)
                raise SharingError(
                    f"TenantQuota {child}: spec.parent {above} is no TenantQuota; add it or leave it out"
                )
            named[above] = None
            above = by_name[above].spec.parent
    return tuple(_tenant(by_name[name], shares.get(name)) for name in named)


def _share(quota: TenantQuota, model: str) -> ModelShare | None:
    return next((share for share in quota.spec.shares if share.model == model), None)


def _tenant(quota: TenantQuota, share: ModelShare | None) -> Tenant:
    spec = quota.spec
    tenant_class = share.tenant_class if share and share.tenant_class else spec.tenant_class
    return Tenant(
        quota.metadata.name,
        guaranteed=share.guaranteed if share else None,
        limit=share.limit if share else None,
        weight=spec.weight,
        tenant_class=TenantClass[tenant_class.name],
        parent=spec.parent,
    )
