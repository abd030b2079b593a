"""The status of a TenantQuota: what it has of each model and GPU product, and two conditions.

It names no other tenant. Amounts that move with the load are rounded to two significant digits.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from forebay.api.reasons import Reason
from forebay.api.tenant_quota import (
    MOST_PRODUCTS,
    MOST_SHARES,
    Attribution,
    GpuShareStatus,
    ModelShareStatus,
    QuotaMode,
    QuotaStatus,
    ShareAmounts,
)
from forebay.planner.memory import TenantMemory
from forebay.planner.observe.fleet_context import FleetContext
from forebay.planner.report.conditions import READY, ConditionAnswer, conditions
from forebay.planner.share.tenants.division import Part
from forebay.planner.share.tenants.tenants import TenantOutcome, TenantOutcomes
from forebay.scaling.decision import count
from forebay.world.plan import TenantPlan
from forebay.world.tenants import TenantQuotaView

GUARANTEES_COVERED: Final = "GuaranteesCovered"
_MOVING: Final = ("asked", "granted", "used", "borrowed", "lent")
"""Amounts that move with the load."""
Shown = Callable[[float | None], int | None]


def tenant_reports(tenants: TenantOutcomes, fleet: FleetContext) -> tuple[tuple[TenantPlan, ...], TenantMemory]:
    """The plans of all quotas, ordered by name, and what is remembered of them."""
    if not tenants.due:
        return _unchanged(tenants, fleet), tenants.memory
    plans = sorted((_plan(outcome, tenants.memory, fleet.now) for outcome in tenants.quotas), key=lambda p: p.name)
    return tuple(plans), replace(tenants.memory, statuses={plan.uid: plan.status for plan in plans})


def _unchanged(tenants: TenantOutcomes, fleet: FleetContext) -> tuple[TenantPlan, ...]:
    quotas = sorted(fleet.world.tenant_quotas or (), key=lambda quota: quota.name)
    statuses = tenants.memory.statuses
    return tuple(TenantPlan(quota.name, quota.uid, statuses[quota.uid]) for quota in quotas if quota.uid in statuses)


def _plan(outcome: TenantOutcome, memory: TenantMemory, now: float) -> TenantPlan:
    quota = outcome.quota
    before = memory.statuses.get(quota.uid, quota.status)
    try:
        status = _failed(quota, before, outcome.error, now) if outcome.error else _status(outcome, before, now)
    except Exception as error:  # noqa: BLE001 - one quota's fault must not hold the others
        status = _failed(quota, before, error, now)
    return TenantPlan(quota.name, quota.uid, status)


def _failed(quota: TenantQuotaView, before: QuotaStatus, error: Exception, now: float) -> QuotaStatus:
    message = f"Planning failed, so the figures of this quota are not current: {type(error).__name__}: {error}"
    answers = [(READY, ConditionAnswer("False", Reason.PLANNING_FAILED, message))]
    kept = tuple(condition for condition in before.conditions if condition.type != READY)
    answered = conditions(answers, before.conditions, quota.generation, now)
    return before.model_copy(update={"conditions": (*answered, *kept)})


def _status(outcome: TenantOutcome, before: QuotaStatus, now: float) -> QuotaStatus:
    answers = [(READY, ready(outcome)), (GUARANTEES_COVERED, guarantees_covered(outcome))]
    models = _most_used(outcome.models, MOST_SHARES)
    products = _most_used(outcome.products, MOST_PRODUCTS)
    return QuotaStatus(
        observed_generation=outcome.quota.generation,
        conditions=conditions(answers, before.conditions, outcome.quota.generation, now),
        attribution=Attribution.NAMESPACE,
        tokens=_sums(outcome.models, rounded),
        gpus=_sums(outcome.products, whole),
        models=tuple(ModelShareStatus(model=part.of, **_amounts(part, rounded)) for part in models),
        gpu_products=tuple(GpuShareStatus(product=part.of, **_amounts(part, whole)) for part in products),
    )


def _most_used(parts: Sequence[Part], most: int) -> Sequence[Part]:
    """All parts, or those with the most use, in the order of names."""
    if len(parts) <= most:
        return parts
    chosen = sorted(parts, key=lambda part: (-(part.used or 0.0), -part.guaranteed, part.of))[:most]
    return sorted(chosen, key=lambda part: part.of)


def ready(outcome: TenantOutcome) -> ConditionAnswer:
    """Whether all of the quota counts as written."""
    spec = outcome.quota.spec
    if outcome.faults:
        message = " ".join(fault.message for fault in outcome.faults)
        counts = "None of the quota counts." if spec is None else "The rest of the quota counts."
        return ConditionAnswer("False", outcome.faults[0].reason, f"{message} {counts}")
    shadow = spec is not None and spec.mode is QuotaMode.SHADOW
    content = f"{count(len(outcome.models), 'model')} and {count(len(outcome.products), 'GPU product')}"
    by_namespace = "What a service uses counts for the tenant of its namespace, whoever called it."
    if shadow:
        would = f"Shadow: the quota changes nothing. The status shows what it would have of {content}."
        return ConditionAnswer("True", Reason.SHADOW, f"{would} {by_namespace}")
    return ConditionAnswer("True", Reason.QUOTA_ACTIVE, f"All of the quota counts, for {content}. {by_namespace}")


def guarantees_covered(outcome: TenantOutcome) -> ConditionAnswer:
    """Whether what the quota guarantees can be kept, now and at the windows of the next hour."""
    if outcome.shortage is not None:
        return ConditionAnswer("False", outcome.shortage.reason, outcome.shortage.message)
    if outcome.capacity_unknown:
        models = ", ".join(outcome.capacity_unknown[:3])
        return ConditionAnswer(
            "Unknown",
            Reason.CAPACITY_UNKNOWN,
            f"What a replica carries is unknown for {count(len(outcome.capacity_unknown), 'model')} with a guarantee, "
            f"such as {models}.",
        )
    if not any(part.guaranteed for part in (*outcome.models, *outcome.products)):
        return ConditionAnswer("True", Reason.NO_GUARANTEES, "The quota guarantees nothing.")
    return ConditionAnswer(
        "True",
        Reason.COVERED,
        "Models and nodes have enough for all guarantees, now and at the peaks of the next hour.",
    )


def should_write_quota(
    stored: QuotaStatus, wanted: QuotaStatus, written_seconds_ago: float, telemetry_seconds: float
) -> bool:
    """Whether the status is worth a write: conditions and guarantees at once, telemetry and wording at most every
    `telemetry_seconds`."""
    if wanted == stored:
        return False
    if _acted_on(wanted) != _acted_on(stored):
        return True
    return written_seconds_ago >= telemetry_seconds


def _acted_on(status: QuotaStatus) -> object:
    return (
        status.observed_generation,
        status.attribution,
        None if status.tokens is None else status.tokens.guaranteed,
        None if status.gpus is None else status.gpus.guaranteed,
        sorted((c.type, c.status, c.reason, c.observed_generation) for c in status.conditions),
    )


def _amounts(part: Part, shown: Shown) -> dict[str, int | None]:
    return {"guaranteed": round(part.guaranteed)} | {name: shown(getattr(part, name)) for name in _MOVING}


def _sums(parts: Sequence[Part], shown: Shown) -> ShareAmounts:
    """The sum of each amount; absent while it is unknown for one of the parts, since a part is not the whole."""
    sums: dict[str, int | None] = {"guaranteed": round(sum(part.guaranteed for part in parts))}
    for name in _MOVING:
        amounts = [getattr(part, name) for part in parts]
        sums[name] = None if None in amounts else shown(sum(amounts))
    return ShareAmounts(**sums)


def rounded(amount: float | None) -> int | None:
    """Two significant digits, so that noise does not change the status; None stays None."""
    return None if amount is None else int(float(f"{max(0.0, amount):.2g}"))


def whole(amount: float | None) -> int | None:
    return None if amount is None else round(amount)
