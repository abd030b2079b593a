"""`forebay share`: reads TenantQuotas, divides a capacity among their tenants, and writes who gets what.

Nothing asks a cluster. Quotas in mode Shadow count as if they were enforced: the question is what they would do.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import typer

from forebay.api.tenant_quota import TENANT_QUOTA_KIND, QuotaStatus, TenantQuota
from forebay.cli.manifest_input import read_input
from forebay.planner.share.tenants.claims import Claims, claims_of
from forebay.planner.share.tenants.quota_checks import QuotaCase, faults_of
from forebay.planner.share.tenants.quota_tenants import listings, tree_of_model
from forebay.sharing.shares import Shares, TenantShare, share_amounts
from forebay.sharing.tenant import SharingError
from forebay.world.tenants import TenantQuotaView

DECIMALS = 3
"""Of a token per minute; what is beyond is rounding."""
HEADER = (
    "TENANT",
    "CLASS",
    "WEIGHT",
    "ASKED",
    "GUARANTEED",
    "LIMIT",
    "FAIR SHARE",
    "GRANTED",
    "BORROWED",
    "LENT",
    "SHORT",
)


def run(
    files: Sequence[str], model: str, capacity: float, asks: Sequence[str], output: Literal["table", "json"]
) -> int:
    """Write the shares and return the exit code: 0, or 2 for input that cannot be used."""
    manifests = read_input(files, TENANT_QUOTA_KIND)
    for bad in manifests.bad:
        typer.echo(bad, err=True)
    if manifests.bad:
        return 2
    try:
        shares = _shares(manifests.tenant_quotas, model, capacity, asks)
    except SharingError as error:
        typer.echo(f"forebay share: {error}", err=True)
        return 2
    typer.echo(json.dumps(document(shares, model), indent=2) if output == "json" else "\n".join(table(shares)))
    return 0


def _shares(quotas: Sequence[TenantQuota], model: str, capacity: float, asks: Sequence[str]) -> Shares:
    claims = _claims(quotas)
    listed = sorted(listings(claims))
    if model not in listed:
        raise SharingError(
            f"--model {model}: no TenantQuota lists it in shares; they list {', '.join(listed) or 'none'}"
        )
    asked = dict(map(_ask, asks))
    if len(asked) < len(asks):
        raise SharingError(f"--ask {', '.join(asks)}: a tenant is there twice; give one ask for each")
    return share_amounts(tree_of_model(model, claims), asked, capacity)


def _claims(quotas: Sequence[TenantQuota]) -> Claims:
    """The claims, as if quotas had been created in this order. Raises SharingError for what the operator would report
    in a condition."""
    names: set[str] = set()
    for quota in quotas:
        if quota.metadata.name in names:
            raise SharingError(f"TenantQuota {quota.metadata.name} is there twice; keep one")
        names.add(quota.metadata.name)
    views = [_view(quota, place) for place, quota in enumerate(quotas)]
    claims = claims_of(views, default_tenant="")
    models = frozenset(listings(claims))
    for view in views:
        for fault in faults_of(QuotaCase(view, claims, models, now=0.0)):
            raise SharingError(f"TenantQuota {view.name}: {fault.message}")
    return claims


def _view(quota: TenantQuota, place: int) -> TenantQuotaView:
    return TenantQuotaView(
        name=quota.metadata.name,
        uid=quota.metadata.name,
        generation=1,
        resource_version="",
        created_at=float(place),
        deleting=False,
        spec=quota.spec,
        status=QuotaStatus(),
    )


def _ask(given: str) -> tuple[str, float]:
    name, separator, amount = given.partition("=")
    try:
        if not (name and separator):
            raise ValueError
        return name, float(amount.replace("_", ""))
    except ValueError:
        raise SharingError(f"--ask {given}: write TENANT=TOKENS, such as support=300000") from None


def document(shares: Shares, model: str) -> dict[str, Any]:
    """The result as JSON; amounts are normalized tokens per minute."""
    return {
        "model": model,
        "capacity": _rounded(shares.capacity),
        "tenants": [_entry(tenant) for tenant in shares.tenants],
        "scaledGuarantees": [
            {"group": each.group, "wanted": _rounded(each.wanted), "available": _rounded(each.available)}
            for each in shares.scaled
        ],
    }


def _entry(tenant: TenantShare) -> dict[str, Any]:
    return {
        "name": tenant.name,
        "asked": _rounded(tenant.asked),
        "guaranteed": _rounded(tenant.guaranteed),
        "limit": None if tenant.limit is None else _rounded(tenant.limit),
        "weight": _rounded(tenant.weight),
        "class": tenant.tenant_class.value,
        "fairShare": _rounded(tenant.fair_share),
        "granted": _rounded(tenant.granted),
        "borrowed": _rounded(tenant.borrowed),
        "lent": _rounded(tenant.lent),
        "short": _rounded(tenant.short),
    }


def _rounded(amount: float) -> float:
    """A whole number without a decimal point."""
    rounded = round(float(amount), DECIMALS)
    return int(rounded) if rounded.is_integer() else rounded


def table(shares: Shares) -> Iterator[str]:
    """The lines for a terminal: a row for each tenant, then guarantees that did not fit."""
    rows = [HEADER, *(_row(tenant) for tenant in shares.tenants)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADER))]
    for row in rows:
        cells = [
            cell.ljust(width) if i < 2 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield "  ".join(cells).rstrip()
    for each in shares.scaled:
        whose = f"children of {each.group}" if each.group else "tenants without a parent"
        yield ""
        yield (
            f"Guarantees of {whose} were scaled in proportion: {each.wanted:,.0f} are asked for within them, and there "
            f"are {each.available:,.0f}."
        )


def _row(tenant: TenantShare) -> tuple[str, ...]:
    limit = "-" if tenant.limit is None else f"{tenant.limit:,.0f}"
    amounts = (tenant.fair_share, tenant.granted, tenant.borrowed, tenant.lent, tenant.short)
    return (
        tenant.name,
        tenant.tenant_class.value,
        f"{tenant.weight:g}",
        f"{tenant.asked:,.0f}",
        f"{tenant.guaranteed:,.0f}",
        limit,
        *(f"{amount:,.0f}" for amount in amounts),
    )
