"""Builders of TenantQuotas."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from forebay.api.tenant_quota import QuotaSpec, QuotaStatus
from forebay.planner.share.tenants.claims import Claims, claims_of
from forebay.world.tenants import TenantQuotaView
from tests.builders.world import NOW, uid_of


def a_tenant_quota(
    name: str = "support", *, age: float = 3600.0, uid: str | None = None, **spec: Any
) -> TenantQuotaView:
    """A quota that is `age` seconds old. `spec` has the fields of a manifest, such as `tokens` for the shares:
    `tokens={"chat/llama": (guaranteed, limit)}`."""
    tokens = spec.pop("tokens", {})
    if tokens:
        spec["shares"] = [a_share(model, *amounts) for model, amounts in tokens.items()]
    fields = {field.replace("class_", "class"): value for field, value in spec.items()}
    return TenantQuotaView(
        name=name,
        uid=uid or uid_of(name),
        generation=1,
        resource_version="1",
        created_at=NOW - age,
        deleting=False,
        spec=QuotaSpec.model_validate(fields),
        status=QuotaStatus(),
    )


def a_share(model: str, guaranteed: int | None = None, limit: int | None = None) -> dict[str, Any]:
    amounts = {"guaranteed": guaranteed, "limit": limit}
    return {"model": model} | {name: amount for name, amount in amounts.items() if amount is not None}


def unreadable(quota: TenantQuotaView) -> TenantQuotaView:
    return replace(quota, spec=None, problem="spec.weight: 0 is too small; use 1 or more.")


def the_claims(*quotas: TenantQuotaView) -> Claims:
    return claims_of(quotas, "default")


def names_of(quotas: Iterable[TenantQuotaView]) -> list[str]:
    return [quota.name for quota in quotas]
